//! What changed inside a balancer, with the numbers behind it.

use crate::endpoint::EndpointKey;
use crate::reason::Reason;
use crate::time::Timestamp;
use core::time::Duration;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub change: Change,
    /// The valve's numbers at that moment.
    pub numbers: Numbers,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// Traffic may leave the local zone further than before.
    Widen {
        /// Why.
        reason: Reason,
    },
    /// Traffic returns to the local zone.
    Narrow {
        /// Why.
        reason: Reason,
    },
    /// The reason of the current share changed, the pool did not.
    Reason {
        /// The reason before.
        from: Reason,
        /// The reason now.
        to: Reason,
    },
    /// The breaker of an endpoint opened.
    Ejected {
        /// The endpoint.
        endpoint: EndpointKey,
        /// Which rule opened it.
        cause: EjectionCause,
        /// Pause before the first probe.
        backoff: Duration,
    },
    /// A probe was sent to an ejected endpoint.
    Probe {
        /// The endpoint.
        endpoint: EndpointKey,
    },
    /// A probe ended.
    Probed {
        /// The endpoint.
        endpoint: EndpointKey,
        /// Whether it succeeded.
        success: bool,
    },
    /// The breaker of an endpoint closed.
    Restored {
        /// The endpoint.
        endpoint: EndpointKey,
    },
    /// A remote endpoint takes part from now on.
    RemoteJoined {
        /// The endpoint.
        endpoint: EndpointKey,
        /// Why.
        reason: Reason,
    },
    /// A remote endpoint takes no part any more.
    RemoteLeft {
        /// The endpoint.
        endpoint: EndpointKey,
        /// Why.
        reason: Reason,
    },
    /// Crossing did not help: no crossing for the given time.
    Hold {
        /// How long.
        length: Duration,
    },
}

/// Which rule opened a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EjectionCause {
    /// Too many failures in a row.
    Consecutive,
    /// Success rate below the limit.
    SuccessRate,
    /// A probe failed: the pause starts again, longer.
    ProbeFailed,
}

/// The numbers behind a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Numbers {
    /// Probability that a candidate is drawn locally, 0 to 1.
    pub share: f64,
    /// The load valve's part of it.
    pub valve: f64,
    /// The failure cap's part of it.
    pub failure_cap: f64,
    /// The capacity floor's part of it.
    pub capacity: f64,
    /// Load: outstanding divided by what would be outstanding if nothing queued.
    pub load: f64,
    /// Lower confidence bound of the load.
    pub load_lower: f64,
    /// Uncongested local latency in seconds, 0 while unknown.
    pub baseline_seconds: f64,
    /// Remote endpoints that take part.
    pub reach: u32,
    /// Local failure rate, 0 to 1.
    pub local_failure: f64,
    /// Remote failure rate, 0 to 1.
    pub remote_failure: f64,
}
