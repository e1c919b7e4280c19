//! Step 2: what does the caller speak? The first bytes tell. They are kept and read again by the protocol.

use crate::worker::roster::Entry;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a caller speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// What every HTTP/2 connection begins with (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A caller's connection. What detection read of it is read again from here.
#[derive(Debug)]
pub(crate) struct Inbound {
    stream: TcpStream,
    entry: Rc<Entry>,
    first: [u8; PREFACE.len()],
    filled: usize,
    taken: usize,
}

/// Finds out what the caller speaks; `None` when it is not HTTP. Waits until that is certain.
pub(crate) async fn version(inbound: &mut Inbound) -> Result<Option<Version>> {
    loop {
        match judge(inbound.seen()) {
            Judgement::Certain(version) => return Ok(version),
            Judgement::Open => {}
        }
        let Inbound { stream, first, filled, .. } = inbound;
        let space = first.get_mut(*filled..).unwrap_or_default();
        match stream.read(space).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            length => *filled += length,
        }
        inbound.entry.received();
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judgement {
    Open,
    Certain(Option<Version>),
}

/// What the first bytes say. A request line begins with a token (RFC 9110, 5.6.2); anything else is not HTTP.
fn judge(seen: &[u8]) -> Judgement {
    if seen.len() < PREFACE.len() && PREFACE.starts_with(seen) {
        return Judgement::Open;
    }
    if seen.starts_with(PREFACE) {
        return Judgement::Certain(Some(Version::Http2));
    }
    match seen.first() {
        // Empty lines before a request line are ignored (RFC 9112, 2.2).
        Some(b'\r' | b'\n') => Judgement::Certain(Some(Version::Http1)),
        Some(first) if first.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(first) => {
            Judgement::Certain(Some(Version::Http1))
        }
        _ => Judgement::Certain(None),
    }
}

impl Inbound {
    pub(crate) fn new(stream: TcpStream, entry: Rc<Entry>) -> Self {
        Self { stream, entry, first: [0; PREFACE.len()], filled: 0, taken: 0 }
    }

    /// Reads what the caller still sends and throws it away, until it has closed too. Closing over unread bytes makes the
    /// kernel reset the connection, and the caller then loses the answer that it has not read yet. The roster ends it.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.entry.lingers();
        let mut thrown_away = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut thrown_away);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            if std::task::ready!(read).is_err() || buffer.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn seen(&self) -> &[u8] {
        self.first.get(..self.filled).unwrap_or_default()
    }
}

impl AsyncRead for Inbound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.taken < self.filled {
            let rest = self.first.get(self.taken..self.filled).unwrap_or_default();
            let length = rest.len().min(buffer.remaining());
            buffer.put_slice(rest.get(..length).unwrap_or_default());
            self.taken += length;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.entry.received();
        }
        read
    }
}

impl AsyncWrite for Inbound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        self.linger(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, PREFACE, Version, judge};

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let cases: [(&[u8], Judgement); 9] = [
            (b"", Judgement::Open),
            (b"P", Judgement::Open),
            (b"PRI * HTTP/2.0\r\n", Judgement::Open),
            (PREFACE, Judgement::Certain(Some(Version::Http2))),
            (b"POST / HTTP/1.1", Judgement::Certain(Some(Version::Http1))),
            (b"GET", Judgement::Certain(Some(Version::Http1))),
            (b"\r\nGET", Judgement::Certain(Some(Version::Http1))),
            (b"\x16\x03\x01", Judgement::Certain(None)),
            (b"\0", Judgement::Certain(None)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(judge(bytes), expected, "{bytes:?}");
        }
    }
}
