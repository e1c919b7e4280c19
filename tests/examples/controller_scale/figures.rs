//! What was measured, as tables.

use std::time::Duration;
use tests::controller::Controller;

/// What a measurement found.
pub(crate) struct Outcome {
    pub(crate) cluster: String,
    pub(crate) readers: String,
    pub(crate) figures: Figures,
}

/// The figures of a measurement.
pub(crate) struct Figures {
    count: usize,
    per_second: f64,
    /// Median, 99 % and longest.
    quantiles: [Duration; 3],
    resident_mib: u64,
    resident_mib_max: u64,
    cores: f64,
}

/// What a measurement is to keep to.
pub(crate) struct Goal {
    pub(crate) p50: Option<Duration>,
    pub(crate) p99: Duration,
    pub(crate) resident_mib: Option<u64>,
    pub(crate) cores: Option<f64>,
}

impl Figures {
    pub(crate) fn of(
        mut latencies: Vec<Duration>,
        per_second: f64,
        controller: &Controller,
        used: Duration,
        lasted: Duration,
    ) -> Self {
        latencies.sort();
        let quantile = |permille: usize| {
            let place = latencies.len().saturating_sub(1) * permille / 1000;
            latencies.get(place).copied().unwrap_or_default()
        };
        Self {
            count: latencies.len(),
            per_second,
            quantiles: [500, 990, 1000].map(quantile),
            resident_mib: controller.process.resident_kib() / 1024,
            resident_mib_max: controller.process.resident_kib_max() / 1024,
            cores: used.as_secs_f64() / lasted.as_secs_f64(),
        }
    }
}

impl Outcome {
    fn row(&self) -> String {
        let Figures { count, per_second, quantiles, resident_mib, resident_mib_max, cores } =
            &self.figures;
        let [median, late, longest] = quantiles;
        format!(
            "| {} | {} | {per_second:.0}/s | {count} | {median:.1?} | {late:.1?} | {longest:.1?} | {resident_mib} MiB, {resident_mib_max} MiB | {cores:.2} |",
            self.cluster, self.readers
        )
    }

    /// Each goal, what was measured, and whether it holds.
    fn verdicts(&self, goal: &Goal) -> Vec<String> {
        let [median, late, _] = self.figures.quantiles;
        let mut verdicts = Vec::new();
        let mut judge = |what: &str, goal: String, measured: String, holds: bool| {
            let verdict = if holds { "holds" } else { "**missed**" };
            let readers = &self.readers;
            verdicts.push(format!("| {readers}: {what} | ≤ {goal} | {measured} | {verdict} |"));
        };
        if let Some(limit) = goal.p50 {
            judge("p50", format!("{limit:?}"), format!("{median:.1?}"), median <= limit);
        }
        judge("p99", format!("{:?}", goal.p99), format!("{late:.1?}"), late <= goal.p99);
        if let Some(limit) = goal.resident_mib {
            let most = self.figures.resident_mib_max;
            let measured = format!("{most} MiB at most");
            judge("memory of the controller", format!("{limit} MiB"), measured, most <= limit);
        }
        if let Some(limit) = goal.cores {
            let cores = self.figures.cores;
            let measured = format!("{cores:.2} cores");
            judge("CPU of the controller", format!("{limit} core"), measured, cores <= limit);
        }
        verdicts
    }
}

/// Both tables, as Markdown.
pub(crate) fn tables(outcomes: &[(Outcome, Goal)]) -> String {
    let mut lines = vec![
        "| cluster | who listens | changes | heard | p50 | p99 | longest | controller's memory now, most | controller's cores |".to_owned(),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |".to_owned(),
    ];
    lines.extend(outcomes.iter().map(|(outcome, _)| outcome.row()));
    lines.extend(
        ["", "| what | goal | measured | |", "| --- | --- | --- | --- |"].map(str::to_owned),
    );
    lines.extend(outcomes.iter().flat_map(|(outcome, goal)| outcome.verdicts(goal)));
    lines.join("\n")
}
