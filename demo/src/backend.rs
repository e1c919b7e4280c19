//! A scripted server: HTTP/1.1 and HTTP/2 (prior knowledge), whose behaviour is switched over HTTP while it runs.
//!
//! Every path but `/_control` is answered as the current [`Behaviour`] says. See [`control`] for the switch.

pub(crate) mod behaviour;
mod control;
mod latency;

pub(crate) use latency::Latency;

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use behaviour::{Behaviour, Plan};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::clock::Deadline;

/// Arguments of `demo backend`.
#[derive(Debug, clap::Args)]
pub(crate) struct BackendArguments {
    /// Address to listen on; port 0 takes a free one, the address is printed
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Zone that answers name in their `x-zone` header
    #[arg(long, default_value = "a")]
    pub(crate) zone: String,
    #[command(flatten)]
    pub(crate) behaviour: Behaviour,
    /// End when standard input ends, so that it never outlives the process that started it
    #[arg(long, hide = true)]
    pub(crate) exit_with_stdin: bool,
}

/// Serves until crashed over HTTP, interrupted, or (on request) until standard input ends.
pub(crate) async fn serve(arguments: BackendArguments) -> anyhow::Result<()> {
    let backend = Backend::bind(arguments.listen, arguments.zone, arguments.behaviour).await?;
    writeln!(std::io::stdout(), "listening on {}", backend.address())
        .context("cannot write to standard output")?;
    let stdin_ended = crate::children::stdin_ended(arguments.exit_with_stdin);
    tokio::select! {
        () = backend.run() => anyhow::bail!("crashed, as asked over HTTP"),
        () = stdin_ended => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.context("cannot wait for Ctrl-C"),
    }
}

/// A bound backend, not yet serving.
#[derive(Debug)]
pub(crate) struct Backend {
    listener: TcpListener,
    state: Arc<State>,
}

/// What the connections of one backend share.
#[derive(Debug)]
pub(crate) struct State {
    address: SocketAddr,
    zone: String,
    at_start: Behaviour,
    behaviour: Mutex<Behaviour>,
    random: Mutex<fastrand::Rng>,
    counts: Counts,
    crash: Notify,
}

/// Requests by what became of them; control requests are not among them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    requests: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
}

/// A backend that was killed a moment ago may still hold its port.
const BIND_PATIENCE: Duration = Duration::from_secs(3);

impl Backend {
    /// Listens on `address`, trying again for three seconds while it is in use.
    pub(crate) async fn bind(
        address: SocketAddr,
        zone: String,
        behaviour: Behaviour,
    ) -> anyhow::Result<Self> {
        let deadline = Deadline::within(BIND_PATIENCE);
        let listener = loop {
            match TcpListener::bind(address).await {
                Ok(listener) => break listener,
                Err(_) if !deadline.is_over() => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot listen on {address}"));
                }
            }
        };
        let state = State {
            address: listener.local_addr()?,
            zone,
            at_start: behaviour.clone(),
            behaviour: Mutex::new(behaviour),
            random: Mutex::new(fastrand::Rng::new()),
            counts: Counts::default(),
            crash: Notify::new(),
        };
        Ok(Self { listener, state: Arc::new(state) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.state.address
    }

    /// Serves until it is crashed over HTTP.
    pub(crate) async fn run(self) {
        tokio::select! {
            () = accept(&self.listener, &self.state) => {},
            () = self.state.crash.notified() => {},
        }
    }
}

async fn accept(listener: &TcpListener, state: &Arc<State>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, Arc::clone(state)))),
            // Out of file descriptors: the next connection that closes gives one back.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, state: Arc<State>) {
    if stream.set_nodelay(true).is_err() {
        return; // closed already
    }
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(&state, request).await) }
    });
    let server = auto::Builder::new(TokioExecutor::new());
    // How a connection ends is the caller's business: resets are what happens when it gives up.
    drop(server.serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(state: &State, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.uri().path() == "/_control" {
        return control::answer(state, &request);
    }
    let pending = Pending::begin(&state.counts);
    let plan = state.behaviour.lock().plan(&mut state.random.lock());
    let response = match plan {
        Plan::Hang => std::future::pending().await,
        Plan::Answer { after, status, body_bytes } => {
            drain(request.into_body()).await;
            tokio::time::sleep(after).await;
            respond(state, status, body_bytes)
        }
    };
    pending.settle(response.status());
    response
}

/// Reads the request's body to its end, so that the connection can be used again.
async fn drain(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

fn respond(state: &State, status: StatusCode, body_bytes: usize) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(vec![b'.'; body_bytes])));
    *response.status_mut() = status;
    if let Ok(zone) = state.zone.parse() {
        response.headers_mut().insert("x-zone", zone);
    }
    response
}

/// A request that is counted as given up by its caller unless it is settled.
struct Pending<'a> {
    counts: &'a Counts,
    settled: bool,
}

impl<'a> Pending<'a> {
    fn begin(counts: &'a Counts) -> Self {
        counts.requests.fetch_add(1, Ordering::Relaxed);
        Self { counts, settled: false }
    }

    fn settle(mut self, status: StatusCode) {
        let counter = if status.is_success() { &self.counts.answered } else { &self.counts.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        self.settled = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.counts.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
