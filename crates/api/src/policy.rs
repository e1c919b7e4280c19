//! The locality policy: how far a service's requests may leave the caller's zone, and what else governs them.
//!
//! A [`Policy`] that exists is valid. It is made by [`Policy::parse`] from the written form ([`spec::PolicySpec`]), or by
//! [`annotations::policy`] from annotations, and written back in the same form for people ([`Policy::spec`]).

pub mod annotations;
pub mod fields;
mod parse;
pub mod source;
pub mod spec;

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A valid locality policy. [`Policy::default`] is what is built in.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How localities are chosen.
    pub mode: Mode,
    /// The tiers in use, nearest first, never empty, each at most once. What lies outside the last is never used.
    pub tiers: Vec<Tier>,
    /// Fewest serving endpoints for the locality rules to hold.
    pub min_endpoints: MinEndpoints,
    /// A tier in which fewer endpoints than this serve hands over to the next.
    pub min_healthy: Percent,
    /// What happens when a guard (`min_endpoints`, `min_healthy`) fails.
    pub fallback: Fallback,
    /// Spill budget: never send more than this out of the nearest tier.
    pub max_remote: Percent,
    /// Share of requests that the policy governs; 0 is a dry run.
    pub percent: Percent,
    /// Load signal and band.
    pub load: LoadBand,
    /// Extra failure probability that staying local may cost.
    pub failure_budget: Percent,
    /// How far the serving part of a locality is stretched before its share shrinks (140: until 1/1.4 is left).
    pub overprovisioning: Percent,
    /// Choice inside the chosen set.
    pub algorithm: Algorithm,
    /// The circuit breaker of each endpoint.
    pub breaker: Breaker,
    /// Second attempts.
    pub retry: Retry,
    /// Time limits.
    pub timeout: Timeout,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Adaptive,
            tiers: vec![Tier::Zone, Tier::Any],
            min_endpoints: MinEndpoints { local: 1, total: 0 },
            min_healthy: Percent(0.0),
            fallback: Fallback::NextTier,
            max_remote: Percent(100.0),
            percent: Percent(100.0),
            load: LoadBand::NORMALIZED,
            failure_budget: Percent(0.5),
            overprovisioning: Percent(140.0),
            algorithm: Algorithm::PeakEwma,
            breaker: Breaker {
                consecutive: 5,
                success_rate: Percent(50.0),
                min_requests: 10,
                backoff: Backoff { min: Duration::from_secs(1), max: Duration::from_secs(15) },
            },
            retry: Retry {
                budget: Percent(20.0),
                attempts: 2,
                on: vec![RetryOn::Connect, RetryOn::RefusedStream, RetryOn::ServerError],
                methods: RetryMethods::Idempotent,
            },
            timeout: Timeout { connect: Duration::from_secs(1), request: None, per_try: None },
        }
    }
}

/// The written form, `camelCase` and complete, as a user would write it.
impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.spec().serialize(serializer)
    }
}

/// How localities are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Mode {
    /// Local while that is free, opening on load or failures.
    Adaptive,
    /// Envoy's zone-aware rule: by the counts of callers and serving endpoints per zone.
    Proportional,
    /// The nearest tier that serves and passes the guards, whole.
    Pinned,
    /// All endpoints alike.
    Off,
}

/// A ring around the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The caller's own node.
    Node,
    /// The caller's zone.
    Zone,
    /// The caller's region.
    Region,
    /// Everything, endpoints without a zone included.
    Any,
}

/// Fewest serving endpoints for the locality rules to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinEndpoints {
    /// In a tier.
    pub local: u32,
    /// In all tiers together.
    pub total: u32,
}

/// What happens when a guard fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Fallback {
    /// The next tier takes over.
    NextTier,
    /// All endpoints alike.
    Spread,
    /// Envoy's zone-aware rule.
    Proportional,
}

/// The load signal, and the band inside which nothing changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadBand {
    /// Outstanding requests over what would be outstanding if nothing queued; 1 is unloaded. `1 < low < high`.
    Normalized {
        /// Below, remote endpoints leave.
        low: f64,
        /// Above, remote endpoints join.
        high: f64,
    },
    /// Mean outstanding requests per active endpoint (HAZL's band). `high > 2 · low`.
    Outstanding {
        /// Below, one remote endpoint leaves a second.
        low: f64,
        /// Above, one remote endpoint joins a second.
        high: f64,
    },
}

impl LoadBand {
    /// The band that is built in.
    pub const NORMALIZED: Self = Self::Normalized { low: 1.2, high: 1.5 };
    /// The band of signal `Outstanding` when only the signal is set: HAZL's own default.
    pub const OUTSTANDING: Self = Self::Outstanding { low: 0.8, high: 2.0 };

    /// Name of the signal, as metrics and `/debug` show it.
    pub const fn signal(self) -> &'static str {
        match self {
            Self::Normalized { .. } => "normalized",
            Self::Outstanding { .. } => "outstanding",
        }
    }

    /// Lower and upper edge.
    pub const fn bounds(self) -> (f64, f64) {
        match self {
            Self::Normalized { low, high } | Self::Outstanding { low, high } => (low, high),
        }
    }
}

/// Choice of one endpoint inside the chosen set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Algorithm {
    /// Two random candidates, the lower product of latency and outstanding requests wins.
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
    /// Failures in a row that eject; at least 1.
    pub consecutive: u32,
    /// Success rate below which an endpoint is ejected; 0 switches this rule off.
    pub success_rate: Percent,
    /// Answers in the window before the success rate counts; at least 1.
    pub min_requests: u32,
    /// Pause before a probe.
    pub backoff: Backoff,
}

/// The shortest and the longest pause; it doubles in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// First pause.
    pub min: Duration,
    /// Longest pause, at least `min`.
    pub max: Duration,
}

/// When a failed attempt is followed by another.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Retries per first attempt that the budget earns.
    pub budget: Percent,
    /// Attempts in all, the first included: 1 is no retry, 2 one.
    pub attempts: u32,
    /// What is retried; empty is nothing.
    pub on: Vec<RetryOn>,
    /// Which methods may be sent twice. What provably was not processed is retried whatever its method.
    pub methods: RetryMethods,
}

/// A failure that may be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RetryOn {
    /// No connection came about: the endpoint has not seen the request.
    Connect,
    /// The endpoint says that it did not process the request: HTTP/2 `REFUSED_STREAM`, or `GOAWAY` below its stream.
    RefusedStream,
    /// A 5xx answer, or a connection that ended without any answer.
    #[serde(rename = "5xx")]
    ServerError,
}

/// Which methods may be sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RetryMethods {
    /// The idempotent ones of RFC 9110, section 9.2.2.
    Idempotent,
    /// Any: for services whose writes may be repeated.
    Any,
}

/// Time limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// To establish a connection to an endpoint.
    pub connect: Duration,
    /// For a whole request, all attempts included, up to the response headers; none unless set.
    pub request: Option<Duration>,
    /// For one attempt, up to its response headers; none unless set, never above `request`.
    pub per_try: Option<Duration>,
}

/// A percentage as a user wrote it. Fields of type `Percent` are in 0 to 100, but for `overprovisioning`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(f64);

impl Percent {
    /// As written: 50 for a half.
    pub const fn percent(self) -> f64 {
        self.0
    }

    /// As a share: 0.5 for a half.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

/// One mistake in a policy, told so that its author can mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistake {
    /// The field, from the top of the policy: `load.high`. For annotations, the annotation's key.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.problem, self.remedy)
    }
}
