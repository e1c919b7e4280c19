//! Policies written as annotations or as a Service's own fields: the short forms, and those of other meshes.

use super::parse::band;
use super::spec::Signal;
use super::{LoadBand, Mistake, Mode, Policy, Tier};
use crate::names::annotation;

/// What an object's annotations say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotated {
    /// The policy, if any annotation sets one: built-in values but for what the annotations say.
    pub policy: Option<Policy>,
    /// Annotations that mean nothing, to be told to their author. They count as absent.
    pub mistakes: Vec<Mistake>,
}

/// The policy in the annotations of one Service, Namespace or pod. Annotations that concern no policy are passed over.
///
/// `tidegate.io/` annotations win over the aliases of other meshes on the same object.
pub fn policy<'a>(annotations: impl IntoIterator<Item = (&'a str, &'a str)>) -> Annotated {
    let mut found = Annotated::default();
    let (mut mode, mut mode_alias) = (None, None);
    let (mut load, mut load_alias) = (None, None);
    for (key, value) in annotations {
        let read = match key {
            annotation::LOCALITY_MODE => locality_mode(value).map(|read| mode = Some(read)),
            annotation::LOAD_BAND => load_band(value).map(|read| load = Some(read)),
            annotation::HAZL_LOAD_BAND => {
                bounds(Signal::Outstanding, value).map(|read| load_alias = Some(read))
            }
            annotation::ZALANDO_ZONE_AWARE => {
                zone_aware(value).map(|read| mode_alias = read.or(mode_alias))
            }
            annotation::TOPOLOGY_MODE => {
                topology_mode(value).map(|read| mode_alias = mode_alias.or(read))
            }
            _ => Ok(()),
        };
        if let Err(Junk { problem, remedy }) = read {
            found.mistakes.push(Mistake { path: key.to_owned(), problem, remedy });
        }
    }
    let (mode, load) = (mode.or(mode_alias), load.or(load_alias));
    if mode.is_some() || load.is_some() {
        let base = Policy::default();
        found.policy = Some(Policy {
            mode: mode.unwrap_or(base.mode),
            load: load.unwrap_or(base.load),
            ..base
        });
    }
    found
}

/// The policy that a Service's `spec.trafficDistribution` stands for; `None` for values that Kubernetes does not define.
pub fn traffic_distribution(value: &str) -> Option<Policy> {
    let tiers = match value {
        "PreferSameZone" | "PreferClose" => vec![Tier::Zone, Tier::Any],
        "PreferSameNode" => vec![Tier::Node, Tier::Zone, Tier::Any],
        _ => return None,
    };
    Some(Policy { tiers, ..Policy::default() })
}

/// The policy that a Service's `spec.internalTrafficPolicy: Local` stands for: this node or nothing.
pub fn internal_traffic_local() -> Policy {
    Policy { mode: Mode::Pinned, tiers: vec![Tier::Node], ..Policy::default() }
}

/// What is wrong with one value.
struct Junk {
    problem: String,
    remedy: String,
}

fn locality_mode(value: &str) -> Result<Mode, Junk> {
    const MODES: [(&str, Mode); 4] = [
        ("Adaptive", Mode::Adaptive),
        ("Proportional", Mode::Proportional),
        ("Pinned", Mode::Pinned),
        ("Off", Mode::Off),
    ];
    let value = value.trim();
    MODES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(value))
        .map(|(_, mode)| *mode)
        .ok_or_else(|| Junk {
            problem: format!("{value:?} is no mode"),
            remedy: "write Adaptive, Proportional, Pinned or Off".to_owned(),
        })
}

fn load_band(value: &str) -> Result<LoadBand, Junk> {
    let value = value.trim();
    match value.split_once(':') {
        None => bounds(Signal::Normalized, value),
        Some((signal, rest)) if signal.trim().eq_ignore_ascii_case("normalized") => {
            bounds(Signal::Normalized, rest)
        }
        Some((signal, rest)) if signal.trim().eq_ignore_ascii_case("outstanding") => {
            bounds(Signal::Outstanding, rest)
        }
        Some((signal, _)) => Err(Junk {
            problem: format!("{:?} is no load signal", signal.trim()),
            remedy: "write low,high for normalized load, or outstanding:low,high".to_owned(),
        }),
    }
}

/// `low,high`.
fn bounds(signal: Signal, value: &str) -> Result<LoadBand, Junk> {
    let numbers = value.split_once(',').and_then(|(low, high)| {
        Some((low.trim().parse::<f64>().ok()?, high.trim().parse::<f64>().ok()?))
    });
    let Some((low, high)) = numbers else {
        let problem = format!("{value:?} is not two numbers");
        return Err(Junk { problem, remedy: "write low,high, such as 1.2,1.5".to_owned() });
    };
    let mut junk: Option<Junk> = None;
    let band = band(signal, low, high, &mut |field, problem, remedy| {
        let (problem, remedy) = (format!("{field} {problem}"), remedy.to_owned());
        junk = Some(match junk.take() {
            None => Junk { problem, remedy },
            Some(first) => Junk {
                problem: format!("{} and {problem}", first.problem),
                remedy: format!("{}; {remedy}", first.remedy),
            },
        });
    });
    junk.map_or(Ok(band), Err)
}

/// Skipper's opt-out. `true` is its default and says nothing.
fn zone_aware(value: &str) -> Result<Option<Mode>, Junk> {
    match value.trim() {
        "false" => Ok(Some(Mode::Off)),
        "true" => Ok(None),
        other => Err(Junk {
            problem: format!("{other:?} is neither true nor false"),
            remedy: "write true or false".to_owned(),
        }),
    }
}

/// Kubernetes' topology-aware routing, which is proportional. `Disabled` is its default and says nothing.
fn topology_mode(value: &str) -> Result<Option<Mode>, Junk> {
    match value.trim() {
        "Auto" | "auto" => Ok(Some(Mode::Proportional)),
        "Disabled" | "disabled" | "" => Ok(None),
        other => Err(Junk {
            problem: format!("{other:?} is no topology mode"),
            remedy: "write Auto or Disabled".to_owned(),
        }),
    }
}
