//! Step 3: where does the request go? The answer is kept for the next request of the same connection.

use crate::destinations::{Answer, Known};
use crate::discovery::Destination;
use crate::outbound::accept::Caller;
use crate::outbound::detect::Version;
use crate::outbound::head;
use crate::outbound::reply::Refusal;
use crate::worker::Worker;
use crate::worker::local::LocalService;
use bytes::Bytes;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Version as HttpVersion};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To an endpoint of a service, which its balancer picks.
    Balanced(Rc<LocalService>),
    /// Straight to the address that the caller dialled: a pod, a headless service, or nothing that is known.
    Passthrough(SocketAddr),
    /// Nowhere.
    Refused(Refusal),
}

/// The last resolution of a connection.
#[derive(Debug)]
pub(crate) struct Memo {
    /// The `Host` or `:authority` that was resolved.
    pub(crate) host: HeaderValue,
    /// The same, parsed.
    pub(crate) authority: Authority,
    pub(crate) route: Route,
    /// The registry's version at that time.
    version: u64,
    /// To be touched at each use.
    known: Option<Arc<Known>>,
}

/// The port of a `Host` without one.
const HTTP_PORT: u16 = 80;

/// What says where the requests of a connection go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The listener: all go to one service.
    Service(Arc<str>),
    /// The `Host` of each.
    Host,
    /// The address that the caller dialled.
    Address(SocketAddr),
    /// The same where that is a service's; otherwise the `Host` of each, and the address for hosts that are no service's.
    Gateway(SocketAddr),
    /// The application here, at the address that its caller dialled.
    Application(SocketAddr),
}

/// Resolves a connection before anything of it was read; `None` when only its requests can tell.
pub(crate) async fn connection(worker: &Worker, target: &Target) -> Option<Route> {
    let registry = worker.registry();
    match target {
        Target::Service(name) => {
            let service = registry.service(name).map(|service| worker.local(&service));
            Some(service.map_or(Route::Refused(Refusal::UnknownService), Route::Balanced))
        }
        Target::Host => None,
        Target::Address(address) => Some(by_address(worker, *address).await.0),
        Target::Gateway(address) => {
            let route = by_address(worker, *address).await.0;
            let tells = !matches!(route, Route::Passthrough(_))
                || worker.registry().is_opaque(address.port());
            tells.then_some(route)
        }
        Target::Application(address) => Some(Route::Balanced(worker.application(*address))),
    }
}

async fn by_address(worker: &Worker, address: SocketAddr) -> (Route, Option<Arc<Known>>) {
    let (answer, known) = worker.registry().find(&Destination::Address(address)).await;
    let route = match answer {
        Answer::Balanced(service) => Route::Balanced(worker.local(&service)),
        Answer::Passthrough(_) => Route::Passthrough(address),
        Answer::Refused => Route::Refused(Refusal::UnknownService),
    };
    (route, known)
}

/// Resolves a request by the connection's target or the request's host.
pub(crate) async fn resolve(caller: &Caller, head: &Parts) -> Result<Rc<Memo>, Refusal> {
    let host = host(caller, head)?;
    let host = &*host;
    let version = caller.worker.registry().version();
    if let Some(memo) = &*caller.memo.borrow()
        && memo.version == version
        && memo.host.as_bytes() == host
    {
        if let Some(known) = &memo.known {
            known.touch();
        }
        return Ok(Rc::clone(memo));
    }
    // On the heap, since it is rare: every request would be as large.
    let memo = Rc::new(Box::pin(look_up(caller, host, version)).await?);
    *caller.memo.borrow_mut() = Some(Rc::clone(&memo));
    Ok(memo)
}

/// The host that a request names: an absolute target wins over `Host` (RFC 9112, 3.2.2). An HTTP/1.0 request needs none
/// where the listener knows the service.
fn host<'a>(caller: &'a Caller, head: &'a Parts) -> Result<Cow<'a, [u8]>, Refusal> {
    let named = head::host(&head.headers)?;
    if let Some(authority) = head.uri.authority() {
        return Ok(authority.as_str().as_bytes().into());
    }
    if let Some(host) = named {
        return Ok(host.as_bytes().into());
    }
    let needless = caller.version == Version::Http1 && head.version == HttpVersion::HTTP_10;
    match &caller.target {
        Target::Service(service) if needless => Ok(service.as_bytes().into()),
        Target::Address(address) | Target::Gateway(address) | Target::Application(address)
            if needless =>
        {
            Ok(address.to_string().into_bytes().into())
        }
        _ => Err(Refusal::Host),
    }
}

async fn look_up(caller: &Caller, host: &[u8], version: u64) -> Result<Memo, Refusal> {
    let text = Bytes::copy_from_slice(host);
    let header = HeaderValue::from_maybe_shared(text.clone()).map_err(|_invalid| Refusal::Host)?;
    let authority = Authority::from_maybe_shared(text).map_err(|_invalid| Refusal::Host)?;
    if !is_host_and_port(&authority) {
        return Err(Refusal::Host);
    }
    let worker = &caller.worker;
    let (route, known) = match &caller.target {
        Target::Service(name) => {
            let service = worker.registry().service(name).map(|service| worker.local(&service));
            (service.map_or(Route::Refused(Refusal::UnknownService), Route::Balanced), None)
        }
        Target::Host => by_host(worker, &authority).await?,
        Target::Address(address) => by_address(worker, *address).await,
        Target::Gateway(address) => of_gateway(worker, &authority, *address).await,
        Target::Application(address) => (Route::Balanced(worker.application(*address)), None),
    };
    Ok(Memo { host: header, authority, route, version, known })
}

async fn of_gateway(
    worker: &Worker,
    authority: &Authority,
    address: SocketAddr,
) -> (Route, Option<Arc<Known>>) {
    let (route, known) = by_address(worker, address).await;
    if !matches!(route, Route::Passthrough(_)) {
        return (route, known);
    }
    match by_host(worker, authority).await {
        Ok((Route::Balanced(service), known)) => (Route::Balanced(service), known),
        // The host is kept in use: it may become a service's.
        Ok((_, known)) => (route, known),
        Err(_) => (route, known),
    }
}

/// Whether it is a host with a port or without one (RFC 9110, 7.2). The library takes anything for a port.
fn is_host_and_port(authority: &Authority) -> bool {
    let port = authority.as_str().strip_prefix(authority.host()).map(|rest| rest.strip_prefix(':'));
    match port {
        Some(Some("")) => true,
        Some(Some(port)) => {
            port.bytes().all(|byte| byte.is_ascii_digit()) && authority.port_u16().is_some()
        }
        Some(None) => authority.as_str().len() == authority.host().len(),
        None => false,
    }
}

async fn by_host(
    worker: &Worker,
    authority: &Authority,
) -> Result<(Route, Option<Arc<Known>>), Refusal> {
    let port = authority.port_u16().unwrap_or(HTTP_PORT);
    let destination = Destination::of_host(authority.host(), port).ok_or(Refusal::Host)?;
    let (answer, known) = worker.registry().find(&destination).await;
    let route = match answer {
        Answer::Balanced(service) => Route::Balanced(worker.local(&service)),
        Answer::Passthrough(_) | Answer::Refused => Route::Refused(Refusal::UnknownService),
    };
    Ok((route, known))
}
