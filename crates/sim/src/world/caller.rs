//! A caller: a Poisson stream of requests in front of a balancer of its own.

use crate::policy::Policy;
use crate::time::{Nanos, nanos};
use crate::world::chance::{Stream, exponential, stream_of};
use fastrand::Rng;

/// One caller.
#[derive(Debug)]
pub struct Caller {
    /// Its zone.
    pub zone: u8,
    /// Its balancer.
    pub policy: Box<dyn Policy>,
    rng: Rng,
    rate_peak: f64,
    factor_peak: f64,
}

impl Caller {
    /// A caller of `rate` requests a second, times a factor that changes over time and is at most `factor_peak`.
    pub fn new(
        zone: u8,
        policy: Box<dyn Policy>,
        (rate, factor_peak): (f64, f64),
        (run, index): (u64, u64),
    ) -> Self {
        let rng = stream_of(run, Stream::Arrivals, index);
        Self { zone, policy, rng, rate_peak: rate * factor_peak, factor_peak }
    }

    /// Time to the next possible arrival, at the highest rate.
    pub fn gap(&mut self) -> Nanos {
        nanos(exponential(&mut self.rng) / self.rate_peak)
    }

    /// Whether a possible arrival is one, at the rate of the moment.
    pub fn arrives(&mut self, factor: f64) -> bool {
        self.rng.f64() * self.factor_peak < factor
    }

    /// A time between the two.
    pub fn moment(&mut self, from: f64, until: f64) -> Nanos {
        nanos(from + self.rng.f64() * (until - from))
    }
}
