//! Step 2: what does the caller speak? The first bytes tell. They are kept and read again by the protocol.

use crate::clock::Clock;
use crate::discovery::EndpointProtocol;
use crate::flood::Side;
use crate::flood::metered::Metered;
use crate::metrics::edge::{self, Closed, Peer};
use crate::outbound::opaque::{self, Link};
use crate::outbound::unparsed::Replacement;
use crate::overload::Overload;
use crate::upstream::stream;
use crate::worker::local::LocalService;
use crate::worker::roster::{End, Entry, HALF_CLOSE_WITHIN};
use bytes::Bytes;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// What a caller speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// What every HTTP/2 connection begins with (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A caller's connection. What was read of it too early is read again from here.
#[derive(Debug)]
pub(crate) struct Inbound {
    stream: TcpStream,
    entry: Rc<Entry>,
    /// Says how much may be read at once.
    overload: Arc<Overload>,
    early: Bytes,
    /// Bytes of a request's header that were read and are not whole.
    header: usize,
    /// Counts the frames of an HTTP/2 connection.
    meter: Metered,
    /// What is written in place of the HTTP library's own answer.
    replacement: Option<Box<Replacement>>,
    /// How long it may be unknown whether the caller ended its side within a body.
    doubt: Option<Pin<Box<Sleep>>>,
}

/// How long a silent caller is waited for before the endpoint is asked whether it speaks first. HTTP callers send their
/// request with the connection, and do not get that far.
const QUIET: Duration = Duration::from_millis(30);

/// After this time a connection is taken for what it seems.
const DEADLINE: Duration = Duration::from_secs(1);

/// What a connection turned out to be.
#[derive(Debug)]
pub(crate) enum Detected {
    /// Requests.
    Http(Version),
    /// Something else, and the connection to an endpoint if that had to be asked.
    Opaque(Option<Link>),
}

/// Finds out what a connection carries. Where the service's protocol is not known, the one who speaks first tells: an
/// endpoint that does speaks no HTTP, and where both are silent for a second it is not HTTP either.
pub(crate) async fn detect(
    inbound: &mut Inbound,
    service: Option<&Rc<LocalService>>,
) -> Result<Detected> {
    let service =
        service.filter(|service| service.setting(|set| set.protocol == EndpointProtocol::Detect));
    let Some(service) = service else {
        return Ok(version(inbound).await?.map_or(Detected::Opaque(None), Detected::Http));
    };
    if let Ok(version) = tokio::time::timeout(QUIET, version(inbound)).await {
        return judged(version, None);
    }
    // On the heap, since hardly a connection of HTTP comes here, and each of them would be as large.
    Box::pin(who_speaks(inbound, service)).await
}

/// The same where there is no endpoint to ask: a caller that is silent for a second waits for the other side to speak.
pub(crate) async fn detect_alone(inbound: &mut Inbound) -> Result<Detected> {
    match tokio::time::timeout(DEADLINE, version(inbound)).await {
        Ok(version) => judged(version, None),
        Err(_elapsed) => Ok(Detected::Opaque(None)),
    }
}

/// Who speaks first, the caller or an endpoint? Neither, after a while.
async fn who_speaks(inbound: &mut Inbound, service: &Rc<LocalService>) -> Result<Detected> {
    let mut link = None;
    let told = {
        let server = async {
            if let Ok(made) = opaque::connect(service).await
                && link.insert(made).stream.speaks().await
            {
                return;
            }
            // There is no endpoint, or one that does not wait: only the caller can tell.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            version = version(inbound) => Some(version),
            () = server => None,
            () = tokio::time::sleep(DEADLINE.saturating_sub(QUIET)) => {
                tracing::debug!(service = %service.shared().name(), "nobody spoke for a second: not taken for HTTP");
                None
            }
        }
    };
    match told {
        Some(version) => judged(version, link),
        None => Ok(Detected::Opaque(link)),
    }
}

/// What the caller's bytes, or their end, say.
fn judged(version: Result<Option<Version>>, link: Option<Link>) -> Result<Detected> {
    match version {
        Ok(Some(version)) => Ok(Detected::Http(version)),
        Ok(None) => Ok(Detected::Opaque(link)),
        // It has nothing to say and may yet want to hear: that is passed on.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Detected::Opaque(link)),
        Err(error) => Err(error),
    }
}

/// Finds out what the caller speaks; `None` when it is not HTTP. Waits until that is certain.
async fn version(inbound: &mut Inbound) -> Result<Option<Version>> {
    loop {
        match judge(&inbound.early) {
            Judgement::Certain(version) => return Ok(version),
            Judgement::Open => {}
        }
        let mut space = [0; PREFACE.len()];
        let missing = space.len().saturating_sub(inbound.early.len());
        let length = inbound.stream.read(space.get_mut(..missing).unwrap_or_default()).await?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        inbound.unread(space.get(..length).unwrap_or_default());
        inbound.entry.received();
    }
}

/// What the first bytes say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Open,
    Certain(Option<Version>),
}

/// Methods that begin a request whatever follows, so that a malformed request is answered as such.
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH", b"CONNECT"];

/// What the first bytes say. A request line begins with a token, a space and a target (RFC 9112, 3), which is a path, a URI
/// or an asterisk. Other protocols of lines of text have words there.
pub(crate) fn judge(seen: &[u8]) -> Judgement {
    const HTTP1: Judgement = Judgement::Certain(Some(Version::Http1));
    const OTHER: Judgement = Judgement::Certain(None);
    if seen.starts_with(PREFACE) {
        return Judgement::Certain(Some(Version::Http2));
    }
    if PREFACE.starts_with(seen) {
        return Judgement::Open;
    }
    // Empty lines before a request line are ignored (RFC 9112, 2.2).
    if let Some(b'\r' | b'\n') = seen.first() {
        return HTTP1;
    }
    let length = seen.iter().take_while(|byte| is_token(**byte)).count();
    let (word, rest) = seen.split_at_checked(length).unwrap_or_default();
    match rest.split_first() {
        None if seen.len() < PREFACE.len() => Judgement::Open,
        Some(_) if METHODS.contains(&word) => HTTP1,
        Some((b' ', target)) if !word.is_empty() => match target.first() {
            None if seen.len() < PREFACE.len() => Judgement::Open,
            Some(b'/' | b'*') => HTTP1,
            Some(_) => match (begins_with(target, b"http:"), begins_with(target, b"https:")) {
                (Some(true), _) | (_, Some(true)) => HTTP1,
                (Some(false), Some(false)) => OTHER,
                _ if seen.len() < PREFACE.len() => Judgement::Open,
                _ => OTHER,
            },
            None => OTHER,
        },
        _ => OTHER,
    }
}

/// Whether `target` begins with the scheme; `None` while there is too little of it to say.
fn begins_with(target: &[u8], scheme: &[u8]) -> Option<bool> {
    let alike = target.iter().zip(scheme).all(|(byte, wanted)| byte.eq_ignore_ascii_case(wanted));
    (!alike || target.len() >= scheme.len()).then_some(alike)
}

/// A character of a token (RFC 9110, 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

impl Inbound {
    pub(crate) fn new(stream: TcpStream, entry: Rc<Entry>, overload: Arc<Overload>) -> Self {
        Self {
            stream,
            entry,
            overload,
            early: Bytes::new(),
            header: 0,
            meter: Metered::default(),
            replacement: None,
            doubt: None,
        }
    }

    /// Reads what the caller still sends and throws it away, until it has closed too. Closing over unread bytes makes the
    /// kernel reset the connection, and the caller then loses the answer that it has not read yet. The roster ends it. A
    /// caller of HTTP/2 has been told to stop, and is not listened to any longer.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.meter.is_running() {
            return Poll::Ready(Ok(()));
        }
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

    /// Lets the caller see a reset instead of an orderly end once this is dropped.
    pub(crate) fn reset(&self) {
        stream::reset(&self.stream);
    }

    /// Takes back what was read and not used, behind what was taken back before.
    pub(crate) fn unread(&mut self, bytes: &[u8]) {
        self.early = [&self.early, bytes].concat().into();
    }

    /// Whether something was taken back and not read again.
    pub(crate) fn has_unread(&self) -> bool {
        !self.early.is_empty()
    }

    /// Waits until there is something to read, or an end to be seen.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        // An error is seen by who reads.
        self.stream.poll_read_ready(cx).map(drop)
    }

    /// Counts frames from now on; for HTTP/2, before the first byte is read again.
    pub(crate) fn count_frames(&mut self, clock: Clock) {
        self.meter.start(Side::Server, clock);
    }

    fn read_on(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if !self.early.is_empty() {
            let length = self.early.len().min(buffer.remaining());
            buffer.put_slice(&self.early.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let most = self.overload.share();
        if self.header > most && self.overload.is_pressed() {
            edge::closed(Peer::Caller, Closed::Overloaded);
            return Poll::Ready(Err(Error::other("memory is short, and the header large")));
        }
        let read = stream::poll_read_at_most(most, &mut self.stream, cx, buffer);
        let length = buffer.filled().len() - before;
        if length > 0 {
            self.entry.received();
            self.header = if self.entry.reads_header() { self.header + length } else { 0 };
        } else if matches!(read, Poll::Ready(Ok(()))) && buffer.remaining() > 0 {
            return self.end(cx);
        }
        read
    }

    /// The caller's side is at its end. The HTTP library is told so once nothing is answered any more; the entry wakes it then.
    fn end(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self.entry.end() {
            End::Gone => Poll::Ready(Ok(())),
            End::AwaitsAnswer => Poll::Pending,
            End::PerhapsWithinBody => {
                let doubt = || Box::pin(tokio::time::sleep(HALF_CLOSE_WITHIN));
                self.doubt.get_or_insert_with(doubt).as_mut().poll(cx).map(Ok)
            }
        }
    }

    /// Writes another answer than the one that is to be written, where the HTTP library made that one.
    fn replace(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Option<Poll<Result<usize>>> {
        if self.replacement.is_none() && self.entry.reads_header() {
            self.replacement = Replacement::of(slices);
        }
        let written = self.replacement.as_mut()?.poll_write(&mut self.stream, cx);
        if written.is_ready() {
            self.replacement = None;
        }
        Some(written)
    }

    fn note_written(
        &mut self,
        written: Poll<Result<usize>>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        match written {
            Poll::Ready(Ok(length)) => {
                self.entry.wrote();
                self.meter.sent(slices, length);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.entry.cannot_write(),
        }
        written
    }
}

impl AsyncRead for Inbound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        std::task::ready!(self.read_on(cx, buffer))?;
        Poll::Ready(self.meter.received(buffer, before))
    }
}

impl AsyncWrite for Inbound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let slices = [IoSlice::new(bytes)];
        let replaced = self.replace(cx, &slices);
        let written = replaced.unwrap_or_else(|| Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.note_written(written, &slices)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let replaced = self.replace(cx, slices);
        let written =
            replaced.unwrap_or_else(|| Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.note_written(written, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        std::task::ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        // An opaque connection is only half-closed by this.
        if self.entry.carries_http() { self.linger(cx) } else { Poll::Ready(Ok(())) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Judgement, PREFACE, Version, judge};

    #[test]
    fn the_first_bytes_tell_the_protocol() {
        let http1 = || Judgement::Certain(Some(Version::Http1));
        let other = || Judgement::Certain(None);
        let cases: [(&[u8], Judgement); 29] = [
            (b"", Judgement::Open),
            (b"P", Judgement::Open),
            (b"PRI * HTTP/2.0\r\n", Judgement::Open),
            (PREFACE, Judgement::Certain(Some(Version::Http2))),
            (b"POST / HTTP/1.1", Judgement::Certain(Some(Version::Http1))),
            (b"GET", Judgement::Open),
            (b"GET ", http1()),
            (b"GET  / HTTP/1.1", http1()),
            (b"GET\t/", http1()),
            (b"PRI /x HTTP/1.1", http1()),
            (b"BREW /pot", http1()),
            (b"BREW ", Judgement::Open),
            (b"BREW h", Judgement::Open),
            (b"BREW http", Judgement::Open),
            (b"BREW HTTP:", http1()),
            (b"BREW https:", http1()),
            (b"OPTIONS *", http1()),
            (b"CONNECT x:443", http1()),
            (b"\r\nGET", http1()),
            (b"\x16\x03\x01", other()),
            (b"\0", other()),
            (b"*2\r\n$3\r\nGET", other()),
            (b"get key\r\n", other()),
            (b"get hkey\r\n", other()),
            (b"SET key value\r\n", other()),
            (b"EHLO host\r\n", other()),
            (b"QUIT\r\n", other()),
            (b"SSH-2.0-OpenSSH_9.2p1 Debian", other()),
            (b"AAAAAAAAAAAAAAAAAAAAAAAA", other()),
        ];
        for (bytes, expected) in cases {
            assert_eq!(judge(bytes), expected, "{bytes:?}");
        }
    }
}
