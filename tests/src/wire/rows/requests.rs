//! What callers may send.

use crate::wire::row::{End, Row};
use crate::wire::rows::numbered;

/// A `POST` with a chunked body, given as it is on the wire.
fn chunked(id: &'static str, body: &str) -> Row {
    Row::new(
        id,
        format!("POST / HTTP/1.1\r\nHost: wire\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
    )
}

/// A `GET` with these field lines after its host.
fn with(id: &'static str, lines: &str) -> Row {
    Row::new(id, format!("GET / HTTP/1.1\r\nHost: wire\r\n{lines}\r\n"))
}

/// A `POST` with these field lines after its host, and this body.
fn post(id: &'static str, lines: &str, body: &str) -> Row {
    Row::new(id, format!("POST / HTTP/1.1\r\nHost: wire\r\n{lines}\r\n{body}"))
}

/// A malformed body may have been passed on in part before it is found out: the origin then sees a request that is cut
/// short, which is none.
fn bad_body(id: &'static str, body: &str) -> Row {
    chunked(id, body).refused(400)
}

/// What callers may send, and what has to come of it.
pub fn requests() -> Vec<Row> {
    let mut rows = framing();
    rows.extend(chunks());
    rows.extend(heads());
    rows.extend(hosts());
    rows.extend(hops());
    rows.extend(sizes());
    rows
}

fn framing() -> Vec<Row> {
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: wire\r\n\r\n";
    vec![
        // The HTTP library drops the length and closes, so that nothing is left to disagree about: RFC 9112 (6.3) allows it.
        post("length-and-chunked", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", smuggled)
            .end(End::Closed)
            .says(&["transfer-encoding: chunked"])
            .lacks(&["content-length"]),
        post("chunked-and-length", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", smuggled)
            .end(End::Closed)
            .says(&["transfer-encoding: chunked"])
            .lacks(&["content-length"]),
        post("two-equal-lengths", "Content-Length: 2\r\nContent-Length: 2\r\n", "ab")
            .says(&["content-length: 2", "ab"]),
        post("equal-lengths-in-one-field", "Content-Length: 2, 2\r\n", "ab").refused(400),
        post("two-different-lengths", "Content-Length: 1\r\nContent-Length: 2\r\n", "ab")
            .refused(400),
        post("length-with-plus", "Content-Length: +2\r\n", "ab").refused(400),
        post("negative-length", "Content-Length: -2\r\n", "ab").refused(400),
        post("hexadecimal-length", "Content-Length: 0x2\r\n", "ab").refused(400),
        post("empty-length", "Content-Length: \r\n", "ab").refused(400),
        post("length-over-64-bits", "Content-Length: 18446744073709551618\r\n", "ab").refused(400),
        post(
            "chunked-twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            smuggled,
        )
        .refused(400),
        post("chunked-twice-in-one-field", "Transfer-Encoding: chunked, chunked\r\n", smuggled)
            .refused(400),
        post("chunked-is-not-last", "Transfer-Encoding: chunked, identity\r\n", smuggled)
            .refused(400),
        post("coding-that-is-not-known", "Transfer-Encoding: xchunked\r\n", smuggled).refused(400),
        post("coding-of-two-words", "Transfer-Encoding: gzip, chunked\r\n", smuggled).refused(400),
        post("coding-with-tab", "Transfer-Encoding:\tchunked\r\n", "2\r\nab\r\n0\r\n\r\n")
            .says(&["transfer-encoding: chunked", "ab"]),
        post("coding-with-vertical-tab", "Transfer-Encoding: \x0bchunked\r\n", smuggled)
            .refused(400),
        Row::new(
            "chunked-on-http10",
            format!(
                "POST / HTTP/1.0\r\nHost: wire\r\nTransfer-Encoding: chunked\r\n\r\n{smuggled}"
            ),
        )
        .refused(400),
        Row::new(
            "http10-without-length-and-bytes-after",
            "POST / HTTP/1.0\r\nHost: wire\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: wire\r\n\r\n",
        )
        .end(End::Closed),
        Row::new(
            "http10-keep-alive",
            "GET / HTTP/1.0\r\nHost: wire\r\nConnection: keep-alive\r\n\r\n",
        ),
        post("get-with-chunked-body", "Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\n\r\n")
            .says(&["transfer-encoding: chunked", "ab"]),
        Row::new(
            "two-requests-in-one-segment",
            "GET /1 HTTP/1.1\r\nHost: wire\r\n\r\nGET /2 HTTP/1.1\r\nHost: wire\r\n\r\n",
        )
        .requests(2)
        .end(None),
    ]
}

fn chunks() -> Vec<Row> {
    vec![
        chunked("chunk-extension", "2;name=value\r\nab\r\n0\r\n\r\n")
            .says(&["ab"])
            .lacks(&["name"]),
        chunked("chunk-size-in-capitals", "A\r\n0123456789\r\n0\r\n\r\n").says(&["0123456789"]),
        chunked("chunk-size-with-zeroes", "00002\r\nab\r\n000\r\n\r\n").says(&["ab"]),
        bad_body("chunk-size-ends-in-bare-lf", "2\nab\r\n0\r\n\r\n"),
        bad_body("chunk-data-ends-in-bare-lf", "2\r\nab\n0\r\n\r\n"),
        bad_body("chunk-extension-with-lf", "2;a\nb\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-extension-with-quoted-crlf", "2;a=\"\r\nab\r\n0\r\n\r\n\"\r\nab\r\n0\r\n\r\n")
            // A quoted string cannot hold CRLF, so the first chunk is whole; what follows it is another request, and none.
            .status(200)
            .requests(1)
            .end(End::Closed),
        bad_body("chunk-size-with-prefix", "0x2\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-size-with-plus", "+2\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-size-with-minus", "-2\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-size-that-is-none", "zz\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-size-is-missing", "\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-size-over-64-bits", "10000000000000002\r\nab\r\n0\r\n\r\n"),
        bad_body("chunk-longer-than-its-size", "2\r\nabc\r\n0\r\n\r\n"),
        bad_body("trailers-with-space-before-colon", "0\r\nx : y\r\n\r\n"),
        chunked("trailers-announced", "2\r\nab\r\n0\r\nx-sum: 7\r\n\r\n").says(&["ab"]),
    ]
}

fn heads() -> Vec<Row> {
    vec![
        with("space-before-colon", "name : x\r\n").refused(400),
        with("empty-name", ": x\r\n").refused(400),
        with("name-with-space", "na me: x\r\n").refused(400),
        with("line-without-colon", "nonsense\r\n").refused(400),
        with("folded-line", "name: x\r\n y\r\n").refused(400),
        with("nul-in-value", "name: x\0y\r\n").refused(400),
        with("bare-cr-in-value", "name: x\ry\r\n").refused(400),
        with("bytes-over-127-in-value", "name: x\u{e9}y\r\n"),
        Row::new("lines-end-in-bare-lf", "GET / HTTP/1.1\nHost: wire\nname: x\n\n")
            .says(&["name: x"]),
        Row::new("empty-line-before-request", "\r\nGET / HTTP/1.1\r\nHost: wire\r\n\r\n"),
        Row::new("space-before-request-line", " GET / HTTP/1.1\r\nHost: wire\r\n\r\n")
            .passed_on_raw(),
        Row::new("two-spaces-in-request-line", "GET  / HTTP/1.1\r\nHost: wire\r\n\r\n")
            .refused(400),
        Row::new("space-in-target", "GET /a b HTTP/1.1\r\nHost: wire\r\n\r\n").refused(400),
        Row::new("version-that-is-not-known", "GET / HTTP/1.2\r\nHost: wire\r\n\r\n").refused(400),
        Row::new("version-of-http2", "GET / HTTP/2.0\r\nHost: wire\r\n\r\n").refused(400),
        Row::new("no-version", "GET /\r\n\r\n").refused(400),
        Row::new("method-in-small-letters", "get / HTTP/1.1\r\nHost: wire\r\n\r\n")
            .says(&["get / HTTP/1.1"]),
        Row::new(
            "bytes-that-are-no-http",
            "\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03\r\n\r\n",
        )
        .passed_on_raw(),
    ]
}

fn hosts() -> Vec<Row> {
    let target =
        |id, target: &str, host: &str| Row::new(id, format!("GET {target} HTTP/1.1\r\n{host}\r\n"));
    vec![
        target("two-hosts", "/", "Host: wire\r\nHost: other\r\n").refused(400).end(None),
        target("two-equal-hosts", "/", "Host: wire\r\nHost: wire\r\n").refused(400).end(None),
        target("no-host", "/", "").refused(400).end(None),
        target("empty-host", "/", "Host: \r\n").refused(400).end(None),
        target("host-with-space", "/", "Host: a b\r\n").refused(400).end(None),
        target("host-with-user", "/", "Host: user@wire\r\n").refused(400).end(None),
        target("absolute-target", "http://wire/x?y", "Host: wire\r\n")
            .says(&["GET /x?y HTTP/1.1", "host: wire"]),
        target("absolute-target-of-another-host", "http://wire/x", "Host: lie\r\n")
            .says(&["GET /x HTTP/1.1", "host: wire"])
            .lacks(&["lie"]),
        target("path-with-dots", "/a/../b/%2e%2e//c?q=/../", "Host: wire\r\n")
            .says(&["GET /a/../b/%2e%2e//c?q=/../ HTTP/1.1"]),
        target("fragment-in-target", "/a#b", "Host: wire\r\n").lacks(&["#"]),
        Row::new("options-of-the-server", "OPTIONS * HTTP/1.1\r\nHost: wire\r\n\r\n")
            .says(&["OPTIONS * HTTP/1.1"]),
    ]
}

fn hops() -> Vec<Row> {
    vec![
        with(
            "fields-named-by-connection",
            "Connection: X-Foo, keep-alive\r\nX-Foo: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nX-Bar: 2\r\n",
        )
        .says(&["x-bar: 2"])
        .lacks(&["x-foo", "connection", "keep-alive"]),
        with("framing-named-by-connection", "Connection: host, content-length\r\n")
            .says(&["host: wire"]),
        with("te-trailers-and-gzip", "Connection: te\r\nTE: trailers, gzip\r\n")
            .says(&["te: trailers"])
            .lacks(&["gzip"]),
        with("te-gzip", "TE: gzip\r\n").lacks(&["gzip"]),
        with(
            "upgrade-to-h2c",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
        )
        .lacks(&["upgrade", "h2c", "http2-settings"]),
        with("connection-close", "Connection: close\r\n").end(End::Closed).lacks(&["close"]),
        post("expectation-that-is-refused", "Expect: 100-continue\r\nContent-Length: 5\r\n", "")
            .answered("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")
            .early()
            .status(401)
            .end(End::Closed),
        post("answer-before-the-body", "Content-Length: 1000000\r\n", "abc")
            .answered("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
            .early()
            .status(413)
            .end(End::Closed)
            .answer_says(&["big"]),
    ]
}

fn sizes() -> Vec<Row> {
    let large = |kib: usize| format!("x-large: {}\r\n", "y".repeat(kib * 1024));
    let trailers = |lines: &str| format!("2\r\nab\r\n0\r\n{lines}\r\n");
    vec![
        with("120-fields", &numbered(120)),
        with("250-fields", &numbered(250)).refused(431),
        with("17-kib-head", &large(17)),
        with("40-kib-head", &large(40)),
        with("63-kib-head", &large(63)),
        with("70-kib-head", &large(70)).refused(431),
        with("500-kib-head", &large(500)).refused(431),
        Row::new(
            "70-kib-target",
            format!("GET /{} HTTP/1.1\r\nHost: wire\r\n\r\n", "y".repeat(70 * 1024)),
        )
        .refused(431),
        chunked("150-trailers", &trailers(&numbered(150))),
        chunked("250-trailers", &trailers(&numbered(250))).refused(431),
        chunked("40-kib-trailers", &trailers(&large(40))),
        chunked("70-kib-trailers", &trailers(&large(70))).refused(431),
    ]
}
