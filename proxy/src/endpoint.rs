//! One endpoint of one service, as all workers share it.

use crate::discovery::{EndpointProtocol, EndpointUpdate};
use crate::metrics::ZoneMetrics;
use balance::endpoint::{EndpointKey, EndpointSpec};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An endpoint with its place. When the place changes a new `Endpoint` with the same key takes over its counts.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it speaks.
    pub protocol: EndpointProtocol,
    /// What discovery said about it.
    pub update: EndpointUpdate,
    /// How the balancer sees it.
    pub spec: EndpointSpec,
    /// What is counted by its zone.
    pub zone: Arc<ZoneMetrics>,
    /// What is counted by the endpoint.
    pub counts: Arc<Counts>,
}

/// The counts that stay with an endpoint when its place changes.
#[derive(Debug, Default)]
pub struct Counts {
    picks: AtomicU64,
    open_bodies: AtomicU32,
}

impl Endpoint {
    /// Its name for the balancer.
    pub fn key(&self) -> EndpointKey {
        self.spec.key
    }
}

impl Counts {
    /// Counts a request that was sent to it.
    pub(crate) fn picked(&self) {
        self.picks.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response whose body began.
    pub(crate) fn body_opened(&self) {
        self.open_bodies.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a response whose body ended.
    pub(crate) fn body_closed(&self) {
        self.open_bodies.fetch_sub(1, Ordering::Relaxed);
    }

    /// Requests that were sent to it so far.
    pub fn picks(&self) -> u64 {
        self.picks.load(Ordering::Relaxed)
    }

    /// Responses whose body is under way.
    pub fn open_bodies(&self) -> u32 {
        self.open_bodies.load(Ordering::Relaxed)
    }
}

/// Makes and reads keys: the slot of the endpoint in its service's table, and a generation that is never used again.
pub(crate) mod key {
    use balance::endpoint::EndpointKey;

    /// The key of the `generation`-th endpoint of a service, which lies in `slot`.
    pub(crate) fn new(slot: u32, generation: u32) -> EndpointKey {
        EndpointKey(u64::from(generation) << 32 | u64::from(slot))
    }

    /// The slot of the endpoint.
    pub(crate) fn slot(key: EndpointKey) -> usize {
        usize::try_from(key.0 & u64::from(u32::MAX)).unwrap_or(usize::MAX)
    }
}
