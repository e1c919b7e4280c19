//! Everything a balancer knows, for `/debug`, metrics and tests.

use crate::endpoint::{EndpointKey, Locality};
use crate::event::Numbers;
use crate::reason::Reason;
use alloc::vec::Vec;
use core::time::Duration;

/// The state of a balancer at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Why the share is what it is.
    pub reason: Reason,
    /// The valve's numbers.
    pub numbers: Numbers,
    /// Tokens left in the retry budget.
    pub retry_tokens: f64,
    /// Remaining time of a hold, zero without one.
    pub hold: Duration,
    /// Events that nobody took in time, since the start.
    pub events_dropped: u64,
    /// One entry an endpoint, in the order of their keys.
    pub endpoints: Vec<EndpointSnapshot>,
}

/// The state of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndpointSnapshot {
    /// The endpoint.
    pub key: EndpointKey,
    /// Local or remote.
    pub locality: Locality,
    /// Its tier.
    pub tier: u8,
    /// What is happening to it.
    pub state: EndpointState,
    /// Whether it can be picked now: available, and local or within reach.
    pub active: bool,
    /// Requests waiting for their response headers.
    pub outstanding: u32,
    /// Open connections whose bytes are not requests.
    pub connections: u32,
    /// Time-weighted mean of `outstanding`: the endpoint's EWMA load.
    pub load: f64,
    /// Recent success rate, 0 to 1; 1 without evidence.
    pub success_rate: f64,
    /// EWMA of its latency in seconds, 0 while unknown.
    pub latency_seconds: f64,
    /// Pause until the next probe, zero when none is planned.
    pub probe_in: Duration,
}

/// What is happening to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointState {
    /// Its breaker is closed.
    Serving,
    /// Its breaker is open, a pause runs.
    Ejected,
    /// Its breaker is open, probes decide.
    Probing,
}
