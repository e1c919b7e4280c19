//! The one place where time is read: waiting for something to happen, with an end.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests of whole programs wait in real time, and only here"
)]

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long between two looks.
const STEP: Duration = Duration::from_millis(20);

/// Long enough for anything that happens at once on a busy machine.
pub const SOON: Duration = Duration::from_secs(20);

/// Looks until `look` finds something; fails with the last thing seen when that takes longer than `limit`.
pub fn until<T, E: Debug>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if start.elapsed() > limit => {
                panic!("{what}: not within {limit:?}; last seen: {seen:?}")
            }
            Err(_) => std::thread::sleep(STEP),
        }
    }
}

/// When something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Instant);

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// How long after `earlier`; nothing if it was before.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// Whether a time that was set is over.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// The moment `limit` from now.
    pub fn within(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    /// Whether it has passed.
    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// Does something `count` times, evenly over `span`. For load at a rate, never for waiting.
pub fn spread(count: u32, span: Duration, mut act: impl FnMut(u32)) {
    let start = Instant::now();
    for index in 0..count {
        let due = span.mul_f64(f64::from(index) / f64::from(count));
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        act(index);
    }
}
