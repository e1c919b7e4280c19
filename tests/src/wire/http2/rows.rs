//! The rows of the table about HTTP/2: frames from callers, and from endpoints.

use crate::wire::http2::caller::{Answer, Outcome};
use crate::wire::http2::origin::{Script, plain};
use crate::wire::http2::{END_HEADERS, END_STREAM, data, frame, headers, kind};
use crate::wire::row::End;
use std::sync::Arc;

/// What a caller sends on stream 1, and what has to come of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub id: &'static str,
    /// The frames after the hello.
    pub frames: Vec<u8>,
    /// What has to come of it.
    pub expected: Expected,
    /// How many requests the origin may see whole.
    pub requests: usize,
    /// A line that the first of them must have.
    pub says: &'static [&'static str],
    /// What it must not have.
    pub lacks: &'static [&'static str],
}

/// What has to become of stream 1, or of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// An answer; the connection goes on.
    Status(u16),
    /// A reset, or an answer of that status; the connection goes on.
    ResetOr(u16),
    /// The connection ends.
    Closed,
}

impl Expected {
    /// What is not as it has to be.
    pub fn complaint(self, outcome: &Outcome) -> Option<String> {
        let good = match (self, &outcome.answer) {
            (Self::Status(wanted) | Self::ResetOr(wanted), Answer::Status(status)) => {
                wanted == *status && outcome.end == End::Kept
            }
            (Self::ResetOr(_), Answer::Reset(_)) => outcome.end == End::Kept,
            (Self::Closed, _) => outcome.end == End::Closed,
            _ => false,
        };
        (!good).then(|| format!("{:?} {:?}, not {self:?}", outcome.answer, outcome.end))
    }
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "wire"), (":path", "/")];
const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "wire"), (":path", "/")];

fn row(id: &'static str, frames: Vec<u8>, expected: Expected) -> Row {
    let passes = matches!(expected, Expected::Status(200));
    Row { id, frames, expected, requests: usize::from(passes), says: &[], lacks: &[] }
}

/// A request with these fields behind, or instead of, those of a plain one.
fn with(id: &'static str, fields: &[(&str, &str)], expected: Expected) -> Row {
    let mut list = GET.to_vec();
    for (name, value) in fields {
        match list.iter_mut().find(|(known, _)| known == name && known.starts_with(':')) {
            Some(known) => known.1 = value,
            None => list.push((name, value)),
        }
    }
    row(id, headers(1, &list, END_STREAM), expected)
}

fn body(id: &'static str, fields: &[(&str, &str)], frames: &[Vec<u8>], expected: Expected) -> Row {
    let mut bytes = headers(1, &[&POST[..], fields].concat(), 0);
    bytes.extend(frames.concat());
    row(id, bytes, expected)
}

impl Row {
    fn says(mut self, says: &'static [&'static str]) -> Self {
        self.says = says;
        self
    }

    fn lacks(mut self, lacks: &'static [&'static str]) -> Self {
        self.lacks = lacks;
        self
    }
}

/// What callers may send.
pub fn requests() -> Vec<Row> {
    use Expected::{Closed, ResetOr, Status};
    let mut rows = vec![
        with("h2-plain", &[], Status(200)).says(&["GET / HTTP/1.1", "host: wire"]),
        with("h2-host-beside-authority", &[("host", "lie")], Status(200))
            .says(&["host: wire"])
            .lacks(&["lie"]),
        // What is no field at all ends the connection: RFC 9113 (5.4.2) leaves that open, and the library does it.
        with("h2-name-in-capitals", &[("X-Big", "1")], Closed),
        with("h2-connection-field", &[("connection", "x-foo"), ("x-foo", "1")], ResetOr(400)),
        with("h2-transfer-encoding", &[("transfer-encoding", "chunked")], ResetOr(400)),
        with("h2-upgrade", &[("upgrade", "h2c")], ResetOr(400)),
        with("h2-te-gzip", &[("te", "gzip")], ResetOr(400)),
        with("h2-te-trailers", &[("te", "trailers")], Status(200)).says(&["te: trailers"]),
        with("h2-crlf-in-value", &[("x", "a\r\nevil: 1")], Closed),
        with("h2-nul-in-value", &[("x", "a\0b")], Closed),
        with("h2-colon-in-name", &[("x:y", "1")], Closed),
        with("h2-space-in-name", &[("x y", "1")], Closed),
        with("h2-space-in-path", &[(":path", "/ HTTP/1.1\r\nevil: 1")], ResetOr(400)),
        with("h2-space-in-method", &[(":method", "GET / HTTP/1.1\r\nevil: 1\r\n\r\nGET")], Closed),
        with("h2-crlf-in-authority", &[(":authority", "wire\r\nevil: 1")], ResetOr(400)),
        with("h2-user-in-authority", &[(":authority", "user@wire")], ResetOr(400)),
        with("h2-empty-path", &[(":path", "")], ResetOr(400)),
        with("h2-unknown-pseudo-field", &[(":evil", "1")], Closed),
        with("h2-connect", &[(":method", "CONNECT")], ResetOr(405)),
        with("h2-cookie-in-crumbs", &[("cookie", "a=1"), ("cookie", "b=2")], Status(200))
            .says(&["cookie: a=1; b=2"]),
        row("h2-no-path", headers(1, &GET[..3], END_STREAM), ResetOr(400)),
        row("h2-no-method", headers(1, &GET[1..], END_STREAM), ResetOr(400)),
        row(
            "h2-no-authority-and-no-host",
            headers(1, &[GET[0], GET[1], GET[3]], END_STREAM),
            ResetOr(400),
        ),
        row(
            "h2-two-paths",
            headers(1, &[GET[0], GET[1], GET[2], GET[3], (":path", "/evil")], END_STREAM),
            ResetOr(400),
        ),
        row(
            "h2-pseudo-field-behind-others",
            headers(1, &[GET[0], GET[1], GET[2], ("x", "1"), GET[3]], END_STREAM),
            ResetOr(400),
        ),
        row("h2-data-before-headers", data(1, "x", END_STREAM), Closed),
        row("h2-even-stream", headers(2, &GET, END_STREAM), Closed),
        row("h2-data-on-stream-0", data(0, "x", 0), Closed),
        row(
            "h2-push-promise-from-a-client",
            frame(kind::PUSH_PROMISE, END_HEADERS, 1, &[0; 4]),
            Closed,
        ),
        row("h2-frame-over-16-kib", frame(kind::DATA, 0, 1, &[0; 17 * 1024]), Closed),
        row("h2-continuation-alone", frame(kind::CONTINUATION, END_HEADERS, 1, &[]), Closed),
        row(
            "h2-broken-header-block",
            frame(kind::HEADERS, END_HEADERS | END_STREAM, 1, &[0xff; 20]),
            Closed,
        ),
    ];
    rows.extend(bodies());
    rows.extend(sizes());
    rows
}

fn bodies() -> Vec<Row> {
    use Expected::{ResetOr, Status};
    vec![
        body("h2-body", &[], &[data(1, "ab", 0), data(1, "c", END_STREAM)], Status(200))
            .says(&["transfer-encoding: chunked", "abc"]),
        body(
            "h2-body-with-length",
            &[("content-length", "2")],
            &[data(1, "ab", END_STREAM)],
            Status(200),
        )
        .says(&["content-length: 2", "ab"]),
        body(
            "h2-body-shorter-than-its-length",
            &[("content-length", "5")],
            &[data(1, "ab", END_STREAM)],
            ResetOr(400),
        ),
        body(
            "h2-body-longer-than-its-length",
            &[("content-length", "1")],
            &[data(1, "ab", END_STREAM)],
            ResetOr(400),
        ),
        body(
            "h2-two-lengths",
            &[("content-length", "2"), ("content-length", "3")],
            &[data(1, "ab", END_STREAM)],
            ResetOr(400),
        ),
        body(
            "h2-length-with-plus",
            &[("content-length", "+2")],
            &[data(1, "ab", END_STREAM)],
            ResetOr(400),
        ),
        body(
            "h2-trailers",
            &[("trailer", "x-sum")],
            &[data(1, "ab", 0), headers(1, &[("x-sum", "7")], END_STREAM)],
            Status(200),
        )
        .says(&["ab", "x-sum: 7"]),
        body(
            "h2-pseudo-field-in-trailers",
            &[],
            &[data(1, "ab", 0), headers(1, &[(":path", "/evil")], END_STREAM)],
            Status(200),
        )
        .lacks(&[":path", "evil"]),
    ]
}

fn sizes() -> Vec<Row> {
    use Expected::{ResetOr, Status};
    let names: Vec<String> = (0..250).map(|number| format!("x-{number}")).collect();
    let many = |count: usize| -> Vec<(&str, &str)> {
        names.iter().take(count).map(|name| (name.as_str(), "y")).collect()
    };
    let large = |kib: usize| "y".repeat(kib * 1024);
    let trailers = |id, fields: &[(&str, &str)], expected| {
        body(id, &[], &[data(1, "ab", 0), headers(1, fields, END_STREAM)], expected)
    };
    vec![
        with("h2-120-fields", &many(120), Status(200)),
        with("h2-250-fields", &many(250), Status(431)),
        with("h2-17-kib-head", &[("x", &large(17))], Status(200)),
        with("h2-40-kib-head", &[("x", &large(40))], Status(200)),
        with("h2-63-kib-head", &[("x", &large(63))], Status(200)),
        with("h2-70-kib-head", &[("x", &large(70))], Status(431)),
        with("h2-400-kib-head", &[("x", &large(400))], Status(431)),
        with("h2-70-kib-path", &[(":path", &format!("/{}", large(70)))], ResetOr(431)),
        trailers("h2-150-trailers", &many(150), Status(200)),
        trailers("h2-250-trailers", &many(250), ResetOr(431)),
        trailers("h2-40-kib-trailers", &[("x", &large(40))], Status(200)),
        trailers("h2-70-kib-trailers", &[("x", &large(70))], ResetOr(431)),
    ]
}

/// What an HTTP/2 endpoint answers to a plain HTTP/1 GET, and the status that the caller has to see.
pub fn answers() -> Vec<(&'static str, Script, u16)> {
    let large = |kib: usize| "y".repeat(kib * 1024);
    let with = |fields: &[(&str, &str)]| -> Script {
        let fields: Vec<(String, String)> =
            fields.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        Arc::new(move |stream| {
            let list: Vec<_> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            headers(stream, &list, END_STREAM)
        })
    };
    let bytes = |make: fn(u32) -> Vec<u8>| -> Script { Arc::new(make) };
    vec![
        ("h2-answer", bytes(plain), 200),
        ("h2-answer-without-status", with(&[("x", "1")]), 502),
        ("h2-answer-with-status-that-is-none", with(&[(":status", "abc")]), 502),
        ("h2-answer-with-capitals", with(&[(":status", "200"), ("X-Big", "1")]), 502),
        (
            "h2-answer-with-connection-field",
            with(&[(":status", "200"), ("connection", "close")]),
            502,
        ),
        ("h2-answer-with-crlf", with(&[(":status", "200"), ("x", "a\r\nevil: 1")]), 502),
        // It is left out.
        ("h2-answer-with-pseudo-field", with(&[(":status", "200"), (":path", "/")]), 200),
        ("h2-answer-101", with(&[(":status", "101")]), 502),
        ("h2-answer-with-40-kib", with(&[(":status", "200"), ("x", &large(40))]), 200),
        ("h2-answer-with-70-kib", with(&[(":status", "200"), ("x", &large(70))]), 502),
        (
            "h2-103-before-200",
            bytes(|stream| {
                [headers(stream, &[(":status", "103"), ("link", "x")], 0), plain(stream)].concat()
            }),
            200,
        ),
        ("h2-data-without-headers", bytes(|stream| data(stream, "x", END_STREAM)), 502),
        ("h2-reset", bytes(|stream| frame(kind::RST_STREAM, 0, stream, &2_u32.to_be_bytes())), 502),
        (
            "h2-push-promise",
            bytes(|stream| frame(kind::PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2])),
            502,
        ),
        ("h2-goaway-before-the-request", bytes(|_| frame(kind::GOAWAY, 0, 0, &[0; 8])), 502),
    ]
}
