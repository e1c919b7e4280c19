//! HTTP/2 connections to one endpoint: requests share one until its stream limit, then another is opened.

use crate::outbound::body::request::RequestBody;
use crate::outbound::limits;
use crate::overload::Overload;
use crate::upstream::dial::{self, DEAD_AFTER, Target};
use crate::upstream::failure::{self, Failed, Failure};
use crate::upstream::{IDLE_TIME, Reuse};
use crate::worker::LocalExecutor;
use balance::time::Timestamp;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Streams on one connection, whatever its peer allows: with it the connection's window covers all stream windows, so that
/// a caller that does not read its answer cannot stop the others.
const STREAMS_MAX: usize = 128;

/// Window of one stream and of a connection.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 128 * STREAM_WINDOW;

/// Requests that may be taken back on one connection. Endpoints end a connection on which too many are (Envoy after 500 if
/// these are more than half, nghttp2 after 1,000), and with it the requests of callers who did nothing. A connection is retired
/// before, and early enough for all that is still under way on it: that ends there, what is new takes another one.
const CANCELLED_MAX: u32 = 200;

/// Connections per endpoint and worker.
const CONNECTIONS_MAX: usize = 64;

type Conn = Connection<TokioIo<crate::upstream::stream::Counted>, RequestBody, LocalExecutor>;

/// The connections of one worker to one endpoint.
#[derive(Debug)]
pub(crate) struct Pool {
    overload: Arc<Overload>,
    connections: RefCell<Vec<Rc<Shared>>>,
    /// One connection is made at a time; who waits for it uses it.
    dialling: Semaphore,
    /// Rises with each failed attempt to connect: who waited for that attempt shares its fate.
    failures: Cell<u64>,
    /// How the last one failed.
    fate: Cell<Fate>,
    closed: Cell<bool>,
}

/// How an attempt to connect failed, for those who waited for it.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Refused(ErrorKind),
    /// For want of something of ours.
    Local(ErrorKind),
    Silence,
}

#[derive(Debug)]
struct Shared {
    sender: RefCell<SendRequest<RequestBody>>,
    streams: Cell<usize>,
    /// Requests taken back.
    cancelled: Cell<u32>,
    /// What the peer allows, as far as it said.
    allowed: Rc<Cell<usize>>,
    idle_since: Cell<Timestamp>,
}

/// A stream on a shared connection.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Rc<Shared>,
    answered: bool,
}

impl Fate {
    fn of(failure: &Failure) -> Self {
        match failure {
            Failure::Connect { source, .. } => Self::Refused(source.kind()),
            Failure::Local { source, .. } => Self::Local(source.kind()),
            _ => Self::Silence,
        }
    }

    fn failure(self, to: &Target<'_>) -> Failure {
        let address = to.endpoint.address;
        match self {
            Self::Refused(kind) => Failure::Connect { address, source: kind.into() },
            Self::Local(kind) => Failure::Local { address, source: kind.into() },
            Self::Silence => Failure::ConnectTimeout { address, limit: to.connect_timeout },
        }
    }
}

/// Sends a request on a connection that has room for it.
pub(crate) async fn send(
    pool: &Rc<Pool>,
    to: &Target<'_>,
    request: Box<Request<RequestBody>>,
    reuse: Reuse,
) -> Result<(Response<Incoming>, super::Lease), Failed> {
    let shared = if reuse == Reuse::Idle { pool.find() } else { None };
    let lease = match shared {
        Some(lease) => lease,
        None => match Box::pin(pool.connect(to)).await {
            Ok(lease) => lease,
            Err(failure) => return Err(Failed::unsent(failure, request)),
        },
    };
    let sending = lease.shared.sender.borrow_mut().try_send_request(*request);
    match sending.await {
        Ok(response) => Ok((response, super::Lease::Http2(lease))),
        Err(mut failed) => match failed.take_message() {
            Some(request) => Err(Failed::unsent(Failure::Unsent, Box::new(request))),
            None => Err(Failed::sent(blame(failed.into_error()))),
        },
    }
}

fn blame(error: hyper::Error) -> Failure {
    if failure::unprocessed(&error) {
        Failure::Refused(error)
    } else {
        Failure::Broken { error, stale: false }
    }
}

impl Pool {
    pub(crate) fn new(overload: Arc<Overload>) -> Self {
        Self {
            overload,
            connections: RefCell::default(),
            dialling: Semaphore::const_new(1),
            failures: Cell::new(0),
            fate: Cell::new(Fate::Silence),
            closed: Cell::new(false),
        }
    }

    fn find(&self) -> Option<Lease> {
        let connections = self.connections.borrow();
        connections.iter().find(|shared| shared.has_room()).map(Lease::new)
    }

    async fn connect(&self, to: &Target<'_>) -> Result<Lease, Failure> {
        let failures = self.failures.get();
        let _turn = self.dialling.acquire().await.map_err(|_closed| Failure::Full)?;
        if let Some(lease) = self.find() {
            return Ok(lease);
        }
        if self.failures.get() != failures {
            return Err(self.fate.get().failure(to));
        }
        self.connections.borrow_mut().retain(|shared| !shared.is_closed() && !shared.is_retired());
        if self.connections.borrow().len() >= CONNECTIONS_MAX {
            return Err(Failure::Full);
        }
        let shared = match open(to, &self.overload).await {
            Ok(shared) => Rc::new(shared),
            Err(failure) => {
                self.failures.set(failures.wrapping_add(1));
                self.fate.set(Fate::of(&failure));
                return Err(failure);
            }
        };
        let lease = Lease::new(&shared);
        if !self.closed.get() {
            self.connections.borrow_mut().push(shared);
        }
        Ok(lease)
    }

    pub(crate) fn sweep(&self, now: Timestamp) {
        self.connections.borrow_mut().retain(|shared| {
            let idle =
                shared.streams.get() == 0 && now.since(shared.idle_since.get()) >= IDLE_TIME * 10;
            !shared.is_closed() && !shared.is_retired() && !idle
        });
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.connections.borrow_mut().clear();
    }
}

async fn open(to: &Target<'_>, overload: &Arc<Overload>) -> Result<Shared, Failure> {
    let mut stream = dial::connect(to, overload).await?;
    stream.inner_mut().count_frames(to.clock);
    let mut builder = Builder::new(LocalExecutor);
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
        .keep_alive_interval(DEAD_AFTER / 2)
        .keep_alive_timeout(DEAD_AFTER / 2);
    let (sender, connection) =
        builder.handshake(stream).await.map_err(|error| Failure::Broken { error, stale: false })?;
    let allowed = Rc::new(Cell::new(STREAMS_MAX));
    tokio::task::spawn_local(drive(connection, Rc::clone(&allowed)));
    Ok(Shared {
        sender: RefCell::new(sender),
        streams: Cell::new(0),
        cancelled: Cell::new(0),
        allowed,
        idle_since: Cell::new(to.clock.now()),
    })
}

/// Runs a connection and notes what its peer allows.
async fn drive(mut connection: Conn, allowed: Rc<Cell<usize>>) {
    let ended = std::future::poll_fn(|cx| {
        let polled = std::pin::Pin::new(&mut connection).poll(cx);
        allowed.set(connection.current_max_send_streams().min(STREAMS_MAX));
        polled
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "connection to an endpoint ended");
    }
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.sender.borrow().is_closed()
    }

    fn is_retired(&self) -> bool {
        self.cancelled.get() >= CANCELLED_MAX
    }

    fn has_room(&self) -> bool {
        !self.is_retired() && self.streams.get() < self.allowed.get() && !self.is_closed()
    }
}

impl Lease {
    fn new(shared: &Rc<Shared>) -> Self {
        shared.streams.set(shared.streams.get() + 1);
        Self { shared: Rc::clone(shared), answered: false }
    }

    pub(crate) fn release(mut self, now: Timestamp) {
        self.answered = true;
        self.shared.idle_since.set(now);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Shared { streams, cancelled, .. } = &*self.shared;
        streams.set(streams.get().saturating_sub(1));
        cancelled.set(cancelled.get() + u32::from(!self.answered));
    }
}
