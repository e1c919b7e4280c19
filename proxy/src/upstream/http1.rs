//! HTTP/1.1 connections to one endpoint: one request at a time each, kept for the next one.

use crate::outbound::body::request::{RequestBody, Upload};
use crate::outbound::limits;
use crate::overload::Overload;
use crate::upstream::dial::{self, Target};
use crate::upstream::failure::{self, Failed, Failure};
use crate::upstream::{IDLE_TIME, Reuse};
use balance::time::Timestamp;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Idle connections kept per endpoint and worker. As many as a busy worker has requests under way to one endpoint, so that
/// a steady load opens no connections; they cost about 10 KiB each.
const IDLE_MAX: usize = 512;

/// How long the rest of a request whose answer is complete may stand still before it is given up.
const SETTLE: Duration = Duration::from_secs(1);

/// The idle connections of one worker to one endpoint.
#[derive(Debug)]
pub(crate) struct Pool {
    overload: Arc<Overload>,
    /// The last used one is at the end and is taken first, so that spare ones grow old.
    idle: RefCell<Vec<Idle>>,
    closed: Cell<bool>,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<RequestBody>,
    since: Timestamp,
}

/// A connection that is serving a request.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Rc<Pool>,
    sender: SendRequest<RequestBody>,
}

/// Sends a request on an idle connection or a new one.
pub(crate) async fn send(
    pool: &Rc<Pool>,
    to: &Target<'_>,
    request: Box<Request<RequestBody>>,
    reuse: Reuse,
) -> Result<(Response<Incoming>, super::Lease), Failed> {
    let idle = if reuse == Reuse::Idle { pool.take() } else { None };
    let reused = idle.is_some();
    let mut sender = match idle {
        Some(sender) => sender,
        None => match Box::pin(connect(to, &pool.overload)).await {
            Ok(sender) => sender,
            Err(failure) => {
                if matches!(failure, Failure::ConnectTimeout { .. }) {
                    // What stands open from before leads nowhere either.
                    pool.idle.borrow_mut().clear();
                }
                return Err(Failed::unsent(failure, request));
            }
        },
    };
    match sender.try_send_request(*request).await {
        Ok(response) => {
            Ok((response, super::Lease::Http1(Lease { pool: Rc::clone(pool), sender })))
        }
        Err(mut failed) => match failed.take_message() {
            Some(request) => Err(Failed::unsent(Failure::Unsent, Box::new(request))),
            None => Err(Failed::sent(broken(failed.into_error(), reused))),
        },
    }
}

fn broken(error: hyper::Error, reused: bool) -> Failure {
    let stale = reused && !failure::is_unanswered(&error);
    Failure::Broken { error, stale }
}

async fn connect(
    to: &Target<'_>,
    overload: &Arc<Overload>,
) -> Result<SendRequest<RequestBody>, Failure> {
    let stream = dial::connect(to, overload).await?;
    let mut builder = Builder::new();
    builder
        .max_headers(limits::FIELDS_MAX)
        .max_header_size(limits::HEADER_BYTES_MAX)
        .max_buf_size(limits::BUFFER_BYTES_MAX);
    let (sender, connection) =
        builder.handshake(stream).await.map_err(|error| Failure::Broken { error, stale: false })?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "connection to an endpoint ended");
        }
    });
    Ok(sender)
}

impl Pool {
    pub(crate) fn new(overload: Arc<Overload>) -> Self {
        Self { overload, idle: RefCell::default(), closed: Cell::default() }
    }

    fn take(&self) -> Option<SendRequest<RequestBody>> {
        let mut idle = self.idle.borrow_mut();
        loop {
            let candidate = idle.pop()?;
            if candidate.sender.is_ready() {
                return Some(candidate.sender);
            }
        }
    }

    fn put(&self, sender: SendRequest<RequestBody>, since: Timestamp) {
        let mut idle = self.idle.borrow_mut();
        if !self.closed.get() && idle.len() < IDLE_MAX {
            idle.push(Idle { sender, since });
        }
    }

    pub(crate) fn sweep(&self, now: Timestamp) {
        self.idle
            .borrow_mut()
            .retain(|idle| !idle.sender.is_closed() && now.since(idle.since) < IDLE_TIME);
    }

    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.idle.borrow_mut().clear();
    }
}

/// Waits until a request whose answer is complete has been sent, for as long as its body moves. An endpoint that answers
/// early and reads on gets all of it; one that does not read would hold the caller for ever.
async fn settle(
    pool: Rc<Pool>,
    mut sender: SendRequest<RequestBody>,
    now: Timestamp,
    upload: Upload,
) {
    loop {
        let before = upload.passed();
        match tokio::time::timeout(SETTLE, sender.ready()).await {
            Ok(Ok(())) => return pool.put(sender, now),
            Ok(Err(_closed)) => return,
            Err(_elapsed) if upload.passed() == before => return upload.abandon(),
            Err(_elapsed) => {}
        }
    }
}

impl Lease {
    /// Keeps the connection for the next request, at once when it is ready, else as soon as it is.
    pub(crate) fn release(self, now: Timestamp, upload: &Upload) {
        let Self { pool, sender } = self;
        if sender.is_ready() {
            pool.put(sender, now);
        } else if upload.is_held() {
            // The caller was never asked for the body, and nothing else can end this request.
            upload.abandon();
        } else if !sender.is_closed() {
            tokio::task::spawn_local(settle(pool, sender, now, upload.clone()));
        }
    }
}
