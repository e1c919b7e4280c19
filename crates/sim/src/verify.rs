//! Holds the zone valve to what is promised of it.

use crate::jobs::{Job, Results};
use crate::measure::Measured;
use crate::policy::PolicyKind;
use crate::scenario::Scenario;
use crate::table::{Table, number};
use crate::verify::rows::ROWS;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::sync::Arc;

mod rows;

/// Which checks, on which seeds.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Only scenarios whose name contains this.
    pub pattern: Option<String>,
}

/// A check and what was measured for it.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// Row of the specification.
    pub row: &'static str,
    /// The scenario.
    pub scenario: String,
    /// Plain or with retries.
    pub policy: PolicyKind,
    /// What is measured, with what it is set against.
    pub measure: String,
    /// The bound.
    pub bound: Bound,
    /// Measured, seed by seed. A window that never came is infinite.
    pub values: Vec<f64>,
    /// Whether the bound holds in every seed.
    pub holds: bool,
}

/// A bound, itself allowed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// From below.
    AtLeast(f64),
    /// From above.
    AtMost(f64),
}

/// A parsed check.
#[derive(Clone, Debug)]
struct Check {
    policy: PolicyKind,
    measure: String,
    metric: Metric,
    against: Option<(Relation, Reference)>,
    bound: Bound,
}

type Metric = fn(&Measured) -> f64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Ratio,
    Difference,
}

/// What a measurement is set against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// Policy strict in the same scenario.
    Strict,
    /// The same policy without fault.
    Steady,
}

/// Runs all that is selected and judges it.
pub fn verify(selection: &Selection, results: &mut Results) -> Result<Vec<Verdict>> {
    let checks = selected(selection.pattern.as_deref())?;
    let mut jobs = Vec::new();
    for (_, scenario, check) in &checks {
        for seed in &selection.seeds {
            jobs.push(job(scenario, check.policy, *seed)?);
            if let Some((_, reference)) = check.against {
                let (scenario, policy) = reference.run(scenario, check.policy);
                jobs.push(job(&scenario, policy, *seed)?);
            }
        }
    }
    results.add(jobs);
    checks
        .into_iter()
        .map(|(row, scenario, check)| judge((row, scenario), &check, &selection.seeds, results))
        .collect()
}

/// The verdicts as a table.
pub fn table(verdicts: &[Verdict]) -> String {
    let mut table =
        Table::new(&["#", "scenario", "policy", "measure", "bound", "min", "mean", "max", ""]);
    for verdict in verdicts {
        let values = &verdict.values;
        let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(f64::NAN);
        table.row(vec![
            verdict.row.to_owned(),
            verdict.scenario.clone(),
            verdict.policy.title().to_owned(),
            verdict.measure.clone(),
            verdict.bound.text(),
            precise(fold(f64::min)),
            precise(fold(|a, b| a + b) / values.len() as f64),
            precise(fold(f64::max)),
            if verdict.holds { "ok" } else { "FAIL" }.to_owned(),
        ]);
    }
    table.text()
}

/// How many verdicts hold, as a sentence.
pub fn summary(verdicts: &[Verdict]) -> String {
    let failed = verdicts.iter().filter(|verdict| !verdict.holds).count();
    let seeds = verdicts.first().map_or(0, |verdict| verdict.values.len());
    format!("{} checks on {seeds} seeds, {failed} failed", verdicts.len())
}

/// A job of a named scenario.
pub fn job(scenario: &str, policy: PolicyKind, seed: u64) -> Result<Job> {
    let scenario = Scenario::named(scenario)
        .with_context(|| format!("no scenario {scenario}: see `sim list`"))?;
    Ok(Job { scenario: Arc::new(scenario), policy, seed })
}

/// The names of all scenarios that are checked.
pub fn scenarios() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|(_, scenarios, _)| scenarios.split(' '))
}

fn selected(pattern: Option<&str>) -> Result<Vec<(&'static str, &'static str, Check)>> {
    let mut selected = Vec::new();
    for (row, scenarios, checks) in ROWS {
        let checks: Vec<Check> = checks.split(' ').map(parsed).collect::<Result<_>>()?;
        for scenario in
            scenarios.split(' ').filter(|name| pattern.is_none_or(|pattern| name.contains(pattern)))
        {
            selected.extend(checks.iter().map(|check| (*row, scenario, check.clone())));
        }
    }
    if selected.is_empty() {
        bail!("no checked scenario has {} in its name", pattern.unwrap_or_default());
    }
    Ok(selected)
}

fn judge(
    (row, scenario): (&'static str, &str),
    check: &Check,
    seeds: &[u64],
    results: &Results,
) -> Result<Verdict> {
    let value = |seed: &u64| {
        let measured = |scenario: &str, policy| {
            results
                .of(scenario, policy, *seed)
                .map(check.metric)
                .with_context(|| format!("{scenario} was not run"))
        };
        let own = measured(scenario, check.policy)?;
        let Some((relation, reference)) = check.against else { return Ok(own) };
        let (scenario, policy) = reference.run(scenario, check.policy);
        let other = measured(&scenario, policy)?;
        Ok(match relation {
            Relation::Ratio => own / other,
            Relation::Difference => own - other,
        })
    };
    let values: Vec<f64> = seeds.iter().map(value).collect::<Result<_>>()?;
    Ok(Verdict {
        row,
        scenario: scenario.to_owned(),
        policy: check.policy,
        measure: check.measure.clone(),
        bound: check.bound,
        holds: values.iter().all(|value| check.bound.holds(*value)),
        values,
    })
}

impl Bound {
    /// Whether a value is inside; one that is not a number is not.
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("≥ {bound}"),
            Self::AtMost(bound) => format!("≤ {bound}"),
        }
    }
}

impl Reference {
    fn run(self, scenario: &str, policy: PolicyKind) -> (String, PolicyKind) {
        match self {
            Self::Strict => (scenario.to_owned(), PolicyKind::Strict),
            Self::Steady => {
                let base = scenario.rsplit('.').next().unwrap_or(scenario);
                (format!("steady.{base}"), policy)
            }
        }
    }
}

fn parsed(text: &str) -> Result<Check> {
    let (policy, rest) = match text.strip_prefix("retry:") {
        Some(rest) => (PolicyKind::ValveRetry, rest),
        None => (PolicyKind::Valve, text),
    };
    let number = |value: &str| value.parse().with_context(|| format!("{text}: not a number"));
    let (measure, bound) = if let Some((measure, value)) = rest.split_once(">=") {
        (measure, Bound::AtLeast(number(value)?))
    } else if let Some((measure, value)) = rest.split_once("<=") {
        (measure, Bound::AtMost(number(value)?))
    } else {
        bail!("{text}: expected >= or <=");
    };
    let (name, against) = match measure.split_once(['/', '-']) {
        None => (measure, None),
        Some((name, reference)) => {
            let relation =
                if measure.contains('/') { Relation::Ratio } else { Relation::Difference };
            let reference = match reference {
                "strict" => Reference::Strict,
                "steady" => Reference::Steady,
                _ => bail!("{text}: no reference {reference}"),
            };
            (name, Some((relation, reference)))
        }
    };
    let metric = metric(name).with_context(|| format!("{text}: no measure {name}"))?;
    Ok(Check { policy, measure: measure.to_owned(), metric, against, bound })
}

fn metric(name: &str) -> Option<Metric> {
    Some(match name {
        "ok5" => |m| m.ok5,
        "ok30" => |m| m.ok30,
        "ok" => |m| m.ok,
        "others" => |m| m.ok_others,
        "xs" => |m| m.xs,
        "xf" => |m| m.xf,
        "xr" => |m| m.xr,
        "p50" => |m| m.p50,
        "p99" => |m| m.p99,
        "std" => |m| m.std,
        "t95" => |m| m.t95.unwrap_or(f64::INFINITY),
        "back" => |m| m.back.unwrap_or(f64::INFINITY),
        "drift" => |m| m.drift.unwrap_or(f64::INFINITY),
        _ => return None,
    })
}

/// One digit more where bounds are near 1 or near 100.
fn precise(value: f64) -> String {
    if value.is_finite() && (value.abs() < 10.0 || (99.0..100.0).contains(&value)) {
        format!("{value:.2}")
    } else {
        number(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_names_scenarios_and_checks_that_exist() {
        let checks = selected(None).unwrap();
        assert!(checks.len() > 100, "{}", checks.len());
        for (_, name, check) in checks {
            assert!(Scenario::named(name).is_some(), "{name}");
            if let Some((_, reference)) = check.against {
                let (name, _) = reference.run(name, check.policy);
                assert!(Scenario::named(&name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_bound_is_not_met_by_what_never_came() {
        assert!(!Bound::AtMost(10.0).holds(f64::INFINITY));
        assert!(!Bound::AtMost(10.0).holds(f64::NAN));
        assert!(!Bound::AtLeast(10.0).holds(f64::NAN));
        assert!(Bound::AtLeast(10.0).holds(10.0));
    }
}
