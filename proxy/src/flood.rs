//! Floods of HTTP/2 frames. The library bounds memory, and ends the connection on the cheap attacks that it knows; PING,
//! SETTINGS, `WINDOW_UPDATE`, PRIORITY and unknown frames it answers or ignores for as long as they come, at the price of a
//! processor. Here the frames are counted as they pass, headers only, without a copy.
//!
//! Work pays for control: each piece of a request or response lets its connection carry ten frames of control, as many as
//! Envoy allows `WINDOW_UPDATE` for each DATA. Who sends more lives on an allowance that grows with time.

pub(crate) mod metered;

use crate::metrics::edge::Closed;
use balance::time::Timestamp;
use std::io::IoSlice;

/// Which side of the connection is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The peer is a caller.
    Server,
    /// The peer is an endpoint.
    Client,
}

/// What there was too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flood {
    /// Frames that carry nothing.
    #[error("too many HTTP/2 control frames")]
    Control,
    /// Requests or answers taken back.
    #[error("too many HTTP/2 stream resets")]
    Resets,
}

impl From<Flood> for Closed {
    fn from(flood: Flood) -> Self {
        match flood {
            Flood::Control => Self::ControlFlood,
            Flood::Resets => Self::ResetFlood,
        }
    }
}

/// Frames of control that a connection may send without any work: enough for the start of any client, few enough to be
/// over in milliseconds.
const CONTROL_MAX: i32 = 1_000;

/// What one piece of work pays for.
const CONTROL_PER_WORK: i32 = 10;

/// The most that work can save up: a long download does not buy the right to a long flood.
const CONTROL_SAVED_MAX: i32 = 10 * CONTROL_MAX;

/// Streams that a peer may reset beyond those that were answered. A caller whose requests all time out within a second is
/// let be up to hundreds of requests a second.
const RESETS_MAX: i32 = 1_000;

/// By how much either allowance grows in a second.
const PER_SECOND: f64 = 100.0;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const PREFACE_BYTES: usize = 24;

/// Counts the frames of one connection.
#[derive(Debug)]
pub struct Meter {
    side: Side,
    received: Scanner,
    sent: Scanner,
    control: i32,
    resets: i32,
    grown: Timestamp,
}

impl Meter {
    /// A connection at its very beginning.
    pub fn new(side: Side, now: Timestamp) -> Self {
        let preface = |expected: bool| Scanner::after(if expected { PREFACE_BYTES } else { 0 });
        Self {
            side,
            received: preface(side == Side::Server),
            sent: preface(side == Side::Client),
            control: CONTROL_MAX,
            resets: RESETS_MAX,
            grown: now,
        }
    }

    /// Counts what the peer sent, however it is cut. The time is asked for only when an allowance is used up.
    pub fn received(&mut self, bytes: &[u8], now: impl FnOnce() -> Timestamp) -> Result<(), Flood> {
        let (side, mut control, mut resets) = (self.side, self.control, self.resets);
        self.received.scan(bytes, |frame| match frame.kind {
            DATA if frame.length > 0 => control = work(control),
            // The end of a body that has no more bytes.
            DATA if frame.flags & END_STREAM != 0 => {}
            HEADERS if side == Side::Server => control = work(control),
            RST_STREAM => resets = resets.saturating_sub(1),
            _ => control = control.saturating_sub(1),
        });
        (self.control, self.resets) = (control, resets);
        if control < 0 || resets < 0 {
            self.grow(now());
        }
        match (self.control < 0, self.resets < 0) {
            (true, _) => Err(Flood::Control),
            (_, true) => Err(Flood::Resets),
            _ => Ok(()),
        }
    }

    /// Counts what we sent.
    pub fn sent(&mut self, bytes: &[u8]) {
        let (mut control, mut resets) = (self.control, self.resets);
        self.sent.scan(bytes, |frame| match frame.kind {
            DATA if frame.length > 0 => control = work(control),
            HEADERS => {
                control = work(control);
                resets = RESETS_MAX.min(resets.saturating_add(1));
            }
            _ => {}
        });
        (self.control, self.resets) = (control, resets);
    }

    /// Counts the first `length` bytes of what was to be sent.
    pub fn sent_of(&mut self, slices: &[IoSlice<'_>], mut length: usize) {
        for slice in slices {
            let part = slice.get(..length.min(slice.len())).unwrap_or_default();
            self.sent(part);
            length -= part.len();
            if length == 0 {
                break;
            }
        }
    }

    fn grow(&mut self, now: Timestamp) {
        let grown = now.since(self.grown).as_secs_f64() * PER_SECOND;
        #[expect(clippy::cast_possible_truncation, reason = "a float is cut off at the bounds")]
        let grown = grown as i32;
        if grown > 0 {
            self.control = CONTROL_MAX.min(self.control.saturating_add(grown));
            self.resets = RESETS_MAX.min(self.resets.saturating_add(grown));
            self.grown = now;
        }
    }
}

fn work(control: i32) -> i32 {
    CONTROL_SAVED_MAX.min(control.saturating_add(CONTROL_PER_WORK))
}

/// The head of a frame (RFC 9113, 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
}

/// Finds the heads of frames in a stream of bytes.
#[derive(Debug)]
struct Scanner {
    head: [u8; 9],
    filled: usize,
    skip: usize,
}

impl Scanner {
    fn after(skip: usize) -> Self {
        Self { head: [0; 9], filled: 0, skip }
    }

    fn scan(&mut self, mut bytes: &[u8], mut each: impl FnMut(Head)) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let (skipped, rest) = bytes.split_at(self.skip.min(bytes.len()));
                self.skip -= skipped.len();
                bytes = rest;
                continue;
            }
            let missing = self.head.len() - self.filled;
            let (part, rest) = bytes.split_at(missing.min(bytes.len()));
            if let Some(space) = self.head.get_mut(self.filled..self.filled + part.len()) {
                space.copy_from_slice(part);
            }
            self.filled += part.len();
            bytes = rest;
            if self.filled == self.head.len() {
                let [a, b, c, kind, flags, ..] = self.head;
                let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                each(Head { length, kind, flags });
                self.filled = 0;
                self.skip = length;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CONTROL_MAX, Flood, Meter, Side};
    use balance::time::Timestamp;
    use std::time::Duration;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut bytes = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        bytes.resize(9 + usize::from(length), 0xff);
        bytes
    }

    fn start() -> Timestamp {
        Timestamp::from_nanos(1)
    }

    /// Frames until the meter objects.
    fn bear(meter: &mut Meter, frame: &[u8], limit: u32) -> (u32, Option<Flood>) {
        for count in 0..limit {
            if let Err(flood) = meter.received(frame, start) {
                return (count, Some(flood));
            }
        }
        (limit, None)
    }

    #[test]
    fn floods_of_every_kind_end() {
        let cases = [
            ("ping", frame(PING, 0, 8), Some(Flood::Control)),
            ("ping acknowledged", frame(PING, 1, 8), Some(Flood::Control)),
            ("settings", frame(4, 0, 6), Some(Flood::Control)),
            ("window update", frame(8, 0, 4), Some(Flood::Control)),
            ("priority", frame(2, 0, 5), Some(Flood::Control)),
            ("unknown", frame(0x42, 0, 3), Some(Flood::Control)),
            ("continuation", frame(9, 0, 0), Some(Flood::Control)),
            ("empty data", frame(0, 0, 0), Some(Flood::Control)),
            ("resets", frame(3, 0, 4), Some(Flood::Resets)),
            ("rapid reset", [frame(1, 5, 3), frame(3, 0, 4)].concat(), Some(Flood::Resets)),
            ("data", frame(0, 0, 1), None),
            ("requests", frame(1, 5, 3), None),
            (
                "ten pings for a request",
                [frame(1, 5, 3), frame(PING, 0, 8).repeat(10)].concat(),
                None,
            ),
        ];
        for (name, frame, expected) in cases {
            let mut meter = Meter::new(Side::Server, start());
            assert_eq!(meter.received(PREFACE, start), Ok(()));
            let (count, flood) = bear(&mut meter, &frame, 20_000);
            assert_eq!(flood, expected, "{name}");
            assert!(flood.is_none() || count <= 2_000, "{name}: {count}");
        }
    }

    #[test]
    fn the_cut_of_the_bytes_makes_no_difference() {
        let bytes: Vec<u8> =
            [PREFACE.to_vec(), frame(4, 0, 6), frame(1, 5, 20), frame(PING, 0, 8)].concat();
        let whole = |pieces: &[&[u8]]| {
            let mut meter = Meter::new(Side::Server, start());
            for piece in pieces {
                meter.received(piece, start).unwrap();
            }
            meter.control
        };
        let expected = whole(&[&bytes]);
        assert_eq!(expected, CONTROL_MAX - 1 + 10 - 1);
        for cut in 0..bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(whole(&[a, b]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn answers_make_up_for_resets_and_time_for_control() {
        let mut meter = Meter::new(Side::Server, start());
        meter.received(PREFACE, start).unwrap();
        for _ in 0..5_000 {
            meter.received(&frame(1, 5, 3), start).unwrap();
            meter.sent(&frame(1, 4, 3));
            meter.received(&frame(3, 0, 4), start).unwrap();
        }
        let mut meter = Meter::new(Side::Client, start());
        for second in 0..100 {
            let now = start().plus(Duration::from_secs(second));
            for _ in 0..90 {
                meter.received(&frame(PING, 0, 8), || now).unwrap();
            }
        }
    }

    #[test]
    fn an_endpoint_pays_for_its_headers() {
        let mut meter = Meter::new(Side::Client, start());
        assert_eq!(bear(&mut meter, &frame(1, 4, 3), 20_000).1, Some(Flood::Control));
        let mut meter = Meter::new(Side::Client, start());
        meter.sent(PREFACE);
        for _ in 0..20_000 {
            meter.sent(&frame(1, 5, 3));
            meter.received(&frame(1, 5, 3), start).unwrap();
        }
    }
}
