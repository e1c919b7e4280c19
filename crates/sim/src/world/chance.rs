//! Random numbers. Each caller, server and balancer has its own stream, so that two policies meet the same arrivals and
//! the same service times for as long as they decide alike.

use fastrand::Rng;
use std::f64::consts::TAU;

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// The arrivals of one caller.
    Arrivals,
    /// The service times of one server.
    Service,
    /// The delays of the network.
    Network,
    /// The choices of one balancer.
    Balancer,
    /// The parameters of a random scenario.
    Scenario,
    /// When processes stand still.
    Standstill,
}

/// The seed of one stream of the run with the given seed.
pub fn seed_of(run: u64, stream: Stream, index: u64) -> u64 {
    let stream = match stream {
        Stream::Arrivals => 1,
        Stream::Service => 2,
        Stream::Network => 3,
        Stream::Balancer => 4,
        Stream::Scenario => 5,
        Stream::Standstill => 6,
    };
    mixed(mixed(mixed(run) ^ stream) ^ index)
}

/// The stream itself.
pub fn stream_of(run: u64, stream: Stream, index: u64) -> Rng {
    Rng::with_seed(seed_of(run, stream, index))
}

/// An exponential variate of mean 1.
pub fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// A log-normal variate of mean 1.
pub fn log_normal(rng: &mut Rng, sigma: f64) -> f64 {
    let normal = (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos();
    (sigma * normal - sigma * sigma / 2.0).exp()
}

/// The finaliser of `SplitMix64`: neighbouring inputs give unrelated outputs.
fn mixed(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
