//! The network: delays, and nothing else.

use crate::time::Nanos;
use crate::world::chance::{Stream, stream_of};
use fastrand::Rng;

/// A refused connection is known after this time.
pub const REFUSAL: Nanos = 300_000;

/// Discovery tells all callers of a change after this time.
pub const DISCOVERY: Nanos = 1_500_000_000;

const IN_ZONE: Nanos = 150_000;
const ACROSS_MIN: Nanos = 500_000;
const ACROSS_MAX: Nanos = 750_000;

/// The network between callers and servers.
#[derive(Debug)]
pub struct Network {
    rng: Rng,
}

impl Network {
    /// The network of a run.
    pub fn new(seed: u64) -> Self {
        Self { rng: stream_of(seed, Stream::Network, 0) }
    }

    /// The one-way delay of one message.
    pub fn delay(&mut self, across: bool) -> Nanos {
        if across { self.rng.u64(ACROSS_MIN..ACROSS_MAX) } else { IN_ZONE }
    }
}
