//! What bodies hold that nobody takes, where memory is limited.

use super::Limits;
use super::testing::{self, pass};
use crate::overload::Overload;
use crate::worker::roster::Patience;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
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
