//! Sends a row through a proxy and looks at what comes of it.

use crate::deadline::Deadline;
use crate::wire::origin::{FOLLOW, Origin};
use crate::wire::row::{End, Outcome, Row};
use crate::wire::strict::{self, Kind, Message, Parsed};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Silence for this long counts as a hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends the bytes of a row to `target`, whose only endpoint is `origin`.
pub fn run(target: SocketAddr, origin: &Origin, row: &Row) -> Outcome {
    run_in_pieces(target, origin, row, &[])
}

/// The same, with the bytes cut at `cuts` into segments of their own.
pub fn run_in_pieces(target: SocketAddr, origin: &Origin, row: &Row, cuts: &[usize]) -> Outcome {
    origin.set(row);
    let head = row.request.starts_with(b"HEAD ");
    let mut caller = Caller::connect(target);
    let mut rest = row.request.as_slice();
    let mut at = 0;
    for cut in cuts {
        let (piece, further) = rest.split_at(cut - at);
        caller.write(piece);
        (rest, at) = (further, *cut);
    }
    caller.write(rest);
    let mut informational = Vec::new();
    let (answer, broken) = loop {
        let kind = if head { Kind::AnswerToHead } else { Kind::Answer };
        match caller.message(kind) {
            Read::Message(message) if (100..200).contains(&message.status()) => {
                informational.push(message.status());
            }
            Read::Message(message) => break (Some(message), None),
            Read::Broken(head, why) => break (head, Some(why)),
            Read::Nothing => break (None, None),
        }
    };
    let end = caller.end(answer.as_ref());
    let (requests, junk) = settled(target, origin, row);
    Outcome { informational, answer, broken, end, requests, junk }
}

/// Sends the bytes of a row and the end of them, and waits for the end of the connection. What the origin saw.
pub fn pass(target: SocketAddr, origin: &Origin, row: &Row) -> (Vec<Message>, Vec<&'static str>) {
    origin.set(row);
    let mut caller = Caller::connect(target);
    caller.write(&row.request);
    if let Some(stream) = &caller.stream {
        // It may be closed already.
        drop(stream.shutdown(std::net::Shutdown::Write));
    }
    while caller.stream.is_some() && !caller.silent {
        caller.more();
    }
    origin.seen()
}

/// What the origin saw, once it has seen all that there is to see: a request behind it on the same worker was answered.
fn settled(target: SocketAddr, origin: &Origin, row: &Row) -> (Vec<Message>, Vec<&'static str>) {
    for _ in 0..2 {
        let mut caller = Caller::connect(target);
        caller.write(follow().as_bytes());
        caller.message(Kind::Answer);
    }
    let complete = Deadline::within(PATIENCE);
    loop {
        let (requests, junk) = origin.seen();
        if requests.len() >= row.expected.requests || !junk.is_empty() || complete.is_over() {
            return (requests, junk);
        }
        std::thread::yield_now();
    }
}

fn follow() -> String {
    format!("GET {FOLLOW} HTTP/1.1\r\nHost: wire\r\n\r\n")
}

enum Read {
    Message(Message),
    /// No whole message; its head, if that came.
    Broken(Option<Message>, &'static str),
    Nothing,
}

struct Caller {
    stream: Option<TcpStream>,
    bytes: Vec<u8>,
    silent: bool,
}

impl Caller {
    fn connect(target: SocketAddr) -> Self {
        let stream = TcpStream::connect(target).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: Some(stream), bytes: Vec::new(), silent: false }
    }

    fn write(&mut self, bytes: &[u8]) {
        // It may be refused before it is all sent; what counts is what comes back.
        if let Some(stream) = &mut self.stream {
            drop(stream.write_all(bytes));
        }
    }

    /// The next message.
    fn message(&mut self, kind: Kind) -> Read {
        loop {
            let at_end = self.stream.is_none() || self.silent;
            match strict::parse(&self.bytes, kind, at_end) {
                Parsed::Whole(message, used) => {
                    self.bytes.drain(..used);
                    return Read::Message(message);
                }
                Parsed::Broken(why) => return Read::Broken(strict::head(&self.bytes), why),
                Parsed::More if at_end => return Read::Nothing,
                Parsed::More => self.more(),
            }
        }
    }

    fn more(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut buffer = [0; 16 * 1024];
        match stream.read(&mut buffer) {
            Ok(length) if length > 0 => {
                self.bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => self.silent = true,
            _ => self.stream = None,
        }
    }

    /// What the connection is good for after the answer.
    fn end(&mut self, answer: Option<&Message>) -> End {
        if self.silent {
            return End::Silent;
        }
        if answer.is_some_and(|answer| answer.field("connection") == Some("close")) {
            // What arrives now would only be thrown away, and may be answered by a reset.
            while self.stream.is_some() && !self.silent {
                self.more();
            }
            return if self.silent { End::Silent } else { End::Closed };
        }
        self.write(follow().as_bytes());
        loop {
            match self.message(Kind::Answer) {
                // An answer to what the row itself has pipelined may come first.
                Read::Message(message) if message.status() == 200 && self.bytes.is_empty() => {
                    return End::Kept;
                }
                Read::Message(_) => {}
                Read::Broken(..) | Read::Nothing if self.silent => return End::Silent,
                Read::Broken(..) | Read::Nothing => return End::Closed,
            }
        }
    }
}
