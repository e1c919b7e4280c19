//! The balancer of one caller and one service.

use crate::config::Config;
use crate::endpoint::{EndpointKey, EndpointSpec, Locality};
use crate::event::Event;
use crate::reason::Reason;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use alloc::vec::Vec;

/// The balancer of one caller and one service.
#[derive(Debug)]
pub struct Balancer {}

/// A request under way. It must be given back exactly once, to [`Balancer::answered`] or [`Balancer::cancelled`].
#[derive(Debug)]
#[must_use = "a reservation that is not finished counts as outstanding for ever"]
pub struct Ticket {
    _private: (),
}

/// The endpoint of a finished request, for what only the end of its body tells.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    _private: (),
}

/// Where a request goes.
#[derive(Debug)]
pub struct Pick {
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// Whether it is local.
    pub locality: Locality,
    /// Why it was chosen.
    pub reason: Reason,
    /// What the policy would have done, for requests that it does not govern (`governed_share` below 1).
    pub would: Option<(Locality, Reason)>,
    /// The reservation.
    pub ticket: Ticket,
}

/// How a request ended, as far as its response headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered, and not by an error of the endpoint.
    Success,
    /// Connect or transport error, timeout, reset, 5xx or a failing gRPC status.
    Failure,
}

/// Why a retry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryRefused {
    /// No token left, or too few endpoints available: a retry would add to an overload.
    Budget,
    /// No other endpoint than the failed one.
    NoOther,
}

impl Balancer {
    /// A balancer without endpoints. `seed` decides all its random choices.
    pub fn new(_config: Config, _seed: u64, _now: Timestamp) -> Self {
        todo!()
    }

    /// Takes new settings; what was learnt stays.
    pub fn configure(&mut self, _config: Config, _now: Timestamp) {
        todo!()
    }

    /// Replaces the whole set of endpoints. Keys seen before keep their state; changed tiers and zones are taken over.
    pub fn update(&mut self, _endpoints: &[EndpointSpec], _now: Timestamp) {
        todo!()
    }

    /// Picks an endpoint for a first attempt. `None` only when there is no endpoint at all.
    pub fn pick(&mut self, _now: Timestamp) -> Option<Pick> {
        todo!()
    }

    /// Picks another endpoint for a second attempt, if the budget allows one. `failed` is the endpoint of the first.
    pub fn pick_retry(&mut self, _failed: Served, _now: Timestamp) -> Result<Pick, RetryRefused> {
        todo!()
    }

    /// The response headers arrived, or the request failed without them.
    pub fn answered(&mut self, _ticket: Ticket, _outcome: Outcome, _now: Timestamp) -> Served {
        todo!()
    }

    /// The caller gave up before the headers. Neither success nor failure, unless the endpoint had kept it waiting too long.
    /// Returns whether it counted as a failure of the endpoint (`stalled`).
    pub fn cancelled(&mut self, _ticket: Ticket, _now: Timestamp) -> bool {
        todo!()
    }

    /// The body of an answered request failed by the endpoint's fault: cut short, or a failing gRPC status in its trailers.
    pub fn body_failed(&mut self, _served: Served, _now: Timestamp) {
        todo!()
    }

    /// When [`tick`](Self::tick) is due.
    pub fn next_tick(&self) -> Timestamp {
        todo!()
    }

    /// Lets the valve move. To be called at [`next_tick`](Self::next_tick), about once a second, also without traffic.
    pub fn tick(&mut self, _now: Timestamp) {
        todo!()
    }

    /// What changed since the last call, oldest first. At most 256 changes are kept; older ones are dropped and counted in
    /// the snapshot.
    pub fn take_events(&mut self) -> Vec<Event> {
        todo!()
    }

    /// Everything the balancer knows.
    pub fn snapshot(&self, _now: Timestamp) -> Snapshot {
        todo!()
    }
}
