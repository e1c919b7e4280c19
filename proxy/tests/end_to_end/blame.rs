//! Whose fault is it? Callers that misbehave never count against an endpoint; endpoints that do always count.

use crate::support::caller::{ask, connect, get, http2};
use crate::support::endpoint::{Endpoint, full};
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;
use balance::snapshot::EndpointState;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;

fn untouched(proxy: &Proxy) -> bool {
    proxy
        .snapshot()
        .endpoints()
        .all(|(_, seen)| seen.state == EndpointState::Serving && seen.success_rate > 0.99)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_body_is_the_callers_fault() {
    let endpoint = Endpoint::fixed(200, "ok").await;
    let proxy = Proxy::http1("blame-chunk", &[endpoint.address]);
    let bodies = [
        "zz\r\nabc\r\n0\r\n\r\n",
        "3\r\nabcX\r\n0\r\n\r\n",
        "0x2\r\nab\r\n0\r\n\r\n",
        "1ffffffffffffffff\r\n",
    ];
    for number in 0..40 {
        let body = bodies[number % bodies.len()];
        let request =
            format!("POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n{body}");
        let answer = ask(proxy.address, request).await;
        assert_eq!(answer.status(), 400, "{body:?}");
        assert_eq!(
            answer.field("tidegate-reason").as_deref(),
            Some("bad_request_body"),
            "{body:?}"
        );
    }
    for _ in 0..50 {
        assert_eq!(get(proxy.address).await.status(), 200);
    }
    proxy.settles().await;
    assert!(untouched(&proxy));
    proxy.counts("tidegate_requests_total", &["class=\"rejected\""], 40.0).await;
    proxy.counts("tidegate_requests_total", &["class=\"success\""], 50.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_gives_up_leaves_nothing_behind() {
    let endpoint = Endpoint::raw(|mut wire| async move { while wire.more().await {} }).await;
    let proxy = Proxy::http1("blame-cancel", &[endpoint.address]);
    for _ in 0..30 {
        let mut wire = connect(proxy.address).await;
        wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
        crate::support::eventually("it is under way", || {
            proxy.snapshot().endpoints().any(|(_, seen)| seen.outstanding > 0)
        })
        .await;
        wire.loses_patience().await;
        proxy.settles().await;
    }
    let ended = proxy.counted("tidegate_requests_total", &["class=\"cancelled\""])
        + proxy.counted("tidegate_requests_total", &["class=\"failure\""]);
    assert!((ended - 30.0).abs() < 0.5, "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_the_caller_resets_leaves_nothing_behind() {
    let endpoint = Endpoint::http2(|_| async {
        std::future::pending::<()>().await;
        Response::new(full(""))
    })
    .await;
    let proxy = Proxy::http2("blame-reset", &[endpoint.address]);
    let mut sender = http2(proxy.address).await;
    for _ in 0..30 {
        let request = Request::get("http://t/").body(Empty::<Bytes>::new()).unwrap();
        let asking = tokio::spawn(sender.send_request(request));
        crate::support::eventually("it is under way", || {
            proxy.snapshot().endpoints().any(|(_, seen)| seen.outstanding > 0)
        })
        .await;
        asking.abort();
        proxy.settles().await;
    }
    assert_eq!(endpoint.connections(), 1, "one caller's resets do not end the shared connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_in_the_middle_of_an_answer_is_a_cancel() {
    let endpoint = Endpoint::raw(|mut wire| async move {
        if wire.message(Bodiless::Empty).await.is_some() {
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nhalf").await;
            while wire.more().await {}
        }
    })
    .await;
    let proxy = Proxy::http1("blame-leave", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert!(wire.more().await);
    wire.loses_patience().await;
    proxy.settles().await;
    assert!(untouched(&proxy));
    proxy.counts("tidegate_requests_total", &["class=\"cancelled\""], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_cut_short_is_passed_on_cut_short_and_counted() {
    for (number, answer) in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let endpoint = Endpoint::raw(move |mut wire| async move {
            if wire.message(Bodiless::Empty).await.is_some() {
                wire.write(answer).await;
            }
        })
        .await;
        let proxy = Proxy::http1(&format!("blame-cut-{number}"), &[endpoint.address]);
        let answer = get(proxy.address).await;
        assert_eq!((answer.text().as_str(), answer.complete), ("half", false));
        proxy.settles().await;
        proxy.counts("tidegate_requests_total", &["class=\"failure\""], 1.0).await;
        assert!(proxy.snapshot().endpoints().all(|(_, seen)| seen.success_rate < 1.0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_http_is_the_endpoints_fault() {
    let answers = [
        "HTTP/1.1 abc\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nna me: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    ];
    for (number, bytes) in answers.into_iter().enumerate() {
        let endpoint = Endpoint::raw(move |mut wire| async move {
            if wire.message(Bodiless::Empty).await.is_some() {
                wire.write(bytes).await;
                wire.more().await;
            }
        })
        .await;
        let proxy = Proxy::http1(&format!("blame-junk-{number}"), &[endpoint.address]);
        let answer = get(proxy.address).await;
        assert_eq!(
            (answer.status(), answer.field("tidegate-reason").as_deref()),
            (502, Some("endpoint_protocol")),
            "{bytes:?}"
        );
        proxy.settles().await;
        proxy.counts("tidegate_requests_total", &["class=\"failure\""], 1.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn informational_answers_do_no_harm() {
    let endpoint = Endpoint::http1(|_| {
        "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
            .to_owned()
    })
    .await;
    let proxy = Proxy::http1("blame-hints", &[endpoint.address]);
    let answer = get(proxy.address).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_answer_does_not_wait_for_the_upload() {
    let endpoint = Endpoint::raw(|mut wire| async move {
        assert!(wire.more().await);
        wire.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
        while wire.more().await {}
    })
    .await;
    let proxy = Proxy::http1("blame-early", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 1000000\r\n\r\nabc").await;
    let answer = wire.message(Bodiless::UntilClose).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (413, "big"));
    proxy.settles().await;
    assert!(untouched(&proxy));
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_fail_are_ejected() {
    let (bad, good) = (Endpoint::fixed(500, "").await, Endpoint::fixed(200, "").await);
    let proxy = Proxy::http1("blame-eject", &[bad.address]);
    for _ in 0..8 {
        assert_eq!(
            get(proxy.address).await.status(),
            500,
            "with nothing else, a failing endpoint is still tried"
        );
    }
    let snapshot = proxy.snapshot();
    assert!(
        snapshot.endpoints().all(|(_, seen)| seen.state != EndpointState::Serving),
        "{snapshot:?}"
    );
    let decisions = snapshot.decisions;
    assert!(
        decisions.iter().any(|decision| decision.endpoint == Some(bad.address)),
        "{decisions:?}"
    );
    proxy.counts("tidegate_ejections_total", &["zone=\"a\"", "reason=\"consecutive\""], 1.0).await;

    proxy.set_endpoints(&[bad.address, good.address]);
    for _ in 0..50 {
        assert_eq!(get(proxy.address).await.status(), 200);
    }
    assert!(bad.seen().len() <= 15, "{} requests went to the bad one", bad.seen().len());
}
