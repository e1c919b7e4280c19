//! The simulation's part of `docs/benchmarks.md`, between two markers.

use crate::compare::{self, Cell};
use crate::policy::PolicyKind;
use crate::random::{self, Outcome};
use crate::table::{Table, number};
use crate::verify::{self, Verdict};
use anyhow::{Result, bail};

/// Everything that is reported.
#[derive(Debug)]
pub struct Findings {
    /// Bounds.
    pub verdicts: Vec<Verdict>,
    /// Comparison.
    pub cells: Vec<Cell>,
    /// Random scenarios.
    pub outcome: Outcome,
    /// The command that makes the report.
    pub command: String,
}

const BEGIN: &str = "<!-- simulation: generated, do not edit -->\n";
const END: &str = "<!-- simulation: end -->\n";
/// Points of success that a peer must be better by to be named.
const BETTER: f64 = 0.5;
/// Rows of the table of random scenarios.
const RANDOM_ROWS: usize = 12;

/// The text with its generated part replaced.
pub fn inserted(document: &str, findings: &Findings) -> Result<String> {
    let Some((before, rest)) = document.split_once(BEGIN) else {
        bail!("no line {}", BEGIN.trim_end())
    };
    let Some((_, after)) = rest.split_once(END) else { bail!("no line {}", END.trim_end()) };
    Ok(format!("{before}{BEGIN}{}{END}{after}", text(findings)))
}

fn text(findings: &Findings) -> String {
    let Findings { verdicts, cells, outcome, command } = findings;
    format!(
        "\nMade by `{command}`.\n\n\
         ### What must hold\n\n{}. The columns give the lowest, the mean and the highest of the seeds; every single one must \
         keep the bound. `ok5`, `ok30`, `ok`: success of the callers in the troubled zone in the first 5 s, the first 30 s and \
         the whole fault, in per cent; `others`: the same of all other callers in the whole fault; `xs`, `xf`: share of all \
         requests that leave their zone before and in the fault, in per cent; `p50`, `p99`: latency in ms, failures and timeouts included; `std`: standard deviation of the crossing share from \
         second to second, in points; `t95`: seconds to 95 % success; `back`: seconds from the end of the fault to at most 1 % \
         crossing; `drift`: largest deviation of the learnt latency from its mean, in per cent. `/strict`, `-strict`: ratio to, \
         difference from a balancer that never leaves its zone. Row 17: once in ten seconds all processes (`still`), or all \
         servers only (`stuck`), stand still for 0.25 or 0.4 s. \n\n{}\n\
         ### Beside its peers\n\nModels of their published rules, not the products. Success of the callers in the troubled zone / \
         crossing of all requests, in the fault, in per cent, mean of the seeds. {}.\n\n{}\n\
         ### Scenarios that no one chose\n\n{}\n\nThe {RANDOM_ROWS} greatest losses:\n\n{}\n\
         ### Where it loses\n\n{}\n",
        verify::summary(verdicts),
        verify::table(verdicts),
        compare::summary(cells),
        compare::table(cells),
        random::summary(outcome).replace('\n', "  \n"),
        random::table(outcome, RANDOM_ROWS),
        losses(cells, outcome)
    )
}

/// Who is better where: more success, or as much with less crossing.
fn losses(cells: &[Cell], outcome: &Outcome) -> String {
    let mut table = Table::new(&[
        "scenario",
        "ok",
        "cross",
        "p99 ms",
        "peer",
        "its ok",
        "its cross",
        "its p99 ms",
    ]);
    for row in cells.chunk_by(|a, b| a.scenario == b.scenario) {
        let Some(own) = row.iter().find(|cell| cell.policy == PolicyKind::Valve) else { continue };
        let peers = row
            .iter()
            .filter(|cell| !matches!(cell.policy, PolicyKind::Valve | PolicyKind::ValveRetry));
        for peer in peers {
            let more = peer.ok > own.ok + BETTER;
            let cheaper = peer.ok >= own.ok - 0.05 && peer.cross < own.cross - 1.0;
            let faster = peer.ok >= own.ok - 0.05 && peer.p99 < 0.8 * own.p99;
            if more || cheaper || faster {
                table.row(vec![
                    own.scenario.to_owned(),
                    number(own.ok),
                    number(own.cross),
                    number(own.p99),
                    peer.policy.title().to_owned(),
                    number(peer.ok),
                    number(peer.cross),
                    number(peer.p99),
                ]);
            }
        }
    }
    let worse = outcome.contests.iter().filter(|contest| contest.loss > BETTER).count();
    format!(
        "Peers that have more success, or as much with less crossing or a 99th percentile lower by a fifth:\n\n{}\n\
         In {worse} of {} random scenarios the best peer has more than {BETTER} points more success.",
        table.text(),
        outcome.contests.len()
    )
}
