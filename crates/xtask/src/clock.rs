//! The one place where the clock is read.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "steps are timed for people"
)]

use std::time::{Duration, Instant};

/// Time since it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
