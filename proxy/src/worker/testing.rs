//! A worker, its endpoint and its callers on one thread, so that tests can count what the worker allocates and let its time
//! pass as they like. Caller and endpoint allocate nothing.

use super::{Limits, Worker, serve};
use crate::clock::Clock;
use crate::discovery::topology;
use crate::drain::Signal;
use crate::listener;
use crate::registry::Registry;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::JoinHandle;

/// A request, and its answer.
pub(super) const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nhost: web\r\nuser-agent: test\r\naccept: */*\r\n\r\n";
pub(super) const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello";

/// A worker that serves one service.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) worker: Rc<Worker>,
    /// Of its listener.
    pub(super) address: SocketAddr,
    pub(super) signal: Signal,
    /// Ends when the worker does.
    pub(super) serving: JoinHandle<crate::worker::Cut>,
}

pub(super) fn runtime() -> LocalRuntime {
    Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap()
}

/// Starts a worker and an endpoint.
pub(super) async fn start() -> Started {
    let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = endpoint.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        while let Ok((stream, _)) = endpoint.accept().await {
            tokio::task::spawn_local(answer(stream));
        }
    });
    start_before(address, Limits::default())
}

/// Starts a worker before that endpoint.
pub(super) fn start_before(endpoint: SocketAddr, limits: Limits) -> Started {
    let topology = format!(
        "[proxy]\nzone = \"a\"\n[[listener]]\naddress = \"127.0.0.1:0\"\nservice = \"web\"\n\
         [[service]]\nname = \"web\"\n[[service.endpoint]]\naddress = \"{endpoint}\"\nzone = \"a\"\n"
    );
    let world = topology::parse(&topology).unwrap();
    let registry = Arc::new(Registry::new(Clock::start()));
    registry.apply(&world);
    let (addresses, shares) = listener::bind(&world.listeners, 1).unwrap();
    let share = shares.into_iter().next().unwrap();
    let worker = Rc::new(Worker::new(registry, Vec::new(), limits));
    let signal = Signal::default();
    let serving = serve(Rc::clone(&worker), share, signal.clone());
    let serving = tokio::task::spawn_local(serving);
    Started { worker, address: addresses[0], signal, serving }
}

/// Lets time pass that nobody has to wait for.
pub(super) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::sleep(time).await;
    tokio::time::resume();
}

async fn answer(mut stream: TcpStream) {
    let mut read = [0; 1024];
    // Each request arrives whole: it is small, and written at once.
    while stream.read(&mut read).await.is_ok_and(|bytes| bytes > 0) {
        stream.write_all(ANSWER).await.unwrap();
    }
}

/// Sends a request and reads its answer.
pub(super) async fn ask(caller: &mut TcpStream) {
    caller.write_all(REQUEST).await.unwrap();
    hear(caller).await;
}

/// Reads an answer.
pub(super) async fn hear(caller: &mut TcpStream) {
    let mut read = [0; 1024];
    let mut answered = 0;
    while !read[..answered].ends_with(b"hello") {
        let bytes = caller.read(&mut read[answered..]).await.unwrap();
        assert!(bytes > 0, "the proxy closed the connection");
        answered += bytes;
    }
}
