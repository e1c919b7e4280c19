//! The only file that reads a clock.

use std::time::Duration;

use tokio::time::Instant;

/// The demo's time: seconds since its origin, the moment at which the load starts.
///
/// The origin is also known as Unix time, which is how the load's processes and Prometheus are told about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
    origin_unix: Duration,
}

impl Clock {
    /// A clock whose zero lies `ahead` in the future.
    pub(crate) fn starting_in(ahead: Duration) -> Self {
        Self { origin: Instant::now() + ahead, origin_unix: unix_time() + ahead }
    }

    /// Unix time of the origin.
    pub(crate) fn origin_unix(&self) -> Duration {
        self.origin_unix
    }

    /// Seconds since the origin, negative before it.
    pub(crate) fn seconds(&self) -> f64 {
        let now = Instant::now();
        now.checked_duration_since(self.origin)
            .map_or_else(|| -(self.origin - now).as_secs_f64(), |since| since.as_secs_f64())
    }

    /// Waits until `at` after the origin; returns at once when that is past.
    pub(crate) async fn reach(&self, at: Duration) {
        tokio::time::sleep_until(self.origin + at).await;
    }
}

/// Time since 1970, for moments that several processes must agree on.
#[expect(clippy::disallowed_methods, reason = "this is the file that reads the clock")]
pub(crate) fn unix_time() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// A moment by which something must have happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// `limit` from now.
    pub(crate) fn within(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    /// Whether it has passed.
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}
