//! Connections that are not HTTP: bytes both ways, balanced a connection at a time.

use crate::support::endpoint::{Endpoint, full};
use crate::support::message::Wire;
use crate::support::proxy::Proxy;
use crate::support::{eventually, within};
use http::Response;
use proxy::discovery::EndpointProtocol::{Detect, Http1, Opaque};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// More than the kernel's buffers of both connections hold.
const LARGE: usize = 10 << 20;

/// A server that does the same with each connection.
async fn server<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (SocketAddr, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    (address, task)
}

async fn echo(mut stream: TcpStream) {
    let (mut from, mut to) = stream.split();
    // A peer that goes away ends it.
    drop(tokio::io::copy(&mut from, &mut to).await);
    drop(to.shutdown().await);
}

/// Bytes of which each says where it stands.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap()).collect()
}

async fn all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    within("all bytes", stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_reaches_an_endpoint_and_is_counted() {
    let (address, _server) = server(echo).await;
    let proxy = Proxy::start("opaque-bytes", Http1, &[address]);
    let sent: [&[u8]; 4] =
        [b"\x16\x03\x01\x02\0\x01\0", b"*1\r\n$4\r\nPING\r\n", b"\0", b"SSH-2.0-x\r\n"];
    for bytes in sent {
        let mut caller = TcpStream::connect(proxy.address).await.unwrap();
        caller.write_all(bytes).await.unwrap();
        caller.shutdown().await.unwrap();
        assert_eq!(all(&mut caller).await, bytes);
    }
    proxy.counts("tidegate_connections_total", &["class=\"success\"", "dst_zone=\"a\""], 4.0).await;
    proxy.counts("tidegate_open_connections", &[], 0.0).await;
    let bytes: usize = sent.iter().map(|bytes| bytes.len()).sum();
    proxy.counts("tidegate_zone_bytes_total", &["flow=\"sent\""], bytes as f64).await;
    proxy.counts("tidegate_zone_bytes_total", &["flow=\"received\""], bytes as f64).await;
    assert!(proxy.counted("tidegate_requests_total", &[]) < 0.5, "they are no requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_service_it_is_refused_and_counted() {
    let proxy = Proxy::start("opaque-nowhere", Http1, &[]);
    let mut caller = TcpStream::connect(proxy.forward).await.unwrap();
    caller.write_all(b"\x16\x03\x01").await.unwrap();
    let ended = within("end", caller.read(&mut [0])).await;
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    caller.write_all(b"\x16\x03\x01").await.unwrap();
    let ended = within("end", caller.read(&mut [0])).await;
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    proxy.counts("tidegate_connections_total", &["class=\"rejected\""], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_come_back_after_the_callers_end() {
    let (address, _server) = server(|mut stream| async move {
        let mut request = Vec::new();
        stream.read_to_end(&mut request).await.unwrap();
        assert_eq!(request, b"all of it");
        stream.write_all(&pattern(LARGE)).await.unwrap();
    })
    .await;
    let proxy = Proxy::start("opaque-half-caller", Opaque, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    caller.write_all(b"all of it").await.unwrap();
    caller.shutdown().await.unwrap();
    assert!(all(&mut caller).await == pattern(LARGE));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_go_out_after_the_endpoints_end() {
    let (done, seen) = tokio::sync::oneshot::channel();
    let done = parking_lot::Mutex::new(Some(done));
    let (address, _server) = server(move |mut stream| {
        let done = done.lock().take();
        async move {
            stream.write_all(b"ready").await.unwrap();
            stream.shutdown().await.unwrap();
            let received = all(&mut stream).await;
            done.unwrap().send(received).unwrap();
        }
    })
    .await;
    let proxy = Proxy::start("opaque-half-endpoint", Opaque, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    assert_eq!(all(&mut caller).await, b"ready");
    caller.write_all(&pattern(LARGE)).await.unwrap();
    caller.shutdown().await.unwrap();
    assert!(within("all bytes", seen).await.unwrap() == pattern(LARGE));
    proxy.counts("tidegate_connections_total", &["class=\"success\""], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_the_endpoint_reaches_the_caller() {
    let (address, _server) = server(|mut stream| async move {
        stream.write_all(b"hello").await.unwrap();
        stream.read_exact(&mut [0; 2]).await.unwrap();
        stream.set_zero_linger().unwrap();
    })
    .await;
    let proxy = Proxy::start("opaque-reset-endpoint", Opaque, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    let mut hello = [0; 5];
    within("hello", caller.read_exact(&mut hello)).await.unwrap();
    caller.write_all(b"go").await.unwrap();
    let ended = within("end", caller.read(&mut [0])).await;
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    proxy.counts("tidegate_connections_total", &["class=\"failure\""], 1.0).await;
    let snapshot = proxy.snapshot();
    let rates: Vec<f64> = snapshot.endpoints().map(|(_, seen)| seen.success_rate).collect();
    assert_eq!(rates, [1.0], "it may be the answer to what the caller sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_of_the_caller_reaches_the_endpoint() {
    let (done, seen) = tokio::sync::oneshot::channel();
    let done = parking_lot::Mutex::new(Some(done));
    let (address, _server) = server(move |mut stream| {
        let done = done.lock().take();
        async move {
            stream.write_all(b"hello").await.unwrap();
            done.unwrap().send(stream.read(&mut [0]).await).unwrap();
        }
    })
    .await;
    let proxy = Proxy::start("opaque-reset-caller", Opaque, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    within("hello", caller.read_exact(&mut [0; 5])).await.unwrap();
    caller.set_zero_linger().unwrap();
    drop(caller);
    let ended = within("end", seen).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    proxy.counts("tidegate_connections_total", &["class=\"cancelled\""], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_do_not_come_about_are_tried_elsewhere() {
    let (address, _server) = server(echo).await;
    let proxy = Proxy::start("opaque-retry", Opaque, &[Endpoint::gone().await, address]);
    for _ in 0..20 {
        let mut caller = TcpStream::connect(proxy.address).await.unwrap();
        caller.write_all(b"x").await.unwrap();
        caller.shutdown().await.unwrap();
        assert_eq!(all(&mut caller).await, b"x");
    }
    proxy.counts("tidegate_connections_total", &["class=\"success\""], 20.0).await;
    assert!(proxy.counted("tidegate_connections_total", &["class=\"failure\""]) < 0.5);
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_cuts_connections_at_once_is_avoided() {
    let (good, _good) = server(echo).await;
    let (bad, _bad) = server(|stream| async move { stream.set_zero_linger().unwrap() }).await;
    let proxy = Proxy::start("opaque-cut", Opaque, &[good, bad]);
    let mut cut = 0;
    for _ in 0..50 {
        // It may be cut at any moment, even in that of its beginning.
        let Ok(mut caller) = TcpStream::connect(proxy.address).await else {
            cut += 1;
            continue;
        };
        drop(caller.write_all(b"x").await);
        drop(caller.shutdown().await);
        let ended = within("end", caller.read_to_end(&mut Vec::new())).await;
        cut += u32::from(!ended.is_ok_and(|length| length == 1));
    }
    // Most of them are cut before they are used, and taken elsewhere.
    assert!(cut < 10, "{cut} of 50 came to the endpoint that cuts them");
    let snapshot = proxy.snapshot();
    for (endpoint, seen) in snapshot.endpoints() {
        assert_eq!(endpoint.address == bad, seen.success_rate < 1.0, "{seen:?}");
    }
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_connections_are_spread_and_given_back() {
    let (one, _one) = server(echo).await;
    let (two, _two) = server(echo).await;
    let proxy = Proxy::start("opaque-spread", Opaque, &[one, two]);
    let mut callers = Vec::new();
    for _ in 0..20 {
        let mut caller = TcpStream::connect(proxy.address).await.unwrap();
        caller.write_all(b"x").await.unwrap();
        within("echo", caller.read_exact(&mut [0])).await.unwrap();
        callers.push(caller);
    }
    let open =
        || -> Vec<u32> { proxy.snapshot().endpoints().map(|(_, seen)| seen.connections).collect() };
    assert_eq!(open(), [10, 10], "two candidates out of two: the less busy one each time");
    proxy.counts("tidegate_open_connections", &[], 20.0).await;
    drop(callers);
    eventually("all are given back", || open() == [0, 0]).await;
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_first_ends_detection() {
    let (address, _server) = server(|mut stream| async move {
        stream.write_all(b"220 mail\r\n").await.unwrap();
        echo(stream).await;
    })
    .await;
    let proxy = Proxy::start("opaque-server-first", Detect, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    let mut banner = [0; 10];
    within("banner", caller.read_exact(&mut banner)).await.unwrap();
    caller.write_all(b"EHLO x").await.unwrap();
    caller.shutdown().await.unwrap();
    assert_eq!(all(&mut caller).await, b"EHLO x");
    proxy.counts("tidegate_connections_total", &["class=\"success\""], 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_stops_in_the_middle_of_a_word_is_passed_on_after_a_second() {
    let (address, _server) = server(echo).await;
    let proxy = Proxy::start("opaque-half-word", Detect, &[address]);
    for word in ["P", "PRI * HTTP/2.0\r\n", "GE"] {
        let mut caller = TcpStream::connect(proxy.address).await.unwrap();
        caller.write_all(word.as_bytes()).await.unwrap();
        let mut back = vec![0; word.len()];
        within("echo", caller.read_exact(&mut back)).await.unwrap();
        assert_eq!(back, word.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_of_http_are_found_out_and_sent_on_as_they_came() {
    let http1 = Endpoint::fixed(200, "one").await;
    let proxy = Proxy::start("opaque-detect-1", Detect, &[http1.address]);
    let mut wire = Wire::new(TcpStream::connect(proxy.address).await.unwrap());
    // Slower than an HTTP caller is expected to be, in two parts, with an endpoint asked in between.
    wire.write("GE").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    wire.write("T / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    let answer = wire.message(crate::support::message::Bodiless::UntilClose).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "one"));
    proxy.counts("tidegate_requests_total", &["protocol=\"http1\"", "success"], 1.0).await;

    let http2 = Endpoint::http2(|_| async { Response::new(full("two")) }).await;
    let proxy = Proxy::start("opaque-detect-2", Detect, &[http2.address]);
    let mut sender = crate::support::caller::http2(proxy.address).await;
    let request =
        http::Request::get("http://t/").body(http_body_util::Empty::<bytes::Bytes>::new());
    let answer = within("answer", sender.send_request(request.unwrap())).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(proxy.counted("tidegate_connections_total", &[]) < 0.5);
    proxy.settles().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_slows_its_writer_down() {
    let (address, _server) = server(|mut stream| async move {
        // Until the caller reads, most of this cannot be sent.
        stream.write_all(&pattern(64 << 20)).await.unwrap();
    })
    .await;
    let proxy = Proxy::start("opaque-slow", Opaque, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    let received = || proxy.counted("tidegate_zone_bytes_total", &["flow=\"received\""]);
    // The flow stops by itself.
    within("it stands still", async {
        let mut before = 0.0;
        while before < 0.5 || (received() - before).abs() > 0.5 {
            before = received();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert!(received() < 48e6, "{} bytes were taken without a reader", received());
    assert!(all(&mut caller).await == pattern(64 << 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_open_connections() {
    let (address, _server) = server(echo).await;
    let proxy = Proxy::start("opaque-drain", Opaque, &[address]);
    let mut caller = TcpStream::connect(proxy.address).await.unwrap();
    caller.write_all(b"x").await.unwrap();
    within("echo", caller.read_exact(&mut [0])).await.unwrap();
    proxy.signal.start(Duration::from_mins(1));
    // Longer than idle connections of HTTP are kept.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    caller.write_all(&pattern(LARGE / 10)).await.unwrap();
    caller.shutdown().await.unwrap();
    assert!(all(&mut caller).await == pattern(LARGE / 10));
    eventually("the workers end", || proxy.workers.as_ref().unwrap().finished()).await;
}
