//! How it stands with the controller, for people and metrics.

use crate::clock::Clock;
use balance::time::Timestamp;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::time::Duration;

/// How it stands with the controller. Shared by the client, which writes it, and by those that show it.
#[derive(Debug)]
pub struct Status {
    clock: Clock,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    stream: Stream,
    /// When that began.
    since: Timestamp,
    /// When a stream was last known to be alive.
    alive: Option<Timestamp>,
    /// Why the last attempt or stream ended.
    failure: Option<String>,
    resyncs: u64,
}

/// The stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// It is being opened: for the first time, or again after it was lost.
    Connecting,
    /// It is open, to this replica.
    Connected(SocketAddr),
    /// No replica could be reached.
    Disconnected,
}

/// The status at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The stream.
    pub stream: Stream,
    /// How long it has been so.
    pub lasts: Duration,
    /// How old what is known may be: nothing while connected, `None` when there never was a stream.
    pub stale: Option<Duration>,
    /// Why the last attempt or stream ended.
    pub failure: Option<String>,
    /// How often everything was asked for again, because a stream began anew or something was missed.
    pub resyncs: u64,
}

impl Status {
    /// Nothing was tried yet.
    pub fn new(clock: Clock) -> Self {
        let now = Now {
            stream: Stream::Connecting,
            since: clock.now(),
            alive: None,
            failure: None,
            resyncs: 0,
        };
        Self { clock, now: Mutex::new(now) }
    }

    /// How it stands.
    pub fn seen(&self) -> Seen {
        let at = self.clock.now();
        let now = self.now.lock();
        let stale = match now.stream {
            Stream::Connected(_) => Some(Duration::ZERO),
            Stream::Connecting | Stream::Disconnected => now.alive.map(|alive| at.since(alive)),
        };
        Seen {
            stream: now.stream,
            lasts: at.since(now.since),
            stale,
            failure: now.failure.clone(),
            resyncs: now.resyncs,
        }
    }

    /// A stream is open. Whether there was one before.
    pub(super) fn connected(&self, replica: SocketAddr) -> bool {
        let at = self.clock.now();
        let mut now = self.now.lock();
        let again = now.alive.is_some();
        now.resyncs += u64::from(again);
        (now.stream, now.since, now.alive) = (Stream::Connected(replica), at, Some(at));
        again
    }

    /// Something was missed and is asked for again.
    pub(super) fn resynced(&self) {
        self.now.lock().resyncs += 1;
    }

    /// The stream was lost. How long it had lived.
    pub(super) fn lost(&self, why: String) -> Duration {
        let at = self.clock.now();
        let mut now = self.now.lock();
        let lived = at.since(now.since);
        (now.stream, now.since, now.alive) = (Stream::Connecting, at, Some(at));
        now.failure = Some(why);
        lived
    }

    /// An attempt failed. Whether that is news.
    pub(super) fn failed(&self, why: &str) -> bool {
        let mut now = self.now.lock();
        let news = now.failure.as_deref() != Some(why);
        now.failure = Some(why.to_owned());
        news
    }

    /// All replicas failed.
    pub(super) fn gone(&self) {
        let at = self.clock.now();
        let mut now = self.now.lock();
        if now.stream != Stream::Disconnected {
            (now.stream, now.since) = (Stream::Disconnected, at);
        }
    }
}
