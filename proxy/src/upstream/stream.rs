//! An endpoint's socket that counts its bytes.

use crate::clock::Clock;
use crate::flood::Side;
use crate::flood::metered::Metered;
use crate::overload::Overload;
use metrics::Counter;
use socket2::SockRef;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Lets the peer of a socket see a reset instead of an orderly end once the socket is dropped.
pub(crate) fn reset(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection is closed, not reset");
    }
}

/// Reads no more than so many bytes at once: the HTTP library passes on what it read as one piece.
#[inline]
pub(crate) fn poll_read_at_most(
    most: usize,
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<Result<()>> {
    if buffer.remaining() <= most {
        Pin::new(stream).poll_read(cx, buffer)
    } else {
        poll_read_part(most, stream, cx, buffer)
    }
}

#[cold]
fn poll_read_part(
    most: usize,
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<Result<()>> {
    let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
    std::task::ready!(Pin::new(stream).poll_read(cx, &mut part))?;
    let length = part.filled().len();
    buffer.advance(length);
    Poll::Ready(Ok(()))
}

/// A socket that counts what it sends and receives.
#[derive(Debug)]
pub(crate) struct Counted {
    stream: TcpStream,
    /// Says how much may be read at once.
    overload: Option<Arc<Overload>>,
    sent: Counter,
    received: Counter,
    any_received: bool,
    /// Counts the frames of an HTTP/2 connection.
    meter: Metered,
}

impl Counted {
    pub(crate) fn new(stream: TcpStream, (sent, received): (Counter, Counter)) -> Self {
        Self {
            stream,
            overload: None,
            sent,
            received,
            any_received: false,
            meter: Metered::default(),
        }
    }

    /// Reads no more at once than a body may hold.
    pub(crate) fn read_by_share(&mut self, overload: &Arc<Overload>) {
        self.overload = Some(Arc::clone(overload));
    }

    /// Waits until the peer said something. `false` when it closed the connection instead.
    pub(crate) async fn speaks(&self) -> bool {
        self.stream.peek(&mut [0]).await.is_ok_and(|length| length > 0)
    }

    /// Whether anything was received from the peer.
    pub(crate) fn has_received(&self) -> bool {
        self.any_received
    }

    /// Lets the peer see a reset instead of an orderly end once this is dropped.
    pub(crate) fn reset(&self) {
        reset(&self.stream);
    }

    /// Counts frames from now on; for HTTP/2, before the first byte.
    pub(crate) fn count_frames(&mut self, clock: Clock) {
        self.meter.start(Side::Client, clock);
    }

    fn count_sent(
        &mut self,
        written: Poll<Result<usize>>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if let Poll::Ready(Ok(length)) = written {
            self.sent.increment(length as u64);
            self.meter.sent(slices, length);
        }
        written
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let most = self.overload.as_ref().map_or(usize::MAX, |overload| overload.share());
        let read = poll_read_at_most(most, &mut self.stream, cx, buffer);
        let length = buffer.filled().len() - before;
        if length > 0 {
            self.any_received = true;
            self.received.increment(length as u64);
        }
        self.meter.received(buffer, before)?;
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count_sent(written, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.count_sent(written, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
