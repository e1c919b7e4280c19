//! The end of the process, announced: one signal that everything that serves listens to. And how it comes to its end:
//!
//! ```text
//! SIGTERM ─▶ Leaving ── new connections are served; each answer closes its connection, and silence does
//!               │
//!               ├─ no worker had a connection for LULL ──────────────────────────────▶ end
//!               └─ the grace period is nearly over ─▶ Closing ── nothing new ── empty, or it is over ─▶ end
//! ```
//!
//! A connection that is closed while its caller writes the next request costs the caller that request. So an idle one is
//! left open until its caller is done with it, or has hardly a request more to send. And workers share their ports: one
//! that ended before the others would take connections along that the kernel had given to it.

use balance::time::Timestamp;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// An idle connection is closed after this time, longer than a proxy keeps one to its endpoint: most callers go first.
pub(crate) const IDLE_LINGER: Duration = Duration::from_secs(5);

/// Without a connection for this time, nobody calls any more.
const LULL: Duration = Duration::from_secs(1);

/// Callers that do not stop calling are turned away this long before the end, so that the last of them get their answers. Of a
/// short grace period, a quarter.
const CLOSING: Duration = Duration::from_secs(5);

/// Announces that the process is about to end. Cheap to clone; all clones are one signal.
#[derive(Clone, Debug)]
pub struct Signal {
    grace: Arc<watch::Sender<Option<Duration>>>,
    /// Workers that have connections, or had some a moment ago.
    busy: Arc<AtomicUsize>,
}

impl Default for Signal {
    fn default() -> Self {
        Self { grace: Arc::new(watch::Sender::new(None)), busy: Arc::default() }
    }
}

impl Signal {
    /// Starts the drain: what is in flight has `grace` to finish. Only the first call counts.
    pub fn start(&self, grace: Duration) {
        self.grace.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(grace);
            }
            first
        });
    }

    /// Whether the drain has started.
    pub fn started(&self) -> bool {
        self.grace.borrow().is_some()
    }

    /// Waits for the drain to start and returns its grace period.
    pub async fn wait(&self) -> Duration {
        let mut receiver = self.grace.subscribe();
        loop {
            let grace = *receiver.borrow_and_update();
            if let Some(grace) = grace {
                return grace;
            }
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Counts a worker, as busy until it says otherwise.
    pub(crate) fn join(&self) -> Part {
        self.busy.fetch_add(1, Ordering::SeqCst);
        Part { busy: Arc::clone(&self.busy), is_busy: Cell::new(true) }
    }
}

/// A worker's part in the end.
#[derive(Debug)]
pub(crate) struct Part {
    busy: Arc<AtomicUsize>,
    is_busy: Cell<bool>,
}

impl Part {
    /// Says whether this worker is busy. Whether any is.
    fn busy(&self, is_busy: bool) -> bool {
        match (self.is_busy.replace(is_busy), is_busy) {
            (false, true) => {
                self.busy.fetch_add(1, Ordering::SeqCst);
            }
            (true, false) => {
                self.busy.fetch_sub(1, Ordering::SeqCst);
            }
            (true, true) | (false, false) => {}
        }
        self.busy.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.busy(false);
    }
}

/// What a worker is to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Serve, and let callers go.
    Leaving,
    /// Accept nothing more.
    Closing,
    /// End.
    End,
}

/// A worker's way to its end.
#[derive(Debug)]
pub(crate) struct Drain {
    part: Part,
    grace: Duration,
    started: Timestamp,
    /// Connections that it had seen, and since when it has had none.
    seen: u64,
    empty: Timestamp,
}

impl Drain {
    pub(crate) fn begin(part: Part, grace: Duration, now: Timestamp) -> Self {
        Self { part, grace, started: now, seen: 0, empty: now }
    }

    /// The next step. `seen` counts the connections of all times, `open` those that are there.
    pub(crate) fn step(&mut self, seen: u64, open: usize, now: Timestamp) -> Step {
        if open > 0 || seen != self.seen {
            (self.seen, self.empty) = (seen, now);
        }
        let waited = now.since(self.started);
        let closing = waited >= self.grace.saturating_sub(CLOSING.min(self.grace / 4));
        let quiet = closing || now.since(self.empty) >= LULL;
        let any_busy = self.part.busy(open > 0 || !quiet);
        match (any_busy, closing) {
            (false, _) => Step::End,
            _ if waited >= self.grace => Step::End,
            (true, true) => Step::Closing,
            (true, false) => Step::Leaving,
        }
    }

    /// Whether idle connections have been left open for long enough.
    pub(crate) fn is_lingering_over(&self, now: Timestamp) -> bool {
        now.since(self.started) >= IDLE_LINGER
    }
}

#[cfg(test)]
mod tests {
    use super::{Drain, Signal, Step};
    use balance::time::Timestamp;
    use std::time::Duration;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_worker_waits_for_a_lull_and_for_the_others() {
        let signal = Signal::default();
        let begin = |part| Drain::begin(part, Duration::from_secs(20), at(0));
        let (mut one, mut other) = (begin(signal.join()), begin(signal.join()));
        assert_eq!(one.step(7, 0, at(50)), Step::Leaving);
        assert_eq!(other.step(3, 1, at(50)), Step::Leaving);
        assert_eq!(one.step(7, 0, at(1050)), Step::Leaving, "the other one is busy");
        assert_eq!(one.step(8, 0, at(1100)), Step::Leaving);
        assert_eq!(other.step(3, 1, at(1150)), Step::Leaving);
        assert_eq!(one.step(8, 0, at(2100)), Step::Leaving, "its own lull begins anew");
        assert_eq!(other.step(3, 0, at(2150)), Step::End, "both have been quiet");
        assert_eq!(one.step(8, 0, at(2150)), Step::End);
    }

    #[test]
    fn callers_that_go_on_are_turned_away_before_the_grace_period_is_over() {
        let signal = Signal::default();
        let mut drain = Drain::begin(signal.join(), Duration::from_secs(20), at(0));
        let cases = [
            (14_950, 5, Step::Leaving),
            (15_000, 5, Step::Closing),
            (15_050, 1, Step::Closing),
            (15_100, 0, Step::End),
        ];
        for (ms, open, expected) in cases {
            assert_eq!(drain.step(ms, open, at(ms)), expected, "{ms}");
        }
        let mut drain = Drain::begin(signal.join(), Duration::from_secs(2), at(0));
        assert_eq!(drain.step(9, 1, at(1999)), Step::Closing);
        assert_eq!(drain.step(9, 1, at(2000)), Step::End, "the grace period is the end");
    }
}
