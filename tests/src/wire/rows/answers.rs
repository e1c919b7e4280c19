//! What endpoints may answer.

use crate::wire::row::{End, Row};
use crate::wire::rows::numbered;

/// A `GET` that is answered by these bytes.
fn answer(id: &'static str, bytes: impl Into<Vec<u8>>) -> Row {
    Row::new(id, "GET / HTTP/1.1\r\nHost: wire\r\n\r\n").answered(bytes)
}

/// The same for `HEAD`.
fn head(id: &'static str, bytes: &str) -> Row {
    Row::new(id, "HEAD / HTTP/1.1\r\nHost: wire\r\n\r\n").answered(bytes)
}

/// An answer that cannot be passed on: 502, and the endpoint's connection is not used again.
fn bad(id: &'static str, bytes: impl Into<Vec<u8>>) -> Row {
    answer(id, bytes).then_closed().status(502)
}

/// What endpoints may answer, and what has to come of it.
pub fn answers() -> Vec<Row> {
    let mut rows = bodiless();
    rows.extend(framing());
    rows.extend(fields());
    rows.extend(broken());
    rows
}

fn bodiless() -> Vec<Row> {
    vec![
        head("head-with-length", "HTTP/1.1 200 OK\r\ncontent-length: 55\r\n\r\n")
            .answer_says(&["content-length: 55"]),
        head("head-without-length", "HTTP/1.1 200 OK\r\n\r\n")
            .answer_lacks(&["content-length", "transfer-encoding"]),
        head("head-with-chunked", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        answer("204-with-length", "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n")
            .status(204)
            .answer_lacks(&["content-length"]),
        answer("204-with-chunked", "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n")
            .status(204)
            .answer_lacks(&["transfer-encoding"]),
        answer("304-with-length", "HTTP/1.1 304 Not Modified\r\ncontent-length: 55\r\n\r\n")
            .status(304)
            .answer_says(&["content-length: 55"]),
        answer("304-without-length", "HTTP/1.1 304 Not Modified\r\n\r\n")
            .status(304)
            .answer_lacks(&["content-length"]),
        answer("205-with-no-body", "HTTP/1.1 205 Reset\r\ncontent-length: 0\r\n\r\n").status(205),
        answer(
            "103-before-200",
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ),
        answer(
            "100-that-nobody-wanted",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ),
        answer(
            "101-that-nobody-wanted",
            "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
        )
        .then_closed()
        .status(502),
    ]
}

fn framing() -> Vec<Row> {
    vec![
        answer("chunked-answer", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
            .answer_says(&["ok"]),
        answer("http10-until-close", "HTTP/1.0 200 OK\r\n\r\nall of it")
            .then_closed()
            .end(None)
            .answer_says(&["all of it"]),
        answer("http11-until-close", "HTTP/1.1 200 OK\r\n\r\nall of it")
            .then_closed()
            .end(None)
            .answer_says(&["all of it"]),
        answer("length-cut-short", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
            .then_closed()
            .truncated(),
        answer(
            "chunked-cut-short",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        )
        .then_closed()
        .truncated(),
        answer(
            "chunked-cut-in-a-chunk",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf",
        )
        .then_closed()
        .truncated(),
        answer(
            "chunked-answer-with-bad-size",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n",
        )
        .then_closed()
        .truncated(),
        answer(
            "trailers-announced-by-the-answer",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n",
        ),
        // The extra bytes must not be taken for the answer to the next request.
        answer(
            "answer-with-two-equal-lengths",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nok",
        )
        .then_closed()
        .status(502),
        answer(
            "bytes-after-the-answer",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 Stray\r\ncontent-length: 0\r\n\r\n",
        )
        .answer_says(&["ok"]),
        answer("bytes-after-a-204", "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nstray")
            .status(204),
    ]
}

fn fields() -> Vec<Row> {
    let (fields, many) = (numbered(120), numbered(250));
    let large = |kib: usize| {
        format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 2\r\n\r\nok", "y".repeat(kib * 1024))
    };
    vec![
        answer(
            "answer-with-fields-of-the-connection",
            "HTTP/1.1 200 OK\r\nconnection: X-Secret, keep-alive\r\nx-secret: 1\r\nkeep-alive: 5\r\n\
             proxy-connection: x\r\nupgrade: h2c\r\nx-kept: yes\r\ncontent-length: 0\r\n\r\n",
        )
        .answer_says(&["x-kept: yes"])
        .answer_lacks(&["secret", "keep-alive", "upgrade"]),
        answer(
            "answer-that-closes",
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        )
        .then_closed(),
        answer("120-fields-in-the-answer", format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n")),
        bad("250-fields-in-the-answer", format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n")),
        answer("40-kib-head-of-the-answer", large(40)),
        bad("70-kib-head-of-the-answer", large(70)),
        answer("no-reason-phrase", "HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok"),
        answer("status-that-is-not-known", "HTTP/1.1 299 Fine\r\ncontent-length: 2\r\n\r\nok").status(299),
        answer("answer-lines-end-in-bare-lf", "HTTP/1.1 200 OK\ncontent-length: 2\n\nok"),
    ]
}

fn broken() -> Vec<Row> {
    vec![
        bad("answer-with-chunked-twice", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
        bad("answer-with-length-and-chunked", "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        bad("answer-with-unknown-coding", "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        bad("answer-with-two-lengths", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok"),
        bad("answer-with-bad-length", "HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nok"),
        bad("status-of-two-digits", "HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nok"),
        bad("status-that-is-no-number", "HTTP/1.1 abc\r\n\r\n"),
        bad("answer-of-another-protocol", "SSH-2.0-OpenSSH_9.6\r\n"),
        bad("answer-with-nul", "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 2\r\n\r\nok"),
        bad("answer-with-space-before-colon", "HTTP/1.1 200 OK\r\nx : a\r\ncontent-length: 2\r\n\r\nok"),
        // A kept connection that ends at once says nothing about the endpoint: a GET is sent again on a new one.
        bad("answer-that-is-empty", "").status(200).requests(2),
        bad("answer-that-is-half-a-head", "HTTP/1.1 200 OK\r\nx: ").status(200).requests(2),
    ].into_iter().map(|row| row.end(End::Kept)).collect()
}
