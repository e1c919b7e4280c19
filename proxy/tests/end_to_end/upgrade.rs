//! Requests that turn their connection into something else.

use crate::support::caller::{ask, connect};
use crate::support::endpoint::Endpoint;
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;

const WISH: &str =
    "GET /chat HTTP/1.1\r\nhost: t\r\nconnection: keep-alive, Upgrade\r\nupgrade: echo/1\r\n\r\n";

/// Agrees to any upgrade, and says everything back from then on.
async fn agreeing() -> Endpoint {
    Endpoint::raw(|mut wire| async move {
        while let Some(request) = wire.message(Bodiless::Empty).await {
            match request.field("upgrade") {
                Some(protocol) if request.field("connection").as_deref() == Some("upgrade") => {
                    // What follows at once must not be lost.
                    wire.write(format!(
                        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\nx: y\r\n\r\nhello"
                    ))
                    .await;
                    return wire.echo().await;
                }
                _ => wire.write("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n").await,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_agreed_to_carries_bytes_both_ways() {
    let endpoint = agreeing().await;
    let proxy = Proxy::http1("upgrade-agreed", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    // The first bytes of the new protocol come with the request.
    wire.write(format!("{WISH}early")).await;
    let head = wire.head().await.unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let fields = head.to_ascii_lowercase();
    for field in ["connection: upgrade", "upgrade: echo/1", "x: y"] {
        assert!(fields.contains(field), "{field}: {head}");
    }
    assert_eq!(wire.exactly(10).await, b"helloearly");
    let large = vec![7; 1 << 20];
    let (sent, received) = wire.write_and_read(&large).await;
    assert!(sent == large.len() && received == large);
    proxy.counts("tidegate_open_connections", &[], 1.0).await;
    proxy.counts("tidegate_requests_total", &["class=\"success\""], 1.0).await;
    drop(wire);
    proxy.counts("tidegate_open_connections", &[], 0.0).await;
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_is_refused_leaves_an_ordinary_connection() {
    let endpoint = Endpoint::fixed(200, "plain").await;
    let proxy = Proxy::http1("upgrade-refused", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    for _ in 0..2 {
        wire.write(WISH).await;
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "plain"));
    }
    assert_eq!(endpoint.connections(), 1, "both connections are used again");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_upgraded_is_not() {
    let endpoint = agreeing().await;
    let proxy = Proxy::http1("upgrade-not", &[endpoint.address]);
    let cases = [
        "GET / HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: x\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: x, H2C\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: t\r\nupgrade: echo/1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: t\r\nconnection: upgrade\r\nupgrade: a\r\nupgrade: b\r\n\r\n",
        "GET / HTTP/1.0\r\nhost: t\r\nconnection: upgrade\r\nupgrade: echo/1\r\n\r\n",
    ];
    for request in cases {
        let answer = ask(proxy.address, request).await;
        assert_eq!(answer.status(), 426, "{request}");
    }
    assert!(endpoint.seen().iter().all(|request| request.field("upgrade").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_switches_unasked_is_an_error_of_the_endpoint() {
    let endpoint = Endpoint::http1(|_| {
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n".to_owned()
    })
    .await;
    let proxy = Proxy::http1("upgrade-unasked", &[endpoint.address]);
    let answer =
        ask(proxy.address, "POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.field("tidegate-reason").as_deref(), Some("endpoint_protocol"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_outlives_a_drain() {
    let endpoint = agreeing().await;
    let proxy = Proxy::http1("upgrade-drain", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write(WISH).await;
    wire.head().await.unwrap();
    assert_eq!(wire.exactly(5).await, b"hello");
    proxy.signal.start(std::time::Duration::from_mins(1));
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    wire.write("still here").await;
    assert_eq!(wire.exactly(10).await, b"still here");
}
