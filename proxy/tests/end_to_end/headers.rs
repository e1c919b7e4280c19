//! Heads of messages: what is refused, what is stripped, how large they may be.

use crate::support::caller::{ask, ask_http2, connect, http2};
use crate::support::endpoint::{Endpoint, full};
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;
use crate::support::within;
use bytes::Bytes;
use http::Request;
use http_body_util::{Empty, Full};

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_one_connection_is_stripped_both_ways() {
    let endpoint = Endpoint::http1(|_| {
        "HTTP/1.1 200 OK\r\nconnection: X-Secret, keep-alive\r\nx-secret: 1\r\nkeep-alive: timeout=5\r\n\
         proxy-connection: x\r\nupgrade: h2c\r\nx-kept: yes\r\nx-kept: again\r\ncontent-length: 0\r\n\r\n"
            .to_owned()
    })
    .await;
    let proxy = Proxy::http1("headers-hop", &[endpoint.address]);
    let request = "GET / HTTP/1.1\r\nhost: t\r\nconnection: close, X-Foo, host\r\nconnection: upgrade\r\nx-foo: 1\r\n\
                   keep-alive: 3\r\nproxy-connection: y\r\nupgrade: h2c\r\nhttp2-settings: AAA\r\nte: gzip\r\n\
                   x-bar: 2\r\nx-bar: 3\r\n\r\n";
    let answer = ask(proxy.address, request).await;
    let seen = endpoint.seen().remove(0);
    for name in
        ["connection", "x-foo", "keep-alive", "proxy-connection", "upgrade", "http2-settings", "te"]
    {
        assert_eq!(seen.field(name), None, "{name} reached the endpoint");
    }
    assert_eq!(seen.fields("x-bar"), ["2", "3"]);
    assert_eq!(seen.fields("host"), ["t"], "Host cannot be named away");
    for name in ["x-secret", "keep-alive", "proxy-connection", "upgrade"] {
        assert_eq!(answer.field(name), None, "{name} reached the caller");
    }
    assert_eq!(answer.fields("x-kept"), ["yes", "again"]);
    assert_eq!(answer.field("date"), None, "nothing is added");
}

#[tokio::test(flavor = "multi_thread")]
async fn dangerous_requests_are_refused_and_no_endpoint_sees_them() {
    let endpoint = Endpoint::fixed(200, "").await;
    let proxy = Proxy::http1("headers-danger", &[endpoint.address]);
    let cases = [
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\nhost: user@a\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\nhost: a:http\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\nhost: a:65536\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\nhost: a:+80\r\n\r\n", 400, Some("bad_host")),
        ("GET / HTTP/1.1\r\nhost: [::1]:x\r\n\r\n", 400, Some("bad_host")),
        ("GET http://a:http/ HTTP/1.1\r\nhost: a\r\n\r\n", 400, Some("bad_host")),
        ("GET https://a/ HTTP/1.1\r\nhost: a\r\n\r\n", 400, Some("scheme_refused")),
        ("GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n", 400, Some("scheme_refused")),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            Some("bad_transfer_encoding"),
        ),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            400,
            Some("bad_transfer_encoding"),
        ),
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", 405, Some("connect_refused")),
        ("GET / HTTP/1.1\r\nhost: a\r\nname : x\r\n\r\n", 400, Some("bad_request")),
        ("GET / HTTP/9.9\r\nhost: a\r\n\r\n", 400, Some("bad_request")),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            400,
            Some("bad_request"),
        ),
    ];
    for (request, status, reason) in cases {
        let answer = ask(proxy.address, request).await;
        assert_eq!(answer.status(), status, "{request}");
        assert_eq!(answer.field("tidegate-reason").as_deref(), reason, "{request}");
    }
    assert_eq!(endpoint.seen().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_beside_chunks_never_reaches_the_endpoint() {
    let endpoint = Endpoint::fixed(200, "ok").await;
    let proxy = Proxy::http1("headers-smuggle", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write(
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\
         GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n",
    )
    .await;
    wire.message(Bodiless::UntilClose).await.unwrap();
    assert!(wire.is_at_end().await, "the connection ends after such a request");
    let seen = endpoint.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].field("content-length"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_refused_request_is_never_taken_for_a_request() {
    let endpoint = Endpoint::fixed(200, "ok").await;
    let proxy = Proxy::http1("headers-undrained", &[endpoint.address]);
    let body = "GET /smuggled HTTP/1.1\r\nhost: headers-undrained\r\n\r\n";
    let heads = ["host: nobody", "host: a\r\nhost: b", "host: nobody\r\nexpect: 100-continue"];
    for head in heads {
        let mut wire = connect(proxy.forward).await;
        wire.write(format!(
            "POST / HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert!(answer.status() >= 400, "{head}");
        wire.write("GET /next HTTP/1.1\r\nhost: headers-undrained\r\n\r\n").await;
        let next = wire.message(Bodiless::UntilClose).await;
        assert!(next.is_none_or(|next| next.status() == 200), "{head}");
    }
    assert!(endpoint.seen().iter().all(|seen| seen.start() == "GET /next HTTP/1.1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_the_same_on_http1_and_http2() {
    let endpoint = Endpoint::fixed(200, "").await;
    let proxy = Proxy::http1("headers-limits", &[endpoint.address]);
    let cases = [
        (1, 8 * 1024, 200),
        (1, 60 * 1024, 200),
        (1, 66 * 1024, 431),
        (1, 150 * 1024, 431),
        (190, 10, 200),
        (205, 10, 431),
    ];
    for (fields, size, status) in cases {
        let value = "x".repeat(size);
        let lines: Vec<_> = (0..fields).map(|number| format!("x-{number}: {value}\r\n")).collect();
        let lines = lines.concat();
        let answer = ask(proxy.address, format!("GET / HTTP/1.1\r\nhost: t\r\n{lines}\r\n")).await;
        assert_eq!(answer.status(), status, "http1, {fields} fields of {size}");
        let reason = (status == 431).then_some("headers_too_large");
        assert_eq!(answer.field("tidegate-reason").as_deref(), reason, "{fields} fields of {size}");
        let mut request = Request::get("http://t/");
        for number in 0..fields {
            request = request.header(format!("x-{number}"), &value);
        }
        let answer = ask_http2(proxy.address, request.body(Empty::<Bytes>::new()).unwrap()).await;
        assert_eq!(answer.status(), status, "http2, {fields} fields of {size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_head_ends_only_its_own_stream() {
    let endpoint = Endpoint::http2(|_| async { http::Response::new(full("ok")) }).await;
    let proxy = Proxy::http2("headers-stream", &[endpoint.address]);
    let mut sender = http2(proxy.address).await;
    for (size, status) in
        [(100, 200), (70 * 1024, 431), (400 * 1024, 431), (60 * 1024, 200), (100, 200)]
    {
        let request = Request::get("http://t/")
            .header("x-large", "y".repeat(size))
            .body(Full::new(Bytes::new()));
        let answer = within("an answer", sender.send_request(request.unwrap())).await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_not_http_end_the_connection() {
    let endpoint = Endpoint::fixed(200, "").await;
    let proxy = Proxy::http1("headers-opaque", &[endpoint.address]);
    // Where only a request could say which service it is for.
    let mut wire = connect(proxy.forward).await;
    wire.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await;
    assert!(wire.is_at_end().await);
}
