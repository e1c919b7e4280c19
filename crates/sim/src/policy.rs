//! Who decides: the zone valve, which is the real `balance` crate, and models of its peers, made after their published
//! rules. A model is not the product: it has the product's rule in this simulator's world.

use crate::policy::envoy::{PriorityFailover, ZoneAware};
use crate::policy::hazl::LoadBand;
use crate::policy::spread::{Choice, Spread};
use crate::policy::valve::Valve;
use crate::time::Nanos;
use balance::balancer::{Served, Ticket};
use balance::snapshot::Snapshot;
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Debug;

mod envoy;
mod hazl;
mod pool;
mod spread;
mod valve;

/// An endpoint as discovery lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Never given away twice.
    pub key: u64,
    /// The server behind it.
    pub server: u16,
    /// Its zone.
    pub zone: u8,
}

/// Where a request goes, and what must be given back when it ends.
#[derive(Debug)]
pub struct Sent {
    /// The server.
    pub server: u16,
    /// The endpoint.
    pub key: u64,
    /// Whether it is a trial of an endpoint that is otherwise out of use.
    pub trial: bool,
    /// When it was sent.
    pub at: Nanos,
    /// The zone valve's reservation.
    pub ticket: Option<Ticket>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered.
    Success,
    /// Refused, 5xx or timeout.
    Failure,
    /// The caller gave up: no one's fault as such.
    Cancelled,
}

/// The balancer of one caller.
pub trait Policy: Debug {
    /// Discovery lists these endpoints from now on.
    fn update(&mut self, listed: &[Listed], now: Nanos);
    /// Picks an endpoint for a request. `None` only when none is listed.
    fn pick(&mut self, now: Nanos) -> Option<Sent>;
    /// An attempt ended. What it returns is for [`retry`](Self::retry).
    fn ended(&mut self, sent: Sent, outcome: Outcome, now: Nanos) -> Option<Served>;
    /// Picks another endpoint for a failed request, if it retries at all.
    fn retry(&mut self, _failed: Served, _now: Nanos) -> Option<Sent> {
        None
    }
    /// When [`tick`](Self::tick) is due.
    fn next_tick(&self) -> Option<Nanos> {
        None
    }
    /// The timer.
    fn tick(&mut self, _now: Nanos) {}
    /// What the zone valve knows.
    fn snapshot(&self, _now: Nanos) -> Option<Snapshot> {
        None
    }
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// The zone valve: the code of the proxy, with built-in settings.
    Valve,
    /// The zone valve, failed requests tried again within its budget.
    ValveRetry,
    /// Model: own zone only, P2C by peak EWMA latency, no breaker.
    Strict,
    /// Model: Envoy's zone-aware routing with outlier detection.
    Envoy,
    /// Model: Istio's locality failover (overprovisioning 1.4) with outlier detection.
    Istio,
    /// Model: priority failover without overprovisioning (Consul): other zones when nothing at home is left.
    Consul,
    /// Model: HAZL-like load band of 0.8 to 2.0 outstanding per endpoint. A reconstruction of a closed product.
    Hazl,
    /// Model: P2C by peak EWMA latency over all zones, no breaker.
    P2cPeak,
    /// Model: P2C by outstanding requests over all zones, no breaker.
    P2cLeast,
    /// Model: round robin over all zones.
    RoundRobin,
}

/// What a policy is told of its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The caller's zone.
    pub zone: u8,
    /// Seed of its choices.
    pub seed: u64,
}

impl PolicyKind {
    /// The peers of the specification: what the zone valve is held against.
    pub const PEERS: [Self; 5] =
        [Self::Strict, Self::Envoy, Self::Istio, Self::Hazl, Self::P2cPeak];

    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::Valve => "zone valve",
            Self::ValveRetry => "+ retry",
            Self::Strict => "strict",
            Self::Envoy => "Envoy ZA",
            Self::Istio => "Istio-like",
            Self::Consul => "priority",
            Self::Hazl => "HAZL-like",
            Self::P2cPeak => "P2C all",
            Self::P2cLeast => "P2C least",
            Self::RoundRobin => "round robin",
        }
    }

    /// A balancer of this kind.
    pub fn balancer(self, place: Place, now: Nanos) -> Box<dyn Policy> {
        match self {
            Self::Valve => Box::new(Valve::new(place, false, now)),
            Self::ValveRetry => Box::new(Valve::new(place, true, now)),
            Self::Strict => Box::new(Spread::new(place, Choice::PeakEwmaInZone)),
            Self::P2cPeak => Box::new(Spread::new(place, Choice::PeakEwma)),
            Self::P2cLeast => Box::new(Spread::new(place, Choice::LeastRequest)),
            Self::RoundRobin => Box::new(Spread::new(place, Choice::InTurn)),
            Self::Envoy => Box::new(ZoneAware::new(place, now)),
            Self::Istio => Box::new(PriorityFailover::new(place, 1.4, now)),
            Self::Consul => Box::new(PriorityFailover::new(place, f64::INFINITY, now)),
            Self::Hazl => Box::new(LoadBand::new(place, now)),
        }
    }
}
