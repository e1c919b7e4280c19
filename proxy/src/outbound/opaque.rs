//! Connections that are not HTTP: their bytes are not looked at, and each is balanced as a whole by the service's rules.
//!
//! ```text
//! pick ─ dial ─┬─ join bytes both ways ─ record
//!   ▲          │
//!   └─ retry ◀─┘
//! ```
//!
//! What the balancer learns: that a connection came about is a success, that none did is a failure, which is tried again on
//! another endpoint. A connection that its endpoint resets before it sent a byte, or whose endpoint stopped answering, turns
//! the success into a failure. A later reset is counted but not held against the endpoint: it may be its answer to what the
//! caller sent. How long anything takes teaches nothing; open connections count when candidates are compared.

use crate::metrics::{Class, Open, ZoneMetrics};
use crate::outbound::accept::Governed;
use crate::outbound::classify::Reached;
use crate::outbound::detect::Inbound;
use crate::outbound::retry::Tried;
use crate::tunnel::{self, Broken, First, Side};
use crate::upstream::dial::{self, Target};
use crate::upstream::failure::Failure;
use crate::upstream::stream::Counted;
use crate::worker::Worker;
use crate::worker::local::{LocalEndpoint, LocalService};
use crate::worker::roster::Entry;
use balance::balancer::{Connection, Outcome, Pick, Served, Ticket};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Picks before a connection is given up because what was picked is gone.
const PICKS_MAX: usize = 3;

/// A connection to an endpoint.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: Counted,
    stay: Stay,
}

/// Serves a connection to its end. `early` was made while it was found out what the caller speaks.
pub(crate) async fn serve(
    entry: &Entry,
    mut caller: Inbound,
    service: &Rc<LocalService>,
    early: Option<Link>,
) {
    let link = match early {
        Some(link) => link,
        None => match connect(service).await {
            Ok(link) => link,
            Err(Missed { metrics, class }) => {
                metrics.connected(class);
                // The caller sees what it would see without us: no connection.
                return caller.reset();
            }
        },
    };
    let Link { mut stream, mut stay } = link;
    stay.used();
    let ended = join(entry, &mut caller, &mut stream, First::default()).await;
    let (class, outcome) = judge(ended.as_ref(), stream.has_received());
    stay.end(class, outcome);
    pass_on(ended, &caller, &stream);
}

/// Serves a connection to an address that belongs to no service.
pub(crate) async fn straight(
    worker: &Worker,
    entry: &Entry,
    mut caller: Inbound,
    address: SocketAddr,
) {
    let metrics = worker.unresolved();
    let mut stream = match dial::straight(address, metrics.bytes()).await {
        Ok(stream) => stream,
        Err(failure) => {
            tracing::debug!(%failure, "no connection");
            metrics.connected(Class::Failure);
            return caller.reset();
        }
    };
    let _open = metrics.connection_opened();
    let ended = join(entry, &mut caller, &mut stream, First::default()).await;
    metrics.connected(judge(ended.as_ref(), stream.has_received()).0);
    pass_on(ended, &caller, &stream);
}

/// Moves the bytes. `None` when the connection was told to end: half-closed and silent for too long.
pub(crate) async fn join(
    entry: &Entry,
    caller: &mut Inbound,
    stream: &mut Counted,
    first: First,
) -> Option<Result<(), Broken>> {
    entry.is_opaque();
    let connection = tunnel::join(caller, stream, first, entry);
    // A drain waits for it: nothing tells its two ends to come to one.
    Governed { entry, connection, drain: |_: Pin<&mut _>| () }.await
}

/// What an end says, to those who count and to the balancer.
pub(crate) fn judge(ended: Option<&Result<(), Broken>>, answered: bool) -> (Class, Outcome) {
    match ended {
        None | Some(Ok(())) => (Class::Success, Outcome::Success),
        Some(Err(Broken { side: Side::Caller, .. })) => (Class::Cancelled, Outcome::Success),
        Some(Err(Broken { side: Side::Endpoint, error })) => {
            let dead = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::HostUnreachable);
            (Class::Failure, if dead || !answered { Outcome::Failure } else { Outcome::Success })
        }
    }
}

/// A reset of one end is a reset for the other.
pub(crate) fn pass_on(ended: Option<Result<(), Broken>>, caller: &Inbound, stream: &Counted) {
    match ended {
        None | Some(Ok(())) => {}
        Some(Err(broken)) => {
            tracing::debug!(%broken, "a connection was cut");
            match broken.side {
                Side::Caller => stream.reset(),
                Side::Endpoint => caller.reset(),
            }
        }
    }
}

/// No connection came about.
#[derive(Debug)]
pub(crate) struct Missed {
    /// Where that is to be counted, and as what.
    metrics: Arc<ZoneMetrics>,
    class: Class,
}

/// Connects to an endpoint of the service, to another one if that fails.
pub(crate) async fn connect(service: &Rc<LocalService>) -> Result<Link, Missed> {
    let shared = service.shared();
    let (rule, timeout) = service.setting(|settings| (settings.retry, settings.timeout.connect));
    let mut pick = shared.pick_connection(service.clock().now());
    let mut tried = Tried::default();
    loop {
        let Some(dialling) = pick.take().and_then(|pick| Dialling::begin(service, pick)) else {
            return Err(Missed { metrics: service.nowhere(), class: Class::Rejected });
        };
        let to = Target {
            endpoint: dialling.endpoint.shared(),
            connect_timeout: timeout,
            clock: service.clock(),
        };
        let failure = match dial::open(&to).await {
            Ok(stream) => return Ok(Link { stream, stay: dialling.connected() }),
            Err(failure) => failure,
        };
        let endpoint = Rc::clone(&dialling.endpoint);
        tracing::debug!(%failure, "no connection");
        if failure.is_local() {
            return Err(Missed { metrics: service.nowhere(), class: Class::Rejected });
        }
        let refused = matches!(failure, Failure::Connect { .. });
        let reached = if refused { Reached::Nothing } else { Reached::Nobody };
        let failed = dialling.failed();
        if tried.failed(endpoint.shared().key(), reached, rule) && rule.on_connect {
            let now = service.clock().now();
            pick = failed.and_then(|failed| shared.pick_again(tried.again(failed), now).ok());
        }
        if pick.is_none() {
            let metrics = Arc::clone(&endpoint.shared().zone);
            return Err(Missed { metrics, class: Class::Failure });
        }
    }
}

/// An endpoint that is being dialled. Given up when dropped: the caller went away.
#[derive(Debug)]
struct Dialling {
    service: Rc<LocalService>,
    endpoint: Rc<LocalEndpoint>,
    ticket: Option<Ticket>,
}

impl Dialling {
    /// `None` when picks are of endpoints that are gone.
    fn begin(service: &Rc<LocalService>, first: Pick) -> Option<Self> {
        let shared = service.shared();
        let mut pick = Some(first);
        for _ in 0..PICKS_MAX {
            let Pick { endpoint, locality, reason, would, ticket } = pick?;
            if let Some(endpoint) = service.endpoint(endpoint) {
                shared.metrics().picked(locality, reason);
                if let Some((locality, reason)) = would {
                    shared.metrics().would_pick(locality, reason);
                }
                endpoint.shared().counts.picked();
                return Some(Self { service: Rc::clone(service), endpoint, ticket: Some(ticket) });
            }
            let now = service.clock().now();
            shared.cancelled(ticket, now);
            pick = shared.pick_connection(now);
        }
        if let Some(pick) = pick {
            shared.cancelled(pick.ticket, service.clock().now());
        }
        None
    }

    fn connected(mut self) -> Stay {
        let now = self.service.clock().now();
        let connection =
            self.ticket.take().map(|ticket| self.service.shared().connected(ticket, now));
        Stay {
            service: Rc::clone(&self.service),
            endpoint: Rc::clone(&self.endpoint),
            connection,
            open: None,
        }
    }

    fn failed(mut self) -> Option<Served> {
        let now = self.service.clock().now();
        let ticket = self.ticket.take()?;
        Some(self.service.shared().answered(ticket, Outcome::Failure, now))
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.service.shared().cancelled(ticket, self.service.clock().now());
        }
    }
}

/// What a connection holds of its endpoint while it is open. It is given back exactly once, also when its task is dropped.
#[derive(Debug)]
struct Stay {
    service: Rc<LocalService>,
    endpoint: Rc<LocalEndpoint>,
    connection: Option<Connection>,
    /// There while it carries a caller's bytes; before, it only listens whether the endpoint speaks first.
    open: Option<Open>,
}

impl Stay {
    fn used(&mut self) {
        self.open = Some(self.endpoint.shared().zone.connection_opened());
    }

    fn end(mut self, class: Class, outcome: Outcome) {
        self.finish(class, outcome);
    }

    fn finish(&mut self, class: Class, outcome: Outcome) {
        let Some(connection) = self.connection.take() else { return };
        self.service.shared().disconnected(connection, outcome, self.service.clock().now());
        if self.open.take().is_some() {
            self.endpoint.shared().zone.connected(class);
        }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.finish(Class::Cancelled, Outcome::Success);
    }
}
