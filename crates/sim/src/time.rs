//! Simulated time: nanoseconds since the start of the run.

/// A point in simulated time, or a length of it, in nanoseconds.
pub type Nanos = u64;

/// One second.
pub const SECOND: Nanos = 1_000_000_000;

/// A number of seconds as nanoseconds; negative counts as zero.
pub fn nanos(seconds: f64) -> Nanos {
    (seconds * 1e9) as Nanos
}

/// Nanoseconds as seconds.
pub fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}
