//! Connections without a request give back what they hold, and nothing else changes for their callers.

use super::Limits;
use super::testing::{self, REQUEST, Started, ask, hear, pass, runtime};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// In this time every idle connection has been told to rest, and none was idle for too long.
const A_WHILE: Duration = Duration::from_secs(3);

/// A connection at rest.
async fn at_rest(started: &Started) -> TcpStream {
    let mut caller = TcpStream::connect(started.address).await.unwrap();
    ask(&mut caller).await;
    pass(A_WHILE).await;
    assert_eq!(started.worker.roster.resting(), 1);
    caller
}

async fn is_closed(caller: &mut TcpStream) -> bool {
    caller.read(&mut [0; 16]).await.unwrap() == 0
}

#[test]
fn a_connection_at_rest_holds_little() {
    const CALLERS: u8 = 50;
    /// The future of a connection, its place in the roster, and the caller's own socket.
    const EACH_MAX: i64 = 8 * 1024;
    let runtime = runtime();
    let started = runtime.block_on(testing::start());
    let serve = async || {
        let mut callers = Vec::with_capacity(CALLERS.into());
        for _ in 0..CALLERS {
            callers.push(TcpStream::connect(started.address).await.unwrap());
            ask(callers.last_mut().unwrap()).await;
        }
        // Connections to the endpoint are closed in this time as well.
        pass(3 * A_WHILE).await;
        callers
    };
    // Tables grow first.
    drop(runtime.block_on(serve()));
    runtime.block_on(pass(A_WHILE));
    let mut callers = Vec::new();
    let held = allocation_counter::measure(|| callers = runtime.block_on(serve()));
    assert_eq!(started.worker.roster.resting(), usize::from(CALLERS));
    let each = held.bytes_current / i64::from(CALLERS);
    println!("{each} bytes each");
    assert!(each <= EACH_MAX, "{each} bytes each");
}

#[test]
fn a_caller_notices_nothing() {
    runtime().block_on(async {
        let started = testing::start().await;
        let mut caller = at_rest(&started).await;
        for _ in 0..2 {
            ask(&mut caller).await;
            ask(&mut caller).await;
            assert_eq!(started.worker.roster.resting(), 0);
            pass(A_WHILE).await;
            assert_eq!(started.worker.roster.resting(), 1);
        }
        caller.write_all(&REQUEST.repeat(2)).await.unwrap();
        hear(&mut caller).await;
        hear(&mut caller).await;
    });
}

#[test]
fn the_beginning_of_the_next_request_is_kept() {
    runtime().block_on(async {
        let started = testing::start().await;
        let (begin, rest) = REQUEST.split_at(20);
        let mut caller = TcpStream::connect(started.address).await.unwrap();
        caller.write_all(&[REQUEST, begin].concat()).await.unwrap();
        hear(&mut caller).await;
        pass(A_WHILE).await;
        assert_eq!(started.worker.roster.resting(), 0, "a request is on its way");
        caller.write_all(rest).await.unwrap();
        hear(&mut caller).await;
        caller.write_all(&[REQUEST, begin].concat()).await.unwrap();
        hear(&mut caller).await;
        let patience = started.worker.roster.patience();
        pass(A_WHILE + patience.header).await;
        assert!(is_closed(&mut caller).await, "it took too long");
    });
}

#[test]
fn a_connection_at_rest_ends_like_any_other() {
    runtime().block_on(async {
        let started = testing::start().await;
        let patience = started.worker.roster.patience();
        let mut caller = at_rest(&started).await;
        caller.shutdown().await.unwrap();
        assert!(is_closed(&mut caller).await, "the caller has closed");

        let mut caller = at_rest(&started).await;
        caller.write_all(&REQUEST[..20]).await.unwrap();
        pass(patience.header + A_WHILE).await;
        assert!(is_closed(&mut caller).await, "its header took too long");

        let mut caller = at_rest(&started).await;
        pass(patience.idle).await;
        assert!(is_closed(&mut caller).await, "it was idle for too long");

        let mut caller = at_rest(&started).await;
        started.worker.roster.close_idle();
        assert!(is_closed(&mut caller).await, "memory was short");

        let mut caller = at_rest(&started).await;
        started.signal.start(Duration::from_mins(1));
        pass(A_WHILE).await;
        assert!(is_closed(&mut caller).await, "the worker drains");
        started.serving.await.unwrap();
    });
}

#[test]
fn a_body_that_goes_on_after_its_answer_is_neither_rest_nor_a_slow_header() {
    const PIECES: u32 = 40;
    const BETWEEN: Duration = Duration::from_millis(500);
    runtime().block_on(async {
        let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started = testing::start_before(endpoint.local_addr().unwrap(), Limits::default());
        assert!(BETWEEN * PIECES > started.worker.roster.patience().header);
        let (arrived, mut pieces) = tokio::sync::mpsc::channel(1);
        tokio::task::spawn_local(async move {
            let (mut stream, _) = endpoint.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut read).await.unwrap();
            }
            stream.write_all(testing::ANSWER).await.unwrap();
            while let Ok(piece) = stream.read_u8().await {
                arrived.send(piece).await.unwrap();
            }
        });
        let mut caller = TcpStream::connect(started.address).await.unwrap();
        let head = format!("POST / HTTP/1.1\r\nhost: web\r\ncontent-length: {PIECES}\r\n\r\n");
        caller.write_all(head.as_bytes()).await.unwrap();
        hear(&mut caller).await;
        for _ in 0..PIECES {
            pass(BETWEEN).await;
            assert_eq!(started.worker.roster.resting(), 0);
            caller.write_all(b"x").await.unwrap();
            assert_eq!(pieces.recv().await, Some(b'x'));
        }
    });
}
