//! Step 1: connections of callers, from accept to close.

mod http1;

use crate::discovery::{EndpointProtocol, ListenerKind};
use crate::inbound;
use crate::listener::Bound;
use crate::metrics::Class;
use crate::metrics::edge::{self, Closed, Peer};
use crate::outbound::detect::{self, Detected, Inbound, Version};
use crate::outbound::resolve::{self, Memo, Route, Target};
use crate::outbound::upgrade::Switch;
use crate::outbound::{limits, opaque, original, shed};
use crate::upstream::stream;
use crate::worker::local::LocalService;
use crate::worker::roster::{Command, Entry};
use crate::worker::{LocalExecutor, Worker};
use balance::time::Timestamp;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept: out of file descriptors, most likely, and the next try would fail as well.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Streams that one HTTP/2 connection of a caller may have open.
const STREAMS_MAX: u32 = 250;

/// Windows of a caller's HTTP/2 connection.
const STREAM_WINDOW: u32 = 128 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// Bodies that a caller's HTTP/2 connection may send at the same time although nobody takes them, each as much as its share.
const BODIES_PER_CONNECTION: usize = 32;

/// A silent HTTP/2 connection is probed after this time, and ended when the probe is not answered in the same time.
const PING_AFTER: Duration = Duration::from_secs(30);

/// A connection of a caller.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) worker: Rc<Worker>,
    /// What says where its requests go.
    pub(crate) target: Target,
    pub(crate) version: Version,
    /// What the last request was resolved to.
    pub(crate) memo: RefCell<Option<Rc<Memo>>>,
    /// What its connection is to become after the answer that is under way.
    switch: RefCell<Option<Switch>>,
    entry: Rc<Entry>,
}

/// Held while a request of the connection is served.
#[derive(Debug)]
pub(crate) struct Busy(Rc<Entry>);

/// Held while a request's body is not at its end.
#[derive(Debug)]
pub(crate) struct Uploading(Rc<Entry>);

/// Accepts connections until the worker closes.
pub(crate) async fn listen(worker: Rc<Worker>, bound: Bound) {
    let listener = match TcpListener::from_std(bound.socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = worker.closing() => return take_last(&worker, listener, &bound.kind),
        };
        match accepted {
            Ok((stream, _peer)) => admit(&worker, stream, &bound.kind),
            Err(error) => {
                worker.accept_failed(&error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes what the kernel has accepted already: closing the socket would reset it.
fn take_last(worker: &Rc<Worker>, listener: TcpListener, kind: &ListenerKind) {
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, _peer)) = listener.accept() {
        match stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream)) {
            Ok(stream) => admit(worker, stream, kind),
            Err(error) => tracing::debug!(%error, "a caller went away at once"),
        }
    }
}

/// Serves a connection if there is room for it.
fn admit(worker: &Rc<Worker>, stream: TcpStream, kind: &ListenerKind) {
    match worker.overload().admit() {
        Some(admission) => {
            let serving = serve(Rc::clone(worker), stream, kind.clone());
            tokio::task::spawn_local(async move {
                serving.await;
                drop(admission);
            });
        }
        None => shed::shed(worker, stream),
    }
}

/// Serves one connection to its end.
async fn serve(worker: Rc<Worker>, stream: TcpStream, kind: ListenerKind) {
    if let Err(error) = stream.set_nodelay(true) {
        return tracing::debug!(%error, "a caller went away at once");
    }
    let target = match target(&worker, &stream, kind) {
        Ok(Some(target)) => target,
        Ok(None) => return stream::reset(&stream),
        Err(error) => return tracing::debug!(%error, "a caller went away at once"),
    };
    let member = worker.roster.join();
    let entry = Rc::clone(&member.entry);
    let mut inbound = Inbound::new(stream, Rc::clone(&entry), Arc::clone(worker.overload()));
    let service = match resolve::connection(&worker, &target).await {
        Some(Route::Passthrough(address)) => {
            return Box::pin(opaque::straight(&worker, &entry, inbound, address)).await;
        }
        Some(Route::Balanced(service)) if is_opaque(&worker, &service, &target) => {
            return Box::pin(opaque::serve(&entry, inbound, &service, None)).await;
        }
        Some(Route::Balanced(service)) => Some(service),
        // Only a request can be told that there is no such service.
        Some(Route::Refused(_)) | None => None,
    };
    let detected = Governed {
        entry: &entry,
        connection: detection(&target, &mut inbound, service.as_ref()),
        drain: |_: Pin<&mut _>| (),
    };
    let version = match (detected.await, service) {
        (Some(Ok(Detected::Http(version))), _) => version,
        (Some(Ok(Detected::Opaque(early))), Some(service)) => {
            return Box::pin(opaque::serve(&entry, inbound, &service, early)).await;
        }
        (Some(Ok(Detected::Opaque(_))), None) => {
            if let Target::Gateway(address) = target {
                return Box::pin(opaque::straight(&worker, &entry, inbound, address)).await;
            }
            tracing::debug!("a connection that is not HTTP names no service");
            worker.unresolved().connected(Class::Rejected);
            return inbound.reset();
        }
        (Some(Err(error)), _) => return tracing::debug!(%error, "a caller went away at once"),
        (None, _) => return,
    };
    serve_http(&worker, target, inbound, version, &entry).await;
}

/// What a connection carries.
async fn detection(
    target: &Target,
    inbound: &mut Inbound,
    service: Option<&Rc<LocalService>>,
) -> std::io::Result<Detected> {
    match (target, service) {
        (Target::Gateway(_), None) => Box::pin(detect::detect_alone(inbound)).await,
        _ => detect::detect(inbound, service).await,
    }
}

/// What says where a connection goes; `None` when it is refused, which is counted.
fn target(
    worker: &Worker,
    stream: &TcpStream,
    kind: ListenerKind,
) -> std::io::Result<Option<Target>> {
    Ok(match kind {
        ListenerKind::Service(name) => Some(Target::Service(name)),
        ListenerKind::Forward => Some(Target::Host),
        ListenerKind::Outbound | ListenerKind::Gateway => match original::destination(stream)? {
            Some(address) if kind == ListenerKind::Gateway => Some(Target::Gateway(address)),
            Some(address) => Some(Target::Address(address)),
            // An application that was told of the proxy names the service itself. Nobody else is served.
            None if original::canonical(stream.peer_addr()?).ip().is_loopback() => {
                Some(Target::Host)
            }
            None => {
                tracing::debug!("a connection to the proxy's own port was refused");
                worker.unresolved().connected(Class::Rejected);
                None
            }
        },
        ListenerKind::Inbound => {
            let original = original::destination(stream)?;
            let is_ours = |ip| worker.ports().is_ours(ip);
            match inbound::judge(original, worker.own_ports(), is_ours) {
                Ok(address) => Some(Target::Application(address)),
                Err(reason) => {
                    let original = original.map(tracing::field::display);
                    tracing::debug!(%reason, original, "a connection from outside was refused");
                    worker.refused().connected(Class::Rejected);
                    None
                }
            }
        }
    })
}

/// Whether the bytes of a connection are not to be looked at.
fn is_opaque(worker: &Worker, service: &LocalService, target: &Target) -> bool {
    match service.setting(|settings| settings.protocol) {
        EndpointProtocol::Opaque => true,
        EndpointProtocol::Http1 | EndpointProtocol::Http2 => false,
        EndpointProtocol::Detect => match target {
            Target::Address(address) | Target::Gateway(address) | Target::Application(address) => {
                worker.registry().is_opaque(address.port())
            }
            Target::Service(_) | Target::Host => false,
        },
    }
}

async fn serve_http(
    worker: &Rc<Worker>,
    target: Target,
    inbound: Inbound,
    version: Version,
    entry: &Rc<Entry>,
) {
    entry.speaks(version);
    let caller = Caller {
        worker: Rc::clone(worker),
        target,
        version,
        memo: RefCell::new(None),
        switch: RefCell::new(None),
        entry: Rc::clone(entry),
    };
    let caller = Rc::new(caller);
    let ended = match version {
        Version::Http1 => http1::serve(entry, inbound, caller).await,
        // On the heap, since all connections would be as large.
        Version::Http2 => Box::pin(serve_http2(entry, inbound, caller)).await,
    };
    match ended {
        Some(Err(error)) => {
            if error.is_parse() {
                edge::closed(Peer::Caller, Closed::BadMessage);
            }
            tracing::debug!(%error, "a caller's connection failed");
        }
        Some(Ok(())) => {}
        None => tracing::debug!("a caller's connection was idle or slow for too long"),
    }
}

async fn serve_http2(
    entry: &Rc<Entry>,
    mut io: Inbound,
    caller: Rc<Caller>,
) -> Option<hyper::Result<()>> {
    io.count_frames(caller.worker.clock());
    let share = caller.worker.overload().share();
    // On the heap, since the library copies what serves a stream several times.
    let service = service_fn(move |request| Box::pin(handle(Rc::clone(&caller), request)));
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(limits::HEADER_LIST_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(connection_window(share))
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_AFTER);
    let connection = builder.serve_connection(TokioIo::new(io), service);
    Governed { entry, connection, drain: http2::Connection::graceful_shutdown }.await
}

/// What a connection may send that nobody has taken yet, where each body has this share.
fn connection_window(share: usize) -> u32 {
    let window = share.saturating_mul(BODIES_PER_CONNECTION);
    u32::try_from(window).unwrap_or(u32::MAX).min(CONNECTION_WINDOW)
}

/// The connection is busy from the moment of the call on, which is before anything more is read.
fn handle(
    caller: Rc<Caller>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<http::Response<super::body::response::ResponseBody>, Infallible>> {
    let busy = caller.busy();
    async move {
        let response = super::answer(&caller, request).await;
        Ok(response.map(|body| body.keeping(busy)))
    }
}

impl Caller {
    /// A request with a body is served. Streams of HTTP/2 may be silent for as long as they like.
    pub(crate) fn uploads(&self) -> Option<Uploading> {
        (self.version == Version::Http1).then(|| {
            self.entry.upload_began();
            Uploading(Rc::clone(&self.entry))
        })
    }

    /// A request's head has arrived at this time.
    pub(crate) fn asked(&self, now: Timestamp) {
        self.entry.asked(now);
    }

    /// After the answer under way, its connection is to become something else.
    pub(crate) fn switch(&self, switch: Switch) {
        *self.switch.borrow_mut() = Some(switch);
    }

    fn busy(&self) -> Busy {
        self.entry.request_began();
        Busy(Rc::clone(&self.entry))
    }
}

impl Uploading {
    /// Whether an endpoint waits for more of it.
    pub(crate) fn is_awaited(&self, waits: bool) {
        self.0.waits_for_body(waits);
    }
}

impl Drop for Uploading {
    fn drop(&mut self) {
        self.0.upload_ended();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.request_ended();
    }
}

pin_project_lite::pin_project! {
    /// A connection that may be told from outside to drain or to end. `None` when it was told to end.
    pub(crate) struct Governed<'a, C, D> {
        pub(crate) entry: &'a Entry,
        #[pin]
        pub(crate) connection: C,
        pub(crate) drain: D,
    }
}

impl<C: Future, D: Fn(Pin<&mut C>)> Future for Governed<'_, C, D> {
    type Output = Option<C::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        match this.entry.command(cx.waker()) {
            Some(Command::Close) => return Poll::Ready(None),
            Some(Command::Drain) => (this.drain)(this.connection.as_mut()),
            // Only HTTP/1 knows how to.
            Some(Command::Rest) | None => {}
        }
        this.connection.poll(cx).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request holds while it waits. It is copied a few times at its start, and each stream of an HTTP/2 connection
    /// has one of its own.
    #[test]
    fn the_future_of_a_request_is_small() {
        fn size<A, B, F>(_: fn(A, B) -> F) -> usize {
            size_of::<F>()
        }
        let size = size(handle);
        assert!(size <= 2400, "{size} bytes");
    }
}
