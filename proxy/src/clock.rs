//! The one file of the data path that reads a clock.

use balance::time::Timestamp;
use tokio::time::Instant;

/// The monotonic clock whose origin every [`Timestamp`] of this process is counted from. Wall-clock jumps do not touch it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// The present.
    pub fn now(self) -> Timestamp {
        let nanos = self.origin.elapsed().as_nanos();
        // One is added so that no moment equals the origin, which callers use for "never".
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(1))
    }
}
