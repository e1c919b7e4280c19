//! What is sent again, what is not, and with which bytes.

use crate::support::caller::{ask, ask_http2, connect, get};
use crate::support::endpoint::{Endpoint, full};
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;
use api::policy::{Policy, RetryMethods};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use proxy::discovery::EndpointProtocol;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_5xx_of_an_idempotent_request_is_retried_elsewhere() {
    let (bad, good) = (Endpoint::fixed(503, "bad").await, Endpoint::fixed(200, "good").await);
    let proxy = Proxy::http1("retry-5xx", &[bad.address, good.address]);
    let mut retried = 0;
    for number in 0..10 {
        let body = format!("body-{number}");
        let request =
            format!("PUT /x HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let answer = ask(proxy.address, request).await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "good"), "{number}");
        retried += usize::from(answer.field("tidegate-retried").is_some());
        assert_eq!(good.seen().last().unwrap().text(), body, "the body arrived whole");
    }
    assert!(retried > 0 && retried == bad.seen().len(), "{retried} of {}", bad.seen().len());
    proxy.settles().await;
    proxy.counts("tidegate_retries_total", &["result=\"sent\""], bad.seen().len() as f64).await;
    proxy.counts("tidegate_requests_total", &["class=\"success\""], 10.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_is_sent_again_byte_for_byte() {
    let (bad, good) = (Endpoint::fixed(500, "").await, Endpoint::fixed(200, "").await);
    let proxy = Proxy::http1("retry-chunked", &[bad.address, good.address]);
    while bad.seen().is_empty() {
        let request = "PUT / HTTP/1.1\r\nhost: t\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
                       3\r\nabc\r\n4\r\ndefg\r\n0\r\nx-sum: 9\r\n\r\n";
        assert_eq!(ask(proxy.address, request).await.status(), 200);
        let seen = good.seen().pop().unwrap();
        assert_eq!((seen.text().as_str(), seen.trailers.as_str()), ("abcdefg", "x-sum: 9\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_is_not_sent_twice_and_neither_is_a_large_body() {
    let bad = Endpoint::fixed(500, "bad").await;
    let other = Endpoint::fixed(500, "bad").await;
    let proxy = Proxy::http1("retry-post", &[bad.address, other.address]);
    let sent = || bad.seen().len() + other.seen().len();
    let large = "x".repeat(65 * 1024);
    for (method, body, expected) in
        [("POST", "small", 1), ("PUT", large.as_str(), 1), ("PUT", "small", 2)]
    {
        let before = sent();
        let request = format!(
            "{method} / HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = ask(proxy.address, request).await;
        assert_eq!((answer.status(), answer.text().as_str()), (500, "bad"), "{method}");
        assert_eq!(answer.field("tidegate-retried").is_some(), expected == 2);
        assert_eq!(sent() - before, expected, "{method} {}", body.len());
    }
    proxy.counts("tidegate_retries_total", &["result=\"not_replayable\""], 2.0).await;
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_retried_before_is_not_retried_again() {
    let endpoints = [
        Endpoint::http1(|_| {
            "HTTP/1.1 503 No\r\ntidegate-retried: 1\r\ncontent-length: 0\r\n\r\n".to_owned()
        })
        .await,
        Endpoint::http1(|_| {
            "HTTP/1.1 503 No\r\ntidegate-retried: 1\r\ncontent-length: 0\r\n\r\n".to_owned()
        })
        .await,
    ];
    let proxy = Proxy::http1("retry-chain", &[endpoints[0].address, endpoints[1].address]);
    let answer = get(proxy.address).await;
    assert_eq!((answer.status(), answer.field("tidegate-retried").as_deref()), (503, Some("1")));
    assert_eq!(endpoints.iter().map(|endpoint| endpoint.seen().len()).sum::<usize>(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_retried_whatever_the_method() {
    let (gone, good) = (Endpoint::gone().await, Endpoint::fixed(200, "good").await);
    let proxy = Proxy::http1("retry-refused", &[gone, good.address]);
    for number in 0..6 {
        let body = "x".repeat(100 * 1024);
        let request =
            format!("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        assert_eq!(ask(proxy.address, request).await.status(), 200, "{number}");
    }
    assert!(good.seen().iter().all(|seen| seen.body.len() == 100 * 1024));
    proxy.settles().await;
}

/// As while a service is replaced: what is known is mostly gone, the breaker has noticed some of it, and there is one that serves.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_on_past_all_that_refuse_it() {
    let mut addresses = Vec::new();
    for _ in 0..5 {
        addresses.push(Endpoint::gone().await);
    }
    let good = Endpoint::fixed(200, "good").await;
    addresses.push(good.address);
    let proxy = Proxy::http1("retry-on", &addresses);
    for number in 0..60 {
        let request = format!("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 2\r\n\r\n{number:02}");
        assert_eq!(ask(proxy.address, request).await.status(), 200, "{number}");
    }
    assert_eq!(good.seen().len(), 60, "each was served once");
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_all_refuse_is_given_up_after_a_few() {
    let mut addresses = Vec::new();
    for _ in 0..10 {
        addresses.push(Endpoint::gone().await);
    }
    let proxy = Proxy::http1("retry-none", &addresses);
    for number in 1..=30 {
        let answer = get(proxy.address).await;
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.field("tidegate-reason").as_deref(), Some("endpoint_unreachable"));
        proxy.counts("tidegate_retries_total", &["result=\"sent\""], f64::from(5 * number)).await;
    }
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_may_forbid_or_widen_retries() {
    let (bad, good) = (Endpoint::fixed(500, "").await, Endpoint::fixed(200, "").await);
    let addresses = [bad.address, good.address];
    let mut never = Policy::default();
    never.retry.attempts = 1;
    let proxy = Proxy::with_policy("retry-never", EndpointProtocol::Http1, &addresses, never);
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(get(proxy.address).await.status());
    }
    assert!(
        statuses.contains(&500) && proxy.counted("tidegate_retries_total", &[]) < 0.5,
        "{statuses:?}"
    );

    let mut always = Policy::default();
    always.retry.methods = RetryMethods::Any;
    let proxy = Proxy::with_policy("retry-always", EndpointProtocol::Http1, &addresses, always);
    for _ in 0..4 {
        let answer =
            ask(proxy.address, "POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 1\r\n\r\nx").await;
        assert_eq!(answer.status(), 200);
    }
}

/// The endpoint answers, then closes the connection at the very moment at which the next request may come.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_connection_that_closes_is_no_failure_of_an_idempotent_request() {
    let endpoint = Endpoint::raw(|mut wire| async move {
        if wire.message(Bodiless::Empty).await.is_some() {
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            // The next request is read and dropped without an answer.
            wire.message(Bodiless::Empty).await;
        }
    })
    .await;
    let proxy = Proxy::http1("retry-stale", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    for number in 0..20 {
        wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!(answer.status(), 200, "{number}");
    }
    wire.write("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 1\r\n\r\nx").await;
    let answer = wire.message(Bodiless::UntilClose).await.unwrap();
    assert_eq!(
        (answer.status(), answer.field("tidegate-reason").as_deref()),
        (502, Some("endpoint_reset"))
    );
    proxy.settles().await;
    assert!(proxy.snapshot().endpoints().all(|(_, seen)| seen.success_rate > 0.9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_stream_is_retried_whatever_the_method() {
    let refusals = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refusals);
    let refusing = raw_http2_refusing(counted).await;
    let good = Endpoint::http2(|request| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        Response::new(full(body))
    })
    .await;
    let proxy = Proxy::http2("retry-stream", &[refusing, good.address]);
    for number in 0..6 {
        let request =
            Request::post("http://t/").body(Full::new(Bytes::from_static(b"once"))).unwrap();
        let answer = ask_http2(proxy.address, request).await;
        assert_eq!(answer.status(), 200, "{number}");
        assert_eq!(answer.body, "once", "{number}");
    }
    assert!(refusals.load(Ordering::Relaxed) > 0);
    proxy.settles().await;
}

/// An HTTP/2 endpoint that resets every stream by `REFUSED_STREAM`.
async fn raw_http2_refusing(refusals: Arc<AtomicUsize>) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let refusals = Arc::clone(&refusals);
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    refusals.fetch_add(1, Ordering::Relaxed);
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                }
            });
        }
    });
    address
}

/// The endpoint says goodbye after every third request, as one that is replaced does.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_lost_when_an_endpoint_says_goodbye() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(say_goodbye_after(3, stream));
        }
    });
    let proxy = Proxy::http2("retry-goaway", &[address]);
    for number in 0..40 {
        let request = Request::post("http://t/").body(Full::new(Bytes::from_static(b"x"))).unwrap();
        assert_eq!(ask_http2(proxy.address, request).await.status(), 200, "{number}");
    }
    proxy.settles().await;
    proxy.counts("tidegate_requests_total", &["class=\"success\""], 40.0).await;
}

async fn say_goodbye_after(requests: u32, stream: tokio::net::TcpStream) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    let mut count = 0;
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        respond.send_response(Response::new(()), true).unwrap();
        count += 1;
        if count == requests {
            connection.graceful_shutdown();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn time_limits_of_the_policy_hold() {
    let endpoint = Endpoint::raw(|mut wire| async move { while wire.more().await {} }).await;
    let mut policy = Policy::default();
    policy.timeout.per_try = Some(Duration::from_millis(50));
    policy.timeout.request = Some(Duration::from_millis(200));
    let proxy =
        Proxy::with_policy("retry-time", EndpointProtocol::Http1, &[endpoint.address], policy);
    let answer = get(proxy.address).await;
    assert_eq!(
        (answer.status(), answer.field("tidegate-reason").as_deref()),
        (504, Some("timeout"))
    );
    proxy.settles().await;
    proxy.counts("tidegate_requests_total", &["class=\"failure\""], 1.0).await;
}
