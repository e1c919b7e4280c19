//! Scenarios: a base (how large, how busy), a fault, and when what happens. Named `fault.base`, as `ff.c30`.

use crate::fault::{self, Effect, Episode};
use crate::time::nanos;
use crate::world::standstill::{Standstill, Whom};

/// The distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Mean in seconds.
    pub mean: f64,
    /// Shape.
    pub shape: Shape,
}

/// The shape of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Exponential.
    Exponential,
    /// Log-normal with this σ.
    LogNormal(f64),
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// Part of all servers' capacity.
    Utilisation(f64),
    /// Requests a second from each caller.
    PerCaller(f64),
}

/// A cluster that nothing has happened to yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Base {
    /// Its name.
    pub name: &'static str,
    /// Servers in each zone.
    pub servers: [u32; 3],
    /// Callers in each zone.
    pub callers: u32,
    /// Slots of a server.
    pub slots: u32,
    /// Service times.
    pub service: Service,
    /// Demand.
    pub demand: Demand,
}

/// Long-lived requests beside the ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// None.
    None,
    /// Each caller opens so many streams: served as usual up to the headers, then open for ever.
    Streams(u32),
    /// Each caller keeps so many long polls under way: they take no slot and are answered after 15 to 30 s.
    Polls(u32),
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// `fault.base`.
    pub name: String,
    /// The cluster.
    pub base: Base,
    /// What happens to it.
    pub episodes: Vec<Episode>,
    /// Long-lived requests.
    pub extra: Extra,
    /// Processes stand still now and then.
    pub standstill: Option<Standstill>,
    /// Seconds a caller waits for an answer.
    pub timeout: f64,
    /// Whether giving up is a cancel by the caller, not a failure that the proxy reports.
    pub cancel: bool,
    /// The time of the fault, in seconds. Without one, the time that is measured.
    pub fault: (f64, f64),
    /// When arrivals end, in seconds.
    pub end: f64,
}

const fn exponential(mean: f64) -> Service {
    Service { mean, shape: Shape::Exponential }
}

const fn log_normal(mean: f64, sigma: f64) -> Service {
    Service { mean, shape: Shape::LogNormal(sigma) }
}

const fn base(
    name: &'static str,
    (servers, callers): (u32, u32),
    slots: u32,
    service: Service,
    rho: f64,
) -> Base {
    Base { name, servers: [servers; 3], callers, slots, service, demand: Demand::Utilisation(rho) }
}

/// All bases. Servers and callers are per zone.
pub const BASES: &[Base] = &[
    base("c3", (4, 1), 8, exponential(0.05), 0.5),
    base("c30", (4, 10), 8, exponential(0.05), 0.5),
    base("c300", (4, 100), 8, exponential(0.05), 0.5),
    base("gw", (4, 1), 64, log_normal(0.2, 0.8), 0.5),
    base("2s", (4, 10), 64, log_normal(2.0, 1.0), 0.5),
    base("heavy", (4, 10), 8, log_normal(0.05, 1.5), 0.5),
    base("rho70", (4, 10), 8, exponential(0.05), 0.7),
    base("tight", (4, 10), 8, exponential(0.05), 0.65),
    base("low", (4, 10), 8, exponential(0.05), 0.28),
    base("s1", (1, 5), 8, exponential(0.05), 0.5),
    base("s30", (30, 30), 4, exponential(0.05), 0.5),
    base("k1", (8, 10), 1, exponential(0.05), 0.4),
    base("vlo", (4, 100), 8, exponential(0.3), 0.5),
    base("big", (50, 100), 2, exponential(0.05), 0.5),
    base("llm", (4, 10), 64, log_normal(20.0, 0.6), 0.5),
    Base { demand: Demand::PerCaller(100.0), ..base("demo", (3, 1), 50, exponential(0.02), 0.0) },
];

/// Healthy until 60 s, fault until 120 s, end at 210 s.
pub const SPAN: ((f64, f64), f64) = ((60.0, 120.0), 210.0);
/// The same for services of 20 s.
const SPAN_LLM: ((f64, f64), f64) = ((250.0, 450.0), 700.0);
/// The same for `1h`.
const SPAN_HOUR: ((f64, f64), f64) = ((60.0, 3600.0), 3600.0);

impl Scenario {
    /// The scenario of this name: a base (`c30` unless named), a fault (none unless named), and `cancel`, `1h` or a
    /// standstill, separated by dots.
    pub fn named(name: &str) -> Option<Self> {
        let mut base = None;
        let mut cancel = false;
        let mut hour = false;
        let mut standstill = None;
        let mut fault = Vec::new();
        for part in name.split('.') {
            match part {
                "cancel" => cancel = true,
                "1h" => hour = true,
                _ if standstill_named(part).is_some() => standstill = standstill_named(part),
                _ if base.is_none() && base_named(part).is_some() => base = base_named(part),
                _ => fault.push(part),
            }
        }
        let mut base = base.or_else(|| base_named("c30"))?;
        let fault = if fault.is_empty() { "steady".to_owned() } else { fault.join(".") };
        let (span, end) = match base.name {
            _ if hour => SPAN_HOUR,
            "llm" => SPAN_LLM,
            _ => SPAN,
        };
        if fault == "uneven" {
            base.servers = [2, 4, 6];
            base.demand = Demand::Utilisation(0.6);
        }
        let extra = match fault.as_str() {
            "stream50" => Extra::Streams(50),
            "lpoll50" => Extra::Polls(50),
            _ => Extra::None,
        };
        let episodes = fault::effects(&fault, span, end)?;
        Some(Self {
            extra,
            standstill,
            cancel,
            ..Self::of(name.to_owned(), base, episodes, (span, end))
        })
    }

    /// A scenario without long-lived requests, whose callers report timeouts.
    pub fn of(
        name: String,
        base: Base,
        episodes: Vec<Episode>,
        (fault, end): ((f64, f64), f64),
    ) -> Self {
        let timeout =
            if base.name == "llm" { 180.0 } else { (20.0 * base.service.mean).clamp(1.0, 20.0) };
        Self {
            name,
            base,
            episodes,
            extra: Extra::None,
            standstill: None,
            timeout,
            cancel: false,
            fault,
            end,
        }
    }

    /// Requests a second of one caller when nothing happens.
    pub fn rate_per_caller(&self) -> f64 {
        let Base { servers, callers, slots, service, demand, .. } = self.base;
        match demand {
            Demand::PerCaller(rate) => rate,
            Demand::Utilisation(rho) => {
                rho * f64::from(servers.iter().sum::<u32>() * slots)
                    / service.mean
                    / f64::from(3 * callers)
            }
        }
    }

    /// The factor on the rate of a caller in `zone`, `now` seconds into the run.
    pub fn rate_factor(&self, zone: u8, now: f64) -> f64 {
        let active = self.episodes.iter().filter(|e| (e.from..e.until).contains(&now));
        active.map(|e| e.effect.rate_factor(zone, now)).product()
    }

    /// An upper limit of [`rate_factor`](Self::rate_factor).
    pub fn rate_factor_peak(&self) -> f64 {
        self.episodes.iter().map(|e| e.effect.rate_factor_peak()).product()
    }

    /// Whether servers come and go.
    pub fn scales(&self) -> bool {
        self.episodes.iter().any(|e| matches!(e.effect, Effect::Down(_)))
    }
}

/// The standstill of this name: `still40` is all processes at once for 0.4 s, `stuck40` all servers at once, `jerky40`
/// each process at a time of its own.
fn standstill_named(name: &str) -> Option<Standstill> {
    let whoms = [("still", Whom::World), ("stuck", Whom::Servers), ("jerky", Whom::Each)];
    let (whom, hundredths) =
        whoms.into_iter().find_map(|(word, whom)| Some((whom, name.strip_prefix(word)?)))?;
    Some(Standstill { whom, length: nanos(hundredths.parse::<f64>().ok()? / 100.0) })
}

/// The base of this name.
pub fn base_named(name: &str) -> Option<Base> {
    BASES.iter().find(|base| base.name == name).copied()
}
