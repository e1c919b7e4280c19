//! The meter on a socket: what it finds ends the connection, and is counted.

use crate::clock::Clock;
use crate::flood::{Meter, Side};
use crate::metrics::edge::{self, Peer};
use std::io::{Error, IoSlice, Result};
use tokio::io::ReadBuf;

/// Counts the frames of a connection once it is known to be of HTTP/2; until then nothing.
#[derive(Debug, Default)]
pub(crate) struct Metered(Option<Box<Running>>);

#[derive(Debug)]
struct Running {
    meter: Meter,
    clock: Clock,
    /// Who is at the other end.
    peer: Peer,
}

impl Metered {
    /// Counts from now on; to be called before the first byte passes.
    pub(crate) fn start(&mut self, side: Side, clock: Clock) {
        let peer = match side {
            Side::Server => Peer::Caller,
            Side::Client => Peer::Endpoint,
        };
        self.0 = Some(Box::new(Running { meter: Meter::new(side, clock.now()), clock, peer }));
    }

    pub(crate) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Counts what came into `buffer` behind its first `before` bytes. An error when the peer floods us.
    pub(crate) fn received(&mut self, buffer: &ReadBuf<'_>, before: usize) -> Result<()> {
        let Some(Running { meter, clock, peer }) = self.0.as_deref_mut() else { return Ok(()) };
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        meter.received(fresh, || clock.now()).map_err(|flood| {
            edge::closed(*peer, flood.into());
            Error::other(flood)
        })
    }

    /// Counts the first `length` bytes of what was written.
    pub(crate) fn sent(&mut self, slices: &[IoSlice<'_>], length: usize) {
        if let Some(running) = &mut self.0 {
            running.meter.sent_of(slices, length);
        }
    }
}
