//! Answers to heads that do not parse. The HTTP/1 library sends these by itself, as a bare status line, and tells nobody. On
//! their way to the caller they are replaced by answers that say why, as all answers of the proxy's own do.

use crate::metrics::edge;
use crate::outbound::reply::{self, Refusal};
use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// An answer in place of the library's own.
#[derive(Debug)]
pub(crate) struct Replacement {
    answer: String,
    written: usize,
    /// Bytes that the library wrote, for it to believe that they are out.
    replaced: usize,
}

impl Replacement {
    /// What takes the place of these bytes, if they are the library's own answer. To be asked only while a head is read: then
    /// nothing else is answered.
    pub(crate) fn of(slices: &[IoSlice<'_>]) -> Option<Box<Self>> {
        let mut filled = slices.iter().filter(|slice| !slice.is_empty());
        let (Some(bytes), None) = (filled.next(), filled.next()) else { return None };
        let refusal = refusal(bytes)?;
        edge::refused(refusal as usize, refusal.name());
        Some(Box::new(Self { answer: reply::http1(refusal), written: 0, replaced: bytes.len() }))
    }

    /// Writes it to its end.
    pub(crate) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize>> {
        while let Some(rest) = self.answer.as_bytes().get(self.written..)
            && !rest.is_empty()
        {
            match std::task::ready!(Pin::new(&mut *socket).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                length => self.written += length,
            }
        }
        Poll::Ready(Ok(self.replaced))
    }
}

/// What the library's own answer is about. It has no field but those that frame it.
fn refusal(bytes: &[u8]) -> Option<Refusal> {
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
    let is_bare = lines.all(|line| {
        ["connection: close", "content-length: 0"].iter().any(|own| line.eq_ignore_ascii_case(own))
    });
    match (is_bare, status) {
        (true, "400") => Some(Refusal::Malformed),
        (true, "414") => Some(Refusal::TargetTooLong),
        (true, "431") => Some(Refusal::HeadersTooLarge),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Refusal, refusal};

    #[test]
    fn only_the_librarys_own_answers_are_replaced() {
        let cases = [
            ("400 Bad Request\r\nconnection: close\r\ncontent-length: 0", Some(Refusal::Malformed)),
            ("400 Bad Request\r\ncontent-length: 0", Some(Refusal::Malformed)),
            ("414 URI Too Long\r\nconnection: close", Some(Refusal::TargetTooLong)),
            ("431 Request Header Fields Too Large", Some(Refusal::HeadersTooLarge)),
            ("400 Bad Request\r\ncontent-length: 0\r\nserver: x", None),
            ("400 Bad Request\r\ncontent-length: 2", None),
            ("200 OK\r\ncontent-length: 0", None),
            ("400 Bad Request\r\n\r\ncontent-length: 0", None),
        ];
        for (head, expected) in cases {
            let head = format!("HTTP/1.1 {head}\r\n\r\n");
            assert_eq!(refusal(head.as_bytes()), expected, "{head}");
        }
        assert_eq!(refusal(b"HTTP/1.1 400 Bad Request\r\n"), None);
    }
}
