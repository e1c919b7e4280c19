//! The zone valve beside its peers, and against what an earlier model of all of them showed.

use crate::jobs::Results;
use crate::measure::Measured;
use crate::policy::PolicyKind;
use crate::table::Table;
use crate::verify::{Selection, job};
use anyhow::Result;
use serde::Serialize;

/// The columns.
pub const COLUMNS: [PolicyKind; 7] = [
    PolicyKind::Valve,
    PolicyKind::ValveRetry,
    PolicyKind::Strict,
    PolicyKind::Envoy,
    PolicyKind::Istio,
    PolicyKind::Hazl,
    PolicyKind::P2cPeak,
];

/// Columns without expectation.
pub const FURTHER: [PolicyKind; 3] =
    [PolicyKind::Consul, PolicyKind::P2cLeast, PolicyKind::RoundRobin];

/// Success of zone 0 and crossing of all requests in the fault, in per cent, mean of the seeds: what is expected.
const EXPECTED: &[(&str, &str)] = &[
    ("steady.gw", "100/0 100/0 100/0 100/0 100/0 100/67 100/67"),
    ("demo.ff", "99.4/33 100/33 0.0/0 24.9/8 99.5/33 99.4/33 42.8/66"),
    ("ff.c30", "98.0/33 99.9/33 0.0/0 39.7/13 97.9/32 97.4/32 43.6/67"),
    ("ff.c300", "94.4/32 99.5/33 0.0/0 36.3/12 79.2/26 74.7/25 45.1/67"),
    ("hang.c30", "97.9/33 100/33 0.0/0 38.9/13 94.6/32 95.6/32 90.7/67"),
    ("slow10.c30", "98.5/32 100/32 1.8/0 41.8/13 94.7/31 82.8/24 92.5/67"),
    ("part10.c30", "98.2/27 100/28 90.0/0 90.0/0 90.0/0 90.0/0 96.5/66"),
    ("part30.c30", "98.2/31 99.9/32 69.7/0 75.1/6 75.2/6 70.1/0 88.7/66"),
    ("heavyz.c3", "100/25 100/25 33.7/0 54.0/20 92.1/62 100/61 100/66"),
    ("heavyz.c300", "100/17 100/17 37.4/0 88.9/9 87.4/10 71.0/5 100/66"),
    ("uneven.c30", "100/7 100/7 29.2/0 100/17 98.1/27 100/8 100/66"),
    ("one.ff", "99.4/0 100/0 50.8/0 99.5/6 99.5/0 99.3/0 83.5/67"),
    ("rem.ff", "100/33 100/33 100/0 100/13 100/33 100/32 43.5/66"),
    ("gover.c30", "63.3/31 62.7/32 34.3/0 45.3/28 44.8/62 57.9/62 35.2/67"),
];

/// Tolerance in points; in global overload all queues are at the timeout, and little decides.
const TOLERANCE: f64 = 1.0;
const TOLERANCE_OVERLOAD: f64 = 10.0;

/// A cell of the comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The scenario.
    pub scenario: &'static str,
    /// The policy.
    pub policy: PolicyKind,
    /// Success of zone 0 in the fault, in per cent.
    pub ok: f64,
    /// Crossing of all requests in the fault.
    pub cross: f64,
    /// 99th percentile of zone 0 in the fault, in milliseconds.
    pub p99: f64,
    /// What is expected of success and crossing.
    pub expected: Option<(f64, f64)>,
}

impl Cell {
    /// Whether it is as expected, or nothing is expected.
    pub fn within(&self) -> bool {
        let tolerance =
            if self.scenario.starts_with("gover") { TOLERANCE_OVERLOAD } else { TOLERANCE };
        // Expectations are rounded to whole points of crossing.
        self.expected.is_none_or(|(ok, cross)| {
            (self.ok - ok).abs() <= tolerance && (self.cross - cross).abs() <= tolerance + 0.5
        })
    }
}

/// Runs all cells that are selected.
pub fn compare(selection: &Selection, results: &mut Results) -> Result<Vec<Cell>> {
    let wanted = |name: &str| {
        selection.pattern.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()))
    };
    let rows: Vec<_> = EXPECTED.iter().filter(|(name, _)| wanted(name)).collect();
    let policies = || COLUMNS.into_iter().chain(FURTHER);
    let mut jobs = Vec::new();
    for (scenario, _) in &rows {
        for policy in policies() {
            for seed in &selection.seeds {
                jobs.push(job(scenario, policy, *seed)?);
            }
        }
    }
    results.add(jobs);
    let cell = |scenario: &'static str, policy: PolicyKind, expected| {
        let mean = |of: fn(&Measured) -> f64| {
            let runs =
                selection.seeds.iter().filter_map(|seed| results.of(scenario, policy, *seed));
            runs.map(of).sum::<f64>() / selection.seeds.len() as f64
        };
        Cell {
            scenario,
            policy,
            ok: mean(|m| m.ok),
            cross: mean(|m| m.xf),
            p99: mean(|m| m.p99),
            expected,
        }
    };
    let cell = &cell;
    let cells = rows.iter().flat_map(|(scenario, expected)| {
        policies()
            .zip(pairs(expected))
            .map(move |(policy, expected)| cell(scenario, policy, expected))
    });
    Ok(cells.collect())
}

/// The expectations of a row, column by column; none for the further columns.
fn pairs(row: &str) -> impl Iterator<Item = Option<(f64, f64)>> {
    let pair = |cell: &str| {
        cell.split_once('/').and_then(|(ok, cross)| Some((ok.parse().ok()?, cross.parse().ok()?)))
    };
    row.split(' ').map(pair).chain(std::iter::repeat(None))
}

/// The cells as a table: success / crossing, those outside of the tolerance with what was expected.
pub fn table(cells: &[Cell]) -> String {
    let titles = COLUMNS.iter().chain(&FURTHER).map(|policy| policy.title());
    let mut table = Table::new(&std::iter::once("scenario").chain(titles).collect::<Vec<_>>());
    for row in cells.chunk_by(|a, b| a.scenario == b.scenario) {
        let name = row[0].scenario.to_owned();
        table.row(std::iter::once(name).chain(row.iter().map(text)).collect());
    }
    table.text()
}

/// How many cells are as expected, as a sentence, and the 99th percentiles where zones are unevenly loaded.
pub fn summary(cells: &[Cell]) -> String {
    let (checked, outside) = cells
        .iter()
        .filter(|cell| cell.expected.is_some())
        .fold((0, 0), |(n, out), cell| (n + 1, out + u32::from(!cell.within())));
    let p99 = cells.iter().filter(|cell| cell.scenario == "heavyz.c300");
    let p99: Vec<String> =
        p99.map(|cell| format!("{} {:.0}", cell.policy.title(), cell.p99)).collect();
    format!(
        "{checked} cells with an expectation, {outside} outside of it; p99 of heavyz.c300 in ms: {}",
        p99.join(", ")
    )
}

fn text(cell: &Cell) -> String {
    let ok = if cell.ok >= 99.95 { "100".to_owned() } else { format!("{:.1}", cell.ok) };
    let measured = format!("{ok}/{:.0}", cell.cross);
    match cell.expected {
        Some((ok, cross)) if !cell.within() => format!("{measured} (≠ {ok}/{cross})"),
        _ => measured,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_expectation_is_a_scenario_with_a_pair_for_each_column() {
        for (scenario, row) in EXPECTED {
            assert!(Scenario::named(scenario).is_some(), "{scenario}");
            assert_eq!(pairs(row).take_while(Option::is_some).count(), COLUMNS.len(), "{scenario}");
        }
    }
}
