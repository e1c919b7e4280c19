//! The end of the process: nothing in flight is lost.

use crate::support::caller::{connect, http2, read};
use crate::support::endpoint::{Endpoint, full};
use crate::support::message::Bodiless;
use crate::support::proxy::Proxy;
use crate::support::{eventually, within};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const GRACE: Duration = Duration::from_mins(1);

async fn gated() -> (Endpoint, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let endpoint = Endpoint::raw(move |mut wire| {
        let held = Arc::clone(&held);
        async move {
            while wire.message(Bodiless::Empty).await.is_some() {
                held.acquire().await.unwrap().forget();
                wire.write("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone").await;
            }
        }
    })
    .await;
    (endpoint, gate)
}

fn outstanding(proxy: &Proxy) -> u32 {
    proxy.snapshot().endpoints().map(|(_, seen)| seen.outstanding).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_finishes_and_its_caller_is_told_to_go() {
    let (endpoint, gate) = gated().await;
    let proxy = Proxy::http1("drain-http1", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    let request = "GET / HTTP/1.1\r\nhost: t\r\n\r\n";
    wire.write(request).await;
    eventually("it is under way", || outstanding(&proxy) == 1).await;
    proxy.signal.start(GRACE);
    let mut late = connect(proxy.address).await;
    late.write(request).await;
    eventually("a late request is taken", || outstanding(&proxy) == 2).await;
    gate.add_permits(2);
    for wire in [&mut wire, &mut late] {
        let answer = wire.message(Bodiless::UntilClose).await.unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "done"));
        assert_eq!(answer.field("connection").as_deref(), Some("close"));
        assert!(wire.is_at_end().await);
    }
    eventually("the workers end", || proxy.workers.as_ref().unwrap().finished()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_hold_up_the_end() {
    let endpoint = Endpoint::fixed(200, "").await;
    let proxy = Proxy::http1("drain-idle", &[endpoint.address]);
    let mut used = connect(proxy.address).await;
    used.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    used.message(Bodiless::UntilClose).await.unwrap();
    let mut silent = connect(proxy.address).await;
    let mut streams = http2(proxy.address).await;
    let request = Request::get("http://t/").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(read(streams.send_request(request).await.unwrap()).await.status(), 200);
    proxy.signal.start(GRACE);
    assert!(used.is_at_end().await && silent.is_at_end().await);
    eventually("the workers end", || proxy.workers.as_ref().unwrap().finished()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_callers_get_a_goaway_and_their_answers() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let endpoint = Endpoint::http2(move |_| {
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.unwrap().forget();
            Response::new(full("done"))
        }
    })
    .await;
    let proxy = Proxy::http2("drain-http2", &[endpoint.address]);
    let stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("http://t/").body(()).unwrap();
    let (answer, _) = sender.send_request(request, true).unwrap();
    eventually("it is under way", || outstanding(&proxy) == 1).await;
    proxy.signal.start(GRACE);
    within("the end of new streams", async {
        while sender.clone().ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    gate.add_permits(1);
    let mut answer = within("an answer", answer).await.unwrap();
    assert_eq!(answer.body_mut().data().await.unwrap().unwrap(), "done");
    drop(answer);
    within("the end of the connection", connection).await.unwrap().unwrap();
    eventually("the workers end", || proxy.workers.as_ref().unwrap().finished()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_grace_period_is_the_end() {
    let (endpoint, _gate) = gated().await;
    let proxy = Proxy::http1("drain-grace", &[endpoint.address]);
    let mut wire = connect(proxy.address).await;
    wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    eventually("it is under way", || outstanding(&proxy) == 1).await;
    proxy.signal.start(Duration::from_millis(100));
    eventually("the workers end", || proxy.workers.as_ref().unwrap().finished()).await;
    assert!(wire.is_at_end().await);
}
