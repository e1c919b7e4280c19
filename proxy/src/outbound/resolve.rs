//! Step 3: where does the request go? The answer is kept for the next request of the same connection.

use crate::outbound::accept::Caller;
use crate::outbound::detect::Version;
use crate::outbound::head;
use crate::outbound::reply::Refusal;
use crate::worker::local::LocalService;
use bytes::Bytes;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, Version as HttpVersion};
use std::rc::Rc;

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To an endpoint of a service, which its balancer picks.
    Balanced(Rc<LocalService>),
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
}

/// Resolves a request by the connection's service or the request's host.
pub(crate) fn resolve(caller: &Caller, head: &Parts) -> Result<Rc<Memo>, Refusal> {
    let host = host(caller, head)?;
    let version = caller.worker.registry().version();
    if let Some(memo) = &*caller.memo.borrow()
        && memo.version == version
        && memo.host.as_bytes() == host
    {
        return Ok(Rc::clone(memo));
    }
    let memo = Rc::new(look_up(caller, host, version)?);
    *caller.memo.borrow_mut() = Some(Rc::clone(&memo));
    Ok(memo)
}

/// The host that a request names: an absolute target wins over `Host` (RFC 9112, 3.2.2). An HTTP/1.0 request needs none
/// where the listener knows the service.
fn host<'a>(caller: &'a Caller, head: &'a Parts) -> Result<&'a [u8], Refusal> {
    let named = head::host(&head.headers)?;
    if let Some(authority) = head.uri.authority() {
        return Ok(authority.as_str().as_bytes());
    }
    match (named, &caller.service) {
        (Some(host), _) => Ok(host.as_bytes()),
        (None, Some(service))
            if caller.version == Version::Http1 && head.version == HttpVersion::HTTP_10 =>
        {
            Ok(service.as_bytes())
        }
        (None, _) => Err(Refusal::Host),
    }
}

fn look_up(caller: &Caller, host: &[u8], version: u64) -> Result<Memo, Refusal> {
    let text = Bytes::copy_from_slice(host);
    let header = HeaderValue::from_maybe_shared(text.clone()).map_err(|_invalid| Refusal::Host)?;
    let authority = Authority::from_maybe_shared(text).map_err(|_invalid| Refusal::Host)?;
    if authority.as_str().contains('@') {
        return Err(Refusal::Host);
    }
    let registry = caller.worker.registry();
    let service = match &caller.service {
        Some(name) => registry.service(name),
        None => registry.service_of_host(authority.host()),
    };
    let route = match service {
        Some(service) => Route::Balanced(caller.worker.local(&service)),
        None => Route::Refused(Refusal::UnknownService),
    };
    Ok(Memo { host: header, authority, route, version })
}
