//! Callers that speak HTTP/2 by hand.

use crate::wire::http2::rows::Row;
use crate::wire::http2::{END_STREAM, PREFACE, Peer, frame, headers, kind};
use crate::wire::origin::FOLLOW;
use crate::wire::row::End;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Silence for this long counts as a hang.
const PATIENCE: Duration = Duration::from_secs(5);

/// The stream of the request that probes the connection afterwards.
const PROBE: u32 = 1001;

/// What became of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its status.
    Status(u16),
    /// It was reset, with this code.
    Reset(u32),
    /// The connection ended before it.
    Nothing,
}

/// What came of a row: the first stream's answer with its header, and the connection's end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What became of stream 1.
    pub answer: Answer,
    /// Its header and trailers.
    pub fields: Vec<(String, String)>,
    /// What became of the connection.
    pub end: End,
}

/// A connection that has said hello.
pub fn connect(target: SocketAddr) -> Peer {
    let stream = TcpStream::connect(target).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut peer = Peer::new(stream);
    peer.write(PREFACE);
    peer.write(&frame(kind::SETTINGS, 0, 0, &[]));
    peer
}

/// Sends the frames of a row.
pub fn run(target: SocketAddr, row: &Row) -> Outcome {
    let mut peer = connect(target);
    peer.write(&row.frames);
    let (answer, fields) = answer(&mut peer, 1);
    let end = if answer == Answer::Nothing { silence(&peer) } else { probe(&mut peer) };
    Outcome { answer, fields, end }
}

/// Waits for the end of a stream.
pub fn answer(peer: &mut Peer, stream: u32) -> (Answer, Vec<(String, String)>) {
    let mut fields = Vec::new();
    loop {
        let Some(frame) = peer.frame() else { return (Answer::Nothing, fields) };
        if frame.stream != stream {
            if frame.kind == kind::HEADERS {
                peer.header_list(frame);
            }
            continue;
        }
        let mut ended = frame.flags & END_STREAM != 0;
        match frame.kind {
            kind::HEADERS => {
                let Some((list, last)) = peer.header_list(frame) else {
                    return (Answer::Nothing, fields);
                };
                fields.extend(list);
                ended = last;
            }
            kind::RST_STREAM => return (Answer::Reset(code(&frame.payload)), fields),
            kind::DATA => {}
            _ => ended = false,
        }
        if ended {
            let status = fields.iter().rfind(|(name, _)| name == ":status");
            let status = status.and_then(|(_, status)| status.parse().ok()).unwrap_or(0);
            return (Answer::Status(status), fields);
        }
    }
}

/// Whether the connection still serves requests.
fn probe(peer: &mut Peer) -> End {
    let request =
        [(":method", "GET"), (":scheme", "http"), (":authority", "wire"), (":path", FOLLOW)];
    peer.write(&headers(PROBE, &request, END_STREAM));
    match answer(peer, PROBE).0 {
        Answer::Status(200) => End::Kept,
        _ => silence(peer),
    }
}

fn silence(peer: &Peer) -> End {
    if peer.silent { End::Silent } else { End::Closed }
}

fn code(payload: &[u8]) -> u32 {
    payload.try_into().map_or(0, u32::from_be_bytes)
}
