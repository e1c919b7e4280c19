//! HTTP/2 as frames, made by hand, so that they may be wrong.

pub mod caller;
pub mod origin;
pub mod rows;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

/// What a client's connection begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames.
pub mod kind {
    #![expect(missing_docs, reason = "the names are those of RFC 9113, section 6")]
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const PRIORITY: u8 = 2;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// `END_STREAM`, and `ACK` of SETTINGS and PING.
pub const END_STREAM: u8 = 1;
/// `END_HEADERS`.
pub const END_HEADERS: u8 = 4;

/// The largest frame that every peer takes.
const FRAME_MAX: usize = 16 * 1024;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream.
    pub stream: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// The bytes of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length.get(1..).unwrap_or_default().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header list, uncompressed, in as many frames as it takes.
pub fn headers(stream: u32, fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let block = block(fields);
    let mut pieces = block.chunks(FRAME_MAX).peekable();
    let mut bytes = Vec::new();
    let mut kind = kind::HEADERS;
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags & END_STREAM | last, stream, piece));
        (kind, _) = (kind::CONTINUATION, ());
    }
    bytes
}

/// DATA.
pub fn data(stream: u32, bytes: &str, flags: u8) -> Vec<u8> {
    frame(kind::DATA, flags, stream, bytes.as_bytes())
}

/// Field lines as literals that nobody may index (RFC 7541, 6.2.3), names and values as they are.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0x10);
        for text in [name, value] {
            string(&mut block, text);
        }
    }
    block
}

fn string(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 127 {
        block.push(u8::try_from(length).unwrap());
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push(u8::try_from(length % 128).unwrap() | 128);
            length /= 128;
        }
        block.push(u8::try_from(length).unwrap());
    }
    block.extend(text.as_bytes());
}

/// One side of a connection.
pub struct Peer {
    /// The socket.
    pub stream: TcpStream,
    bytes: Vec<u8>,
    decoder: fluke_hpack::Decoder<'static>,
    /// Whether nothing came for as long as the socket's time limit.
    pub silent: bool,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Peer").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl Peer {
    /// Takes over a socket.
    pub fn new(stream: TcpStream) -> Self {
        Self { stream, bytes: Vec::new(), decoder: fluke_hpack::Decoder::new(), silent: false }
    }

    /// Sends bytes; whether they went out.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Takes `count` bytes away, such as a preface; whether they came.
    pub fn skip(&mut self, count: usize) -> bool {
        while self.bytes.len() < count {
            if !self.more() {
                return false;
            }
        }
        self.bytes.drain(..count);
        true
    }

    /// The next frame. SETTINGS and PING are answered on the way.
    pub fn frame(&mut self) -> Option<Frame> {
        loop {
            let frame = self.any_frame()?;
            if frame.flags & END_STREAM == 0 && matches!(frame.kind, kind::SETTINGS | kind::PING) {
                let payload = if frame.kind == kind::PING { frame.payload.as_slice() } else { &[] };
                let answer = self::frame(frame.kind, END_STREAM, 0, payload);
                self.write(&answer);
                continue;
            }
            return Some(frame);
        }
    }

    fn any_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some((head, rest)) = self.bytes.split_at_checked(9) {
                let &[a, b, c, kind, flags, ref stream @ ..] = head else { return None };
                let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap();
                if let Some(payload) = rest.get(..length) {
                    let stream = u32::from_be_bytes(stream.try_into().ok()?);
                    let frame = Frame { kind, flags, stream, payload: payload.to_vec() };
                    self.bytes.drain(..9 + length);
                    return Some(frame);
                }
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// The header list that begins with this HEADERS frame, and whether the stream ends with it.
    pub fn header_list(&mut self, first: Frame) -> Option<(Vec<(String, String)>, bool)> {
        let ended = first.flags & END_STREAM != 0;
        let mut flags = first.flags;
        let mut block = first.payload;
        while flags & END_HEADERS == 0 {
            let next = self.any_frame()?;
            flags = next.flags;
            block.extend(next.payload);
        }
        let fields = self.decoder.decode(&block).ok()?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Some((fields.into_iter().map(|(name, value)| (text(name), text(value))).collect(), ended))
    }

    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(length) if length > 0 => {
                self.bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                self.silent = true;
                false
            }
            _ => false,
        }
    }
}
