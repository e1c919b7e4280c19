//! Bodies that the caller holds back, and answers that come before the body is sent.

use crate::support::caller::connect;
use crate::support::endpoint::Endpoint;
use crate::support::eventually;
use crate::support::message::{Bodiless, Wire};
use crate::support::proxy::Proxy;

/// Reads until `wanted` was read.
async fn until_read(wire: &mut Wire, wanted: &str) {
    while !wire.text().contains(wanted) {
        assert!(wire.more().await, "ended before {wanted:?}: {:?}", wire.text());
    }
}

const EXPECTING: &str =
    "POST / HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_holds_its_body_back_is_asked_for_it_when_the_endpoint_asks() {
    let (ask, asked) = tokio::sync::mpsc::channel::<()>(1);
    let asked = std::sync::Arc::new(tokio::sync::Mutex::new(asked));
    let endpoint = Endpoint::raw(move |mut wire| {
        let asked = std::sync::Arc::clone(&asked);
        async move {
            until_read(&mut wire, "\r\n\r\n").await;
            assert!(wire.text().contains("expect: 100-continue"));
            asked.lock().await.recv().await;
            assert!(wire.text().ends_with("\r\n\r\n"), "the body came before it was asked for");
            wire.write("HTTP/1.1 100 Continue\r\n\r\n").await;
            let request = wire.message(Bodiless::Empty).await.unwrap();
            assert_eq!(request.text(), "body");
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            wire.more().await;
        }
    })
    .await;
    let proxy = Proxy::http1("uploads-continue", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write(EXPECTING).await;
    eventually("it is under way", || endpoint.connections() == 1).await;
    assert_eq!(wire.text(), "");
    ask.send(()).await.unwrap();
    until_read(&mut wire, "HTTP/1.1 100 Continue\r\n\r\n").await;
    wire.message(Bodiless::Empty).await.unwrap();
    wire.write("body").await;
    let answer = wire.message(Bodiless::UntilClose).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_knows_no_expectations_gets_the_body_after_a_while() {
    let endpoint = Endpoint::fixed(200, "ok").await;
    let proxy = Proxy::http1("uploads-ignorant", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write(EXPECTING).await;
    until_read(&mut wire, "HTTP/1.1 100 Continue\r\n\r\n").await;
    wire.message(Bodiless::Empty).await.unwrap();
    wire.write("body").await;
    assert_eq!(wire.message(Bodiless::UntilClose).await.unwrap().status(), 200);
    assert_eq!(endpoint.seen()[0].text(), "body");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_answers_early_and_reads_on_gets_the_whole_body() {
    let (done, mut whole) = tokio::sync::mpsc::channel::<usize>(1);
    let endpoint = Endpoint::raw(move |mut wire| {
        let done = done.clone();
        async move {
            until_read(&mut wire, "\r\n\r\n").await;
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            let request = wire.message(Bodiless::Empty).await.unwrap();
            done.send(request.body.len()).await.unwrap();
            wire.more().await;
        }
    })
    .await;
    let proxy = Proxy::http1("uploads-on", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    let size = 4_000_000;
    wire.write(format!("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: {size}\r\n\r\n")).await;
    let answer = wire.message(Bodiless::UntilClose).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
    wire.write(vec![b'x'; size]).await;
    assert_eq!(crate::support::within("the body", whole.recv()).await, Some(size));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_reaches_a_caller_that_is_still_sending() {
    let endpoint = Endpoint::raw(|mut wire| async move {
        until_read(&mut wire, "\r\n\r\n").await;
        wire.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
        // It does not read on, and does not close.
        std::future::pending::<()>().await;
    })
    .await;
    let proxy = Proxy::http1("uploads-refused", &[endpoint.address]);
    for round in 0..5 {
        let mut wire = connect(proxy.address).await;
        wire.write("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 3000000\r\n\r\n").await;
        wire.write(vec![b'x'; 1_000_000]).await;
        let answer = wire.message(Bodiless::UntilClose).await;
        let answer = answer.unwrap_or_else(|| panic!("reset before the answer in round {round}"));
        assert_eq!((answer.status(), answer.text().as_str()), (413, "big"), "round {round}");
        assert!(wire.is_at_end().await, "the connection ends: it owes bytes");
    }
    proxy.settles().await;
}
