//! Time as the core knows it: nanoseconds since an origin that the caller chooses.

use core::time::Duration;

/// A point on the caller's monotonic clock, in nanoseconds since an origin of the caller's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin of the clock.
    pub const ZERO: Self = Self(0);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The point `by` later; the end of time (584 years) is never passed.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Seconds since the origin, as the core's formulas take them: exact to 2 ns for the first 200 days.
    pub(crate) fn seconds(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float made by `seconds` is in range"
    )]
    pub(crate) fn from_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9) as u64)
    }

    /// How long ago `earlier` was; zero when the clock went backwards in between.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
