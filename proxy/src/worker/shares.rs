//! What callers hold where memory is limited: bodies that nobody takes, and headers.

use super::Limits;
use super::testing::{self, pass};
use crate::overload::Overload;
use crate::worker::roster::Patience;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// More than all sockets on the way hold.
const BODY: &[u8] = &[b'x'; 1 << 20];
const BODIES: usize = 32;

const CALLERS: u8 = 20;

/// Less than four buffers of the HTTP library and six more of which nothing is used: two connections, two pieces of a body.
const EACH_MAX: i64 = 72 * 1024;

/// Which way a body goes that nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToEndpoint,
    ToCaller,
}

#[test]
fn a_body_that_nobody_takes_holds_its_share_and_no_more() {
    for way in [Way::ToEndpoint, Way::ToCaller] {
        let runtime = testing::runtime();
        let mut callers = Vec::new();
        let held = allocation_counter::measure(|| callers = runtime.block_on(stuck(way)));
        let each = held.bytes_current / i64::from(CALLERS);
        println!("{way:?}: {each} bytes each");
        assert!(each <= EACH_MAX, "{way:?}: {each} bytes each");
    }
}

#[test]
fn while_memory_is_short_only_small_headers_are_read() {
    testing::runtime().block_on(async {
        let overload = Arc::new(Overload::new(None, Some(1 << 20)));
        let limits = Limits { patience: Patience::default(), overload: Arc::clone(&overload) };
        // No request gets as far as to an endpoint.
        let started = testing::start_before("127.0.0.1:9".parse().unwrap(), limits);
        let mut large = TcpStream::connect(started.address).await.unwrap();
        let mut small = TcpStream::connect(started.address).await.unwrap();
        small.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        large.write_all(b"GET / HTTP/1.1\r\nlarge: ").await.unwrap();
        // They are let in first.
        pass(Duration::from_millis(100)).await;
        overload.press();
        large.write_all(&BODY[..32 * 1024]).await.unwrap();
        let mut answer = [0; 1024];
        // Over bytes that are not read, the kernel resets it.
        assert_eq!(large.read(&mut answer).await.unwrap_or(0), 0);
        small.write_all(b"host: web\r\n\r\n").await.unwrap();
        let length = small.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("tidegate-reason: overloaded"), "{answer}");
    });
}

/// As much as goes of such bodies, and who holds their other ends.
async fn stuck(way: Way) -> Vec<TcpStream> {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = endpoint.local_addr().unwrap();
    let moved = Rc::new(Cell::new(0));
    let counted = Rc::clone(&moved);
    tokio::task::spawn_local(async move {
        let mut streams = Vec::new();
        while let Ok((stream, _)) = endpoint.accept().await {
            match way {
                Way::ToEndpoint => streams.push(stream),
                Way::ToCaller => drop(tokio::task::spawn_local(send(
                    stream,
                    "HTTP/1.1 200 OK",
                    Rc::clone(&counted),
                ))),
            }
        }
    });
    // So little that each body has the smallest share.
    let overload = Arc::new(Overload::new(None, Some(1 << 20)));
    let started =
        testing::start_before(address, Limits { patience: Patience::default(), overload });
    let callers = open(way, started.address, &moved).await;
    let mut before = None;
    while before != Some(moved.get()) {
        before = Some(moved.get());
        pass(Duration::from_millis(500)).await;
    }
    callers
}

async fn open(way: Way, proxy: SocketAddr, moved: &Rc<Cell<usize>>) -> Vec<TcpStream> {
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let mut caller = TcpStream::connect(proxy).await.unwrap();
        match way {
            Way::ToEndpoint => drop(tokio::task::spawn_local(send(
                caller,
                "POST / HTTP/1.1\r\nhost: web",
                Rc::clone(moved),
            ))),
            Way::ToCaller => {
                caller.write_all(testing::REQUEST).await.unwrap();
                callers.push(caller);
            }
        }
    }
    callers
}

/// Sends a message with a large body for as long as it goes.
async fn send(mut stream: TcpStream, start: &'static str, moved: Rc<Cell<usize>>) {
    let head = format!("{start}\r\ncontent-length: {}\r\n\r\n", BODY.len() * BODIES);
    stream.write_all(head.as_bytes()).await.unwrap();
    for mut rest in [BODY; BODIES] {
        while !rest.is_empty() {
            // The proxy goes at the end of the test.
            let Ok(written) = stream.write(rest).await else { return };
            moved.set(moved.get() + written);
            rest = &rest[written..];
        }
    }
    panic!("all of it was taken");
}
