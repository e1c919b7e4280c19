//! HTTP/1 on both sides: framing, keep-alive, targets.

use crate::support::caller::{ask, connect, get};
use crate::support::endpoint::Endpoint;
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_kept_on_both_sides() {
    let endpoint = Endpoint::fixed(200, "hello").await;
    let proxy = Proxy::http1("http1-keep", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    for number in 0..20 {
        wire.write(format!("GET /{number} HTTP/1.1\r\nhost: test\r\n\r\n")).await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
    }
    assert_eq!(endpoint.connections(), 1);
    proxy.settles().await;
    proxy
        .counts("tidegate_requests_total", &["class=\"success\"", "protocol=\"http1\""], 20.0)
        .await;
    proxy.counts("tidegate_picks_total", &["locality=\"local\""], 20.0).await;
    proxy.counts("tidegate_request_duration_seconds_count", &["locality=\"local\""], 20.0).await;
    assert!(
        proxy.counted("tidegate_zone_bytes_total", &["flow=\"sent\"", "dst_zone=\"a\""])
            > 20.0 * 30.0
    );
    assert!(proxy.counted("tidegate_zone_bytes_total", &["flow=\"received\""]) > 20.0 * 30.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_reach_the_endpoint_as_sent() {
    let endpoint = Endpoint::fixed(200, "").await;
    let proxy = Proxy::http1("http1-target", &[endpoint.address]);
    let cases = [
        ("GET /a/../b/%2e%2e//c?q=1&q=2 HTTP/1.1", "GET /a/../b/%2e%2e//c?q=1&q=2 HTTP/1.1"),
        ("GET http://other.example:81/x?y HTTP/1.1", "GET /x?y HTTP/1.1"),
        ("OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"),
        ("GET / HTTP/1.0", "GET / HTTP/1.1"),
        ("PURGE /x HTTP/1.1", "PURGE /x HTTP/1.1"),
    ];
    for (sent, expected) in cases {
        ask(proxy.address, format!("{sent}\r\nhost: test\r\n\r\n")).await;
        assert_eq!(endpoint.seen().last().unwrap().start(), expected, "{sent}");
    }
    let seen = endpoint.seen();
    assert_eq!(seen[1].fields("host"), ["other.example:81"], "an absolute target wins over Host");
    assert_eq!(seen[0].fields("host"), ["test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_pass_both_ways_with_their_framing() {
    let endpoint = Endpoint::http1(|request| {
        let chunked = request.field("transfer-encoding").unwrap_or_default();
        let length = request.field("content-length").unwrap_or_default();
        let body = format!("{}|{chunked}|{length}", request.text());
        match request.start() {
            start if start.contains("/chunked") => {
                format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
            }
            _ => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        }
    })
    .await;
    let proxy = Proxy::http1("http1-bodies", &[endpoint.address]);
    let chunks = "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n";
    let cases = [
        ("POST /plain", "content-length: 3\r\n\r\nabc", "abc||3"),
        ("POST /chunked", "content-length: 3\r\n\r\nabc", "abc||3"),
        ("POST /plain", chunks, "abcdefg|chunked|"),
        ("GET /chunked", chunks, "abcdefg|chunked|"),
        ("DELETE /plain", chunks, "abcdefg|chunked|"),
        ("POST /chunked", "content-length: 0\r\n\r\n", "||0"),
        ("GET /plain", "\r\n", "||"),
    ];
    let mut wire = connect(proxy.address).await;
    for (start, rest, expected) in cases {
        wire.write(format!("{start} HTTP/1.1\r\nhost: test\r\n{rest}")).await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!((answer.text().as_str(), answer.complete), (expected, true), "{start} {rest:?}");
        let chunked = answer.field("transfer-encoding").is_some();
        assert_eq!(chunked, start.contains("/chunked"), "{start}");
    }
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_stream_in_both_directions() {
    let endpoint = Endpoint::http1(|request| {
        let body = request.text();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    })
    .await;
    let proxy = Proxy::http1("http1-large", &[endpoint.address]);
    let body = "0123456789abcdef".repeat(200_000);
    let answer = ask(
        proxy.address,
        format!("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
    )
    .await;
    assert!(answer.text() == body, "the body came back changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_pass_both_ways() {
    let endpoint = Endpoint::http1(|request| {
        let echo = request.trailers.replace('\n', "");
        format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\nx-echo: {echo}\r\n\r\n\
             2\r\nhi\r\n0\r\nx-end: done\r\n\r\n"
        )
    })
    .await;
    let proxy = Proxy::http1("http1-trailers", &[endpoint.address]);
    let request = "POST / HTTP/1.1\r\nhost: t\r\nte: trailers\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
                   1\r\na\r\n0\r\nx-sum: 7\r\n\r\n";
    let answer = ask(proxy.address, request).await;
    assert_eq!(answer.field("x-echo").as_deref(), Some("x-sum: 7"));
    assert_eq!(answer.trailers, "x-end: done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_body_keep_their_framing() {
    let endpoint = Endpoint::http1(|request| {
        let target = request.start().split(' ').nth(1).unwrap().trim_start_matches('/').to_owned();
        let (status, fields) = target.split_once('/').unwrap();
        let fields = match fields {
            "none" => String::new(),
            "chunked" => "transfer-encoding: chunked\r\n".to_owned(),
            length => format!("content-length: {length}\r\n"),
        };
        format!("HTTP/1.1 {status} Scripted\r\n{fields}\r\n")
    })
    .await;
    let proxy = Proxy::http1("http1-bodiless", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    let cases = [
        ("HEAD /200/55", Some("55")),
        ("HEAD /200/none", None),
        ("HEAD /200/chunked", None),
        ("HEAD /404/9", Some("9")),
        ("GET /204/none", None),
        ("GET /204/5", None),
        ("GET /304/55", Some("55")),
        ("GET /304/none", None),
        ("HEAD /304/55", Some("55")),
        ("GET /200/0", Some("0")),
    ];
    for (start, length) in cases {
        wire.write(format!("{start} HTTP/1.1\r\nhost: t\r\n\r\n")).await;
        let answer = wire.message(Bodiless::Empty).await.unwrap();
        assert_eq!(answer.field("content-length").as_deref(), length, "{start}");
        assert_eq!(answer.field("transfer-encoding"), None, "{start}");
    }
    assert_eq!(endpoint.connections(), 1, "all answers left the connection in step");
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let endpoint = Endpoint::raw(|mut wire| async move {
        if wire.message(Bodiless::Empty).await.is_some() {
            wire.write("HTTP/1.0 200 OK\r\n\r\nall of it").await;
        }
    })
    .await;
    let proxy = Proxy::http1("http1-close", &[endpoint.address]);
    let answer = get(proxy.address).await;
    assert_eq!((answer.text().as_str(), answer.complete), ("all of it", true));
    proxy.settles().await;
    proxy.counts("tidegate_requests_total", &["class=\"success\""], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order() {
    let endpoint = Endpoint::http1(|request| {
        let target = request.start().to_owned();
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{target}", target.len())
    })
    .await;
    let proxy = Proxy::http1("http1-pipeline", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    let requests: Vec<_> =
        (0..5).map(|n| format!("GET /{n} HTTP/1.1\r\nhost: t\r\n\r\n")).collect();
    wire.write(requests.concat()).await;
    for number in 0..5 {
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!(answer.text(), format!("GET /{number} HTTP/1.1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forward_listener_finds_the_service_by_host() {
    let endpoint = Endpoint::fixed(200, "found").await;
    let proxy = Proxy::http1("http1-forward", &[endpoint.address]);
    let cases = [
        ("GET / HTTP/1.1\r\nhost: http1-forward\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nhost: HTTP1-Forward.SHOP:8080\r\n\r\n", 200),
        ("GET http://http1-forward.shop/ HTTP/1.1\r\nhost: lie\r\n\r\n", 200),
        ("GET / HTTP/1.1\r\nhost: nobody\r\n\r\n", 503),
    ];
    let mut wire = connect(proxy.forward).await;
    for (request, status) in cases {
        wire.write(request).await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!(answer.status(), status, "{request}");
    }
}

/// An endpoint that answers by the body that it got, when it is told to.
async fn held(release: &std::sync::Arc<tokio::sync::Notify>) -> Endpoint {
    let release = std::sync::Arc::clone(release);
    Endpoint::raw(move |mut wire| {
        let release = std::sync::Arc::clone(&release);
        async move {
            while let Some(request) = wire.message(Bodiless::Empty).await {
                release.notified().await;
                let body = request.text();
                let answer =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                wire.write(answer).await;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_ends_its_side_behind_its_request_gets_the_answer() {
    let release = std::sync::Arc::default();
    let endpoint = held(&release).await;
    let proxy = Proxy::http1("http1-half-close", &[endpoint.address]);
    let requests = [
        "GET / HTTP/1.1\r\nhost: t\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    for request in requests {
        let mut wire = connect(proxy.address).await;
        wire.write(request).await;
        wire.half_close().await;
        release.notify_one();
        let answer = wire.message(Bodiless::UntilClose).await.expect(request);
        let body = if request.starts_with("POST") { "hello" } else { "" };
        assert_eq!((answer.status(), answer.text().as_str()), (200, body), "{request}");
        assert!(wire.is_at_end().await, "nothing can follow: {request}");
    }
    proxy.settles().await;
    proxy.counts("tidegate_requests_total", &["class=\"success\""], 4.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_ends_its_side_within_a_body_is_refused() {
    let release = std::sync::Arc::default();
    let endpoint = held(&release).await;
    let proxy = Proxy::http1("http1-half-body", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\n\r\nhe").await;
    wire.half_close().await;
    let answer = wire.message(Bodiless::UntilClose).await;
    assert!(answer.is_none_or(|answer| answer.status() == 400));
    proxy.settles().await;
}
