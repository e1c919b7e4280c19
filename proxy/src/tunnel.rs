//! Bytes both ways between a caller and an endpoint, until both are done.
//!
//! One end may be done long before the other (half-close): it is passed on, and the other direction goes on. What cannot be
//! written is not read either, so that a slow reader slows its writer down and nothing piles up here. An idle tunnel has no
//! buffer: all tunnels of a worker read into the same one, and only what could not be written at once is kept.

use std::cell::RefCell;
use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read at once, and the most that a direction keeps.
const CHUNK: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// An end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Who opened the connection.
    Caller,
    /// Who it was opened to.
    Endpoint,
}

impl std::fmt::Display for Side {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Caller => "caller",
            Self::Endpoint => "endpoint",
        })
    }
}

/// A connection failed: reset, or its peer is gone.
#[derive(Debug, thiserror::Error)]
#[error("the connection of the {side} failed: {error}")]
pub(crate) struct Broken {
    pub(crate) side: Side,
    pub(crate) error: Error,
}

/// What is told while bytes flow.
pub(crate) trait Watch {
    /// Bytes moved while one direction was at its end already, or a direction came to its end.
    fn half_closed(&self);
}

/// Bytes that were read before, and go first.
#[derive(Debug, Default)]
pub(crate) struct First {
    pub(crate) to_endpoint: Vec<u8>,
    pub(crate) to_caller: Vec<u8>,
}

/// Moves bytes until both directions came to their end.
pub(crate) async fn join<C, E>(
    caller: &mut C,
    endpoint: &mut E,
    first: First,
    watch: &impl Watch,
) -> Result<(), Broken>
where
    C: AsyncRead + AsyncWrite + Unpin,
    E: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = Direction { kept: first.to_endpoint, ..Direction::default() };
    let mut reply = Direction { kept: first.to_caller, ..Direction::default() };
    std::future::poll_fn(|cx| {
        let moved = request.moved + reply.moved;
        let there = request.poll(cx, caller, endpoint).map_err(|(end, error)| Broken {
            side: if end == End::Source { Side::Caller } else { Side::Endpoint },
            error,
        })?;
        let back = reply.poll(cx, endpoint, caller).map_err(|(end, error)| Broken {
            side: if end == End::Source { Side::Endpoint } else { Side::Caller },
            error,
        })?;
        if there.is_ready() && back.is_ready() {
            return Poll::Ready(Ok(()));
        }
        if (there.is_ready() || back.is_ready()) && moved != request.moved + reply.moved {
            watch.half_closed();
        }
        Poll::Pending
    })
    .await
}

/// Which end of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Source,
    Sink,
}

/// One direction of a tunnel.
#[derive(Debug, Default)]
struct Direction {
    /// Read, and not written yet.
    kept: Vec<u8>,
    written: usize,
    /// Bytes read; the end of the stream counts as one.
    moved: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// The source is at its end; the sink is not told yet.
    Ending,
    Done,
}

impl Direction {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), (End, Error)>> {
        let at_sink = |error| (End::Sink, error);
        loop {
            ready!(self.poll_kept(cx, sink)).map_err(at_sink)?;
            match self.stage {
                Stage::Open => match self.poll_chunk(cx, source, sink)? {
                    Poll::Ready(()) => {}
                    Poll::Pending => {
                        // Nothing more for now: what the sink holds back itself goes out.
                        ready!(Pin::new(&mut *sink).poll_flush(cx)).map_err(at_sink)?;
                        return Poll::Pending;
                    }
                },
                Stage::Ending => {
                    ready!(Pin::new(&mut *sink).poll_shutdown(cx)).map_err(at_sink)?;
                    self.stage = Stage::Done;
                }
                Stage::Done => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Writes what an earlier turn could not.
    fn poll_kept(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Error>> {
        while let Some(rest) = self.kept.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut *sink).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                length => self.written += length,
            }
        }
        // Given back, so that a tunnel that was slow once is as small as the others.
        self.kept = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Reads once and writes as much of it as goes at once.
    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Poll<()>, (End, Error)> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            match Pin::new(&mut *source).poll_read(cx, &mut buffer) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(error)) => return Err((End::Source, error)),
                Poll::Ready(Ok(())) => {}
            }
            let bytes = buffer.filled();
            self.moved += bytes.len() as u64;
            if bytes.is_empty() {
                self.moved += 1;
                self.stage = Stage::Ending;
                return Ok(Poll::Ready(()));
            }
            let written = match Pin::new(&mut *sink).poll_write(cx, bytes) {
                Poll::Ready(Ok(length)) => length,
                Poll::Ready(Err(error)) => return Err((End::Sink, error)),
                Poll::Pending => 0,
            };
            self.kept.extend_from_slice(bytes.get(written..).unwrap_or_default());
            Ok(Poll::Ready(()))
        })
    }
}
