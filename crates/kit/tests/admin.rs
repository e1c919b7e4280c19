//! The admin server over real sockets.
#![expect(clippy::expect_used, reason = "helpers of tests may fail loudly")]

use http::StatusCode;
use kit::admin::{Admin, Readiness, Route, reply};
use kit::metrics::{Build, Metrics};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Starts a server with one page and one command; returns its address and the count of commands carried out.
async fn start(readiness: Readiness) -> (SocketAddr, Arc<AtomicU32>) {
    let (metrics, recorder) = Metrics::local(Build { program: "test", version: "1.2.3" });
    let count = Arc::new(AtomicU32::new(0));
    let commands = Arc::clone(&count);
    let admin = Admin::new(readiness, metrics, move || {
        metrics::with_local_recorder(&recorder, || {
            metrics::describe_histogram!("tidegate_wait_seconds", "How long");
            metrics::histogram!("tidegate_wait_seconds", "service" => "a\"b").record(0.03);
        });
    })
    .route(Route::get("/debug/x", "shows x", |request| {
        reply::json(
            StatusCode::OK,
            format!("{{\"query\":{:?}}}", request.uri.query().unwrap_or("")),
        )
    }))
    .route(Route::post("/x", "does x", move |_| {
        commands.fetch_add(1, Ordering::Relaxed);
        reply::text(StatusCode::OK, "done\n")
    }));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(admin.serve(listener));
    (address, count)
}

/// Sends raw bytes and returns everything that comes back.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text, then the end");
    answer
}

async fn get(address: SocketAddr, path: &str) -> String {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"),
    )
    .await
}

#[tokio::test]
async fn each_request_gets_the_right_status() {
    let (address, commands) = start(Readiness::waiting("no endpoints yet")).await;
    let cases = [
        ("GET /live", "localhost", "HTTP/1.1 200 OK", "live\n"),
        ("GET /live?x=1", "localhost", "HTTP/1.1 200 OK", "live\n"),
        ("HEAD /live", "localhost", "HTTP/1.1 200 OK", ""),
        (
            "GET /ready",
            "localhost",
            "HTTP/1.1 503 Service Unavailable",
            "not ready: no endpoints yet\n",
        ),
        ("GET /debug/x?y=z", "localhost", "HTTP/1.1 200 OK", "{\"query\":\"y=z\"}"),
        (
            "GET /nothing",
            "localhost",
            "HTTP/1.1 404 Not Found",
            "no such page; / lists what there is\n",
        ),
        ("POST /live", "localhost", "HTTP/1.1 405 Method Not Allowed", "only GET, HEAD here\n"),
        ("DELETE /", "localhost", "HTTP/1.1 405 Method Not Allowed", "only GET, HEAD here\n"),
        ("GET /x", "localhost", "HTTP/1.1 405 Method Not Allowed", "only POST here\n"),
        (
            "POST /x",
            "evil.example",
            "HTTP/1.1 403 Forbidden",
            "open this by IP address or as localhost, not by another name\n",
        ),
        (
            "GET /metrics",
            "evil.example",
            "HTTP/1.1 403 Forbidden",
            "open this by IP address or as localhost, not by another name\n",
        ),
        ("POST /x", "127.0.0.1", "HTTP/1.1 200 OK", "done\n"),
    ];
    for (line, host, status, body) in cases {
        let request = format!(
            "{line} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let answer = exchange(address, &request).await;
        let (head, rest) = answer.split_once("\r\n\r\n").expect("a head");
        assert_eq!(head.lines().next(), Some(status), "{line}");
        assert_eq!(rest, body, "{line}");
        assert_eq!(status.contains("405"), head.contains("\r\nallow: "), "{line}: {head}");
    }
    assert_eq!(commands.load(Ordering::Relaxed), 1, "only the right command was carried out");
}

#[tokio::test]
async fn readiness_is_seen_at_once() {
    let readiness = Readiness::waiting("starting");
    let (address, _) = start(readiness.clone()).await;
    readiness.ready();
    assert!(get(address, "/ready").await.starts_with("HTTP/1.1 200"));
    readiness.not_ready("draining");
    assert!(get(address, "/ready").await.ends_with("not ready: draining\n"));
}

#[tokio::test]
async fn the_front_page_lists_all_pages() {
    let (address, _) = start(Readiness::waiting("")).await;
    let answer = get(address, "/").await;
    for path in ["/live", "/ready", "/metrics", "/debug/x", "POST /x"] {
        assert!(answer.contains(path), "{path} in {answer}");
    }
}

#[tokio::test]
async fn too_large_requests_are_refused_alone() {
    let (address, commands) = start(Readiness::waiting("")).await;
    let request =
        "POST /x HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20000\r\nconnection: close\r\n\r\n";
    let answer = exchange(address, request).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let request =
        format!("GET /live HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    assert!(exchange(address, &request).await.starts_with("HTTP/1.1 431"));
    assert!(get(address, "/live").await.starts_with("HTTP/1.1 200"), "others are served");
    assert_eq!(commands.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn metrics_are_what_prometheus_reads() {
    let (address, _) = start(Readiness::waiting("")).await;
    let answer = get(address, "/metrics").await;
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    for line in [
        "# TYPE tidegate_build_info gauge",
        "tidegate_build_info{program=\"test\",version=\"1.2.3\"} 1",
        "# HELP tidegate_wait_seconds How long",
        "# TYPE tidegate_wait_seconds histogram",
        "tidegate_wait_seconds_bucket{service=\"a\\\"b\",le=\"0.05\"} 1",
        "# TYPE process_cpu_seconds_total counter",
        "# TYPE process_open_fds gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in:\n{text}");
    }
}
