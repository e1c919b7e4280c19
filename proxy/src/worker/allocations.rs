//! Counts the allocations of a request. Caller, proxy and endpoint share one thread here, and caller and endpoint allocate
//! nothing, so that what is counted is the proxy's.

use super::{Limits, serve};
use crate::clock::Clock;
use crate::discovery::topology;
use crate::drain::Signal;
use crate::listener;
use crate::registry::Registry;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: web\r\nuser-agent: test\r\naccept: */*\r\n\r\n";
const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello";

/// Requests between two looks at the counter.
const REQUESTS: u64 = 1000;

/// What a request allocates: four tables of the HTTP library's parser, which has room for 100 fields without; the request's
/// head and its copy for a retry; what the library hands it over with, and the maps of its header fields.
const EACH: u64 = 12;

#[test]
fn a_request_allocates_little() {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.unwrap();
    let mut caller = runtime.block_on(async {
        let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = start_proxy(endpoint.local_addr().unwrap());
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = endpoint.accept().await {
                tokio::task::spawn_local(answer(stream));
            }
        });
        TcpStream::connect(proxy).await.unwrap()
    });
    // Connections, pools and tables are made first.
    runtime.block_on(ask(&mut caller, REQUESTS));
    let counted =
        allocation_counter::measure(|| runtime.block_on(ask(&mut caller, REQUESTS))).count_total;
    let each = counted as f64 / REQUESTS as f64;
    // A buffer that grows now and then is no matter.
    assert!(counted < EACH * REQUESTS + REQUESTS / 10, "{each} allocations a request");
}

fn start_proxy(endpoint: SocketAddr) -> SocketAddr {
    let topology = format!(
        "[proxy]\nzone = \"a\"\n[[listener]]\naddress = \"127.0.0.1:0\"\nservice = \"web\"\n\
         [[service]]\nname = \"web\"\n[[service.endpoint]]\naddress = \"{endpoint}\"\nzone = \"a\"\n"
    );
    let world = topology::parse(&topology).unwrap();
    let registry = Arc::new(Registry::new(Clock::start()));
    registry.apply(&world);
    let (addresses, shares) = listener::bind(&world.listeners, 1).unwrap();
    let share = shares.into_iter().next().unwrap();
    tokio::task::spawn_local(serve(
        registry,
        share,
        Vec::new(),
        Signal::default(),
        Limits::default(),
    ));
    addresses[0]
}

async fn answer(mut stream: TcpStream) {
    let mut read = [0; 1024];
    // Each request arrives whole: it is small, and written at once.
    while stream.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {
        stream.write_all(ANSWER).await.unwrap();
    }
}

async fn ask(caller: &mut TcpStream, requests: u64) {
    let mut read = [0; 1024];
    for _ in 0..requests {
        caller.write_all(REQUEST).await.unwrap();
        let mut answered = 0;
        while !read[..answered].ends_with(b"hello") {
            let bytes = caller.read(&mut read[answered..]).await.unwrap();
            assert!(bytes > 0, "the proxy closed the connection");
            answered += bytes;
        }
    }
}
