//! What an operator may set, as plain numbers. Names and defaults follow the `LocalityPolicy` resource; parsing and
//! validation happen in crate `api`, a `Config` that exists is taken as valid.

use crate::endpoint::ZoneId;
use alloc::vec::Vec;
use core::time::Duration;

/// The settings of one balancer.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How localities are chosen.
    pub mode: Mode,
    /// Whether the caller knows its own zone. If not, all endpoints form one group, with reason `zone_unknown`.
    pub zone_known: bool,
    /// Fewest serving endpoints for the locality rules to hold.
    pub guard: Guard,
    /// What happens when a guard fails.
    pub fallback: Fallback,
    /// Spill budget: the largest share of requests, 0 to 1, that may leave the nearest tier.
    pub remote_share_max: f64,
    /// Share of requests, 0 to 1, that the policy governs; the rest is spread over all endpoints. 0 is a dry run.
    pub governed_share: f64,
    /// The load signal and its band.
    pub load: LoadBand,
    /// Extra failure probability, 0 to 1, that staying local may cost. 1 leaves failures to the breaker alone.
    pub failure_budget: f64,
    /// How far the available part of a locality is stretched before its share shrinks (1.4 = 140 %).
    pub overprovisioning: f64,
    /// Choice inside the chosen set.
    pub algorithm: Algorithm,
    /// The circuit breaker of each endpoint.
    pub breaker: Breaker,
    /// Retries per first attempt that the budget earns (0.2 = 20 %).
    pub retry_budget: f64,
    /// Callers of the service per zone, the caller's own included: the basis of mode `Proportional`. Empty when unknown.
    pub callers: Vec<(ZoneId, u32)>,
    /// The caller's own zone, for mode `Proportional`.
    pub own_zone: Option<ZoneId>,
}

/// How localities are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Local while that is free, opening on load or failures: the zone valve.
    Adaptive,
    /// Envoy's zone-aware rule: local share and residual capacity from the serving counts of both sides.
    Proportional,
    /// The nearest tier that serves and passes the guards, whole.
    Pinned,
    /// All endpoints alike.
    Off,
}

/// Fewest serving endpoints for the locality rules to hold.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::struct_field_names, reason = "each is the least of something")]
pub struct Guard {
    /// Serving endpoints in a tier.
    pub local_min: u32,
    /// Serving endpoints in all tiers.
    pub total_min: u32,
    /// Serving share of a tier's endpoints, 0 to 1.
    pub healthy_min: f64,
}

/// What happens when a guard fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The next tier takes over.
    NextTier,
    /// All endpoints alike.
    Spread,
    /// Envoy's zone-aware rule.
    Proportional,
}

/// The load signal and the band in which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadBand {
    /// Outstanding requests divided by what would be outstanding if nothing queued: 1 is unloaded.
    Normalized {
        /// Below, remote endpoints leave.
        low: f64,
        /// Above, remote endpoints join.
        high: f64,
    },
    /// Mean outstanding requests per active endpoint (HAZL's band).
    Outstanding {
        /// Below, one remote endpoint leaves a second.
        low: f64,
        /// Above, one remote endpoint joins a second.
        high: f64,
    },
}

/// Choice of one endpoint inside the chosen set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Two random candidates, the one with the lower product of latency and outstanding requests wins.
    PeakEwma,
    /// Two random candidates, the one with fewer outstanding requests wins.
    LeastRequest,
    /// In turn.
    RoundRobin,
    /// Uniformly.
    Random,
}

/// The circuit breaker of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breaker {
    /// Failures in a row that eject.
    pub consecutive: u32,
    /// Success rate, 0 to 1, below which an endpoint is ejected.
    pub success_rate_min: f64,
    /// Answers in the window before the success rate counts.
    pub requests_min: u32,
    /// First pause before a probe.
    pub backoff_min: Duration,
    /// Longest pause before a probe.
    pub backoff_max: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Adaptive,
            zone_known: true,
            guard: Guard { local_min: 1, total_min: 0, healthy_min: 0.0 },
            fallback: Fallback::NextTier,
            remote_share_max: 1.0,
            governed_share: 1.0,
            load: LoadBand::Normalized { low: 1.2, high: 1.5 },
            failure_budget: 0.005,
            overprovisioning: 1.4,
            algorithm: Algorithm::PeakEwma,
            breaker: Breaker::default(),
            retry_budget: 0.2,
            callers: Vec::new(),
            own_zone: None,
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            consecutive: 5,
            success_rate_min: 0.5,
            requests_min: 10,
            backoff_min: Duration::from_secs(1),
            backoff_max: Duration::from_secs(15),
        }
    }
}
