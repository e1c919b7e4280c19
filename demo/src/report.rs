//! The outcome of a run: a table for the terminal, `report.json` for programs, `report.html` for people.

mod chart;
mod html;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::arguments::RunArguments;
use crate::fault::FAULTY_ZONE;
use crate::measure::{Figures, PhaseFigures, Record, ZoneFigures, figures};
use crate::observe::Decision;
use crate::policy::Policy;
use crate::timeline::Timeline;
use crate::verdict::{Check, Verdict, checks, percent};

/// `report.json`. Shares are fractions from 0 to 1; what could not be measured is null.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// What happened, in a sentence.
    pub(crate) headline: String,
    /// As on the command line.
    pub(crate) fault: String,
    /// The fault in words.
    pub(crate) description: String,
    /// Requests a second from each zone under each policy.
    pub(crate) rate: u32,
    /// Seconds from the start of the load.
    pub(crate) timeline: Moments,
    /// A reason to doubt the figures.
    pub(crate) caution: Option<String>,
    /// Whether every promise was kept.
    pub(crate) verdict: Verdict,
    /// One for each policy.
    pub(crate) runs: Vec<Run>,
}

/// Moments of the run, in seconds from the start of the load.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Moments {
    pub(crate) baseline: u32,
    pub(crate) fault: u32,
    pub(crate) heal: u32,
    pub(crate) end: u32,
}

/// What became of one policy.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) verdict: Verdict,
    pub(crate) checks: Vec<Check>,
    /// Changes of the pools with their reasons, in order of time.
    pub(crate) decisions: Vec<ZoneDecision>,
    #[serde(skip)]
    pub(crate) policy: Policy,
}

/// A decision of one zone's proxy.
#[derive(Debug, Serialize)]
pub(crate) struct ZoneDecision {
    pub(crate) zone: &'static str,
    #[serde(flatten)]
    pub(crate) decision: Decision,
}

/// Decisions of one policy that the report holds; a proxy that decides more often than that has another problem.
const DECISIONS_MAX: usize = 2000;

/// The files that were written.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) html: PathBuf,
    pub(crate) json: PathBuf,
}

impl Report {
    /// Computes and judges the figures.
    pub(crate) fn new(arguments: &RunArguments, timeline: &Timeline, records: &[Record]) -> Self {
        let runs: Vec<Run> =
            records.iter().map(|record| Run::new(record, arguments, timeline)).collect();
        let all: Vec<Check> = runs.iter().flat_map(|run| run.checks.clone()).collect();
        let Timeline { baseline, fault, heal, end } = *timeline;
        Self {
            headline: headline(&runs),
            fault: arguments.fault.to_string(),
            description: arguments.fault.describe(),
            rate: arguments.rate,
            timeline: Moments { baseline, fault, heal, end },
            caution: caution(&runs),
            verdict: Verdict::of(&all),
            runs,
        }
    }
}

impl Run {
    fn new(record: &Record, arguments: &RunArguments, timeline: &Timeline) -> Self {
        let figures = figures(record, timeline);
        let checks = checks(record.policy, arguments.fault, &figures);
        let of_zone = record.zones.iter().flat_map(|zone| {
            let decisions = zone.observed.decisions.iter();
            decisions.map(|decision| ZoneDecision { zone: zone.zone, decision: decision.clone() })
        });
        let mut decisions: Vec<ZoneDecision> = of_zone.collect();
        decisions.sort_by(|one, other| one.decision.at.total_cmp(&other.decision.at));
        decisions.truncate(DECISIONS_MAX);
        Self { figures, verdict: Verdict::of(&checks), checks, decisions, policy: record.policy }
    }

    /// A phase by its name.
    pub(crate) fn phase(&self, name: &str) -> Option<&PhaseFigures> {
        self.figures.phases.iter().find(|phase| phase.name == name)
    }

    /// The failing zone's callers in the fault.
    pub(crate) fn callers_in_fault(&self) -> Option<&ZoneFigures> {
        self.phase("fault").and_then(|phase| phase.zones.get(FAULTY_ZONE))
    }
}

fn headline(runs: &[Run]) -> String {
    let told = |run: &Run| {
        let success = share(run.callers_in_fault().and_then(|callers| callers.success));
        match run.policy {
            Policy::Pinned => {
                format!("strict zone pinning answered {success} of its callers’ requests")
            }
            Policy::Adaptive => format!("Tidegate answered {success}"),
            Policy::P2c => format!("balancing without zones answered {success}"),
            Policy::Hazl => format!("Tidegate with HAZL’s load band answered {success}"),
        }
    };
    // The sentence is about pinning and Tidegate's default; other policies have their own figures below it.
    let is_main = |run: &&Run| matches!(run.policy, Policy::Pinned | Policy::Adaptive);
    let main: Vec<&Run> = runs.iter().filter(is_main).collect();
    let told: Vec<String> = if main.is_empty() {
        runs.iter().map(told).collect()
    } else {
        main.into_iter().map(told).collect()
    };
    match told.split_last() {
        Some((last, [])) => format!("While zone {FAULTY_ZONE} failed, {last}."),
        Some((last, others)) => {
            format!("While zone {FAULTY_ZONE} failed, {}; {last}.", others.join("; "))
        }
        None => String::new(),
    }
}

/// A baseline without any fault that is worse than this means that the machine had no time for the load.
const BASELINE_SUCCESS_MIN: f64 = 0.99;

fn caution(runs: &[Run]) -> Option<String> {
    let baselines = runs.iter().filter_map(|run| run.phase("baseline"));
    let success = baselines.flat_map(|phase| phase.zones.values()).filter_map(|zone| zone.success);
    let worst = success.fold(1.0, f64::min);
    (worst < BASELINE_SUCCESS_MIN).then(|| {
        format!(
            "Only {} of some callers’ requests were answered before anything failed: the machine was too busy for this \
             load, and the other figures say little. Try again when it is calm, or with a lower --rate.",
            percent(worst)
        )
    })
}

/// Writes `report.html` and `report.json`.
pub(crate) fn write(report: &Report, records: &[Record], folder: &Path) -> anyhow::Result<Files> {
    let files = Files { html: folder.join("report.html"), json: folder.join("report.json") };
    let put = |path: &Path, text: String| {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    put(&files.json, serde_json::to_string_pretty(report)? + "\n")?;
    put(&files.html, html::page(report, records))?;
    Ok(files)
}

/// The table for the terminal.
pub(crate) fn table(report: &Report) -> String {
    let mut lines = vec![String::new(), report.headline.clone(), String::new()];
    lines.push(row(&[
        "policy",
        "phase",
        "callers",
        "requests",
        "success",
        "first 5 s",
        "no retries",
        "p50",
        "p99",
        "cross-zone",
    ]));
    for run in &report.runs {
        for phase in &run.figures.phases {
            lines.extend(phase.zones.iter().map(|(zone, figures)| {
                let names = [run.figures.policy, phase.name, zone];
                row(&cells(names, figures).each_ref().map(String::as_str))
            }));
        }
    }
    for run in &report.runs {
        lines.push(String::new());
        let local = run
            .figures
            .seconds_to_local
            .map_or_else(|| "not reached".to_owned(), |seconds| format!("{seconds} s"));
        lines.push(format!("{}: back to > 99 % local after the heal: {local}", run.figures.policy));
        lines.extend(run.checks.iter().map(|check| {
            let mark = if check.holds { "ok    " } else { "MISSED" };
            format!("  {mark}  {}: {} (wanted {})", check.what, check.measured, check.wanted)
        }));
    }
    lines.extend(report.caution.iter().flat_map(|caution| [String::new(), caution.clone()]));
    lines.push(String::new());
    lines.push(
        match report.verdict {
            Verdict::Holds => "All that is promised for this fault holds.",
            Verdict::Fails => "Not all that is promised for this fault holds.",
            Verdict::NotJudged => "Nothing is promised for these policies under this fault.",
        }
        .to_owned(),
    );
    lines.join("\n")
}

fn cells(names: [&str; 3], figures: &ZoneFigures) -> [String; 10] {
    let [policy, phase, zone] = names.map(str::to_owned);
    [
        policy,
        phase,
        zone,
        figures.requests.to_string(),
        share(figures.success),
        share(figures.success_first_5s),
        share(figures.attempt_success),
        milliseconds(figures.p50_ms),
        milliseconds(figures.p99_ms),
        share(figures.cross_zone),
    ]
}

fn row(cells: &[&str; 10]) -> String {
    let [policy, phase, callers, rest @ ..] = cells;
    let numbers: String =
        rest.iter().fold(String::new(), |numbers, cell| numbers + &format!(" {cell:>10}"));
    format!("{policy:9} {phase:9} {callers:7}{numbers}")
}

/// A share as a percentage, or a dash.
fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), percent)
}

/// A latency, or a dash.
fn milliseconds(ms: Option<f64>) -> String {
    match ms {
        None => "–".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) => format!("{ms:.0} ms"),
    }
}

#[cfg(test)]
mod tests;
