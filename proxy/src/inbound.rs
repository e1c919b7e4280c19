//! Calls to the application: what may be forwarded to it, and what is counted about it.
//!
//! The path of a request is the outbound one, with a service of one endpoint, the application's own port, and without a second
//! attempt: whoever calls decides about that. Callers dial the pod's address, and so does the proxy: what the application
//! offers on loopback alone stays its own.

use crate::clock::Clock;
use crate::discovery::{EndpointUpdate, Place, ServiceUpdate};
use crate::overload::Overload;
use crate::service::Service;
use crate::worker::local::LocalService;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;

/// Ports that are counted by their number. An application has fewer; who tries them all gets a label of its own no more.
const PORTS_MAX: usize = 64;
/// Addresses of this machine that are remembered. A pod has a few.
const ADDRESSES_MAX: usize = 64;
/// The name of all further ports in metrics.
const OTHER: &str = ":other";

/// Why a connection that was brought here is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Nobody redirected it: the caller dialled the proxy's own port.
    #[error("it was not redirected")]
    Direct,
    /// It was for a port of the proxy itself, past the rules that keep these apart.
    #[error("it was for a port of the proxy")]
    OwnPort,
    /// It was for an address that only this machine may use.
    #[error("it was for an address that only this machine may use")]
    Loopback,
    /// It was for another machine, and would come back from there.
    #[error("it was for another machine")]
    NotOurs,
}

/// Where a call to the application goes, as the kernel remembers it.
pub(crate) fn judge(
    original: Option<SocketAddr>,
    own_ports: &[u16],
    is_ours: impl FnOnce(IpAddr) -> bool,
) -> Result<SocketAddr, Refused> {
    let address = original.ok_or(Refused::Direct)?;
    let ip = address.ip();
    if ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() {
        return Err(Refused::Loopback);
    }
    if own_ports.contains(&address.port()) {
        return Err(Refused::OwnPort);
    }
    if is_ours(ip) { Ok(address) } else { Err(Refused::NotOurs) }
}

/// Whether the kubelet asks, which says nothing about how callers are served.
pub(crate) fn is_probe(headers: &HeaderMap<HeaderValue>) -> bool {
    headers.get(USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"kube-probe/"))
}

/// The application's ports as one worker sees them.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    services: RefCell<HashMap<SocketAddr, Rc<LocalService>>>,
    ours: RefCell<HashMap<IpAddr, bool>>,
}

impl Ports {
    /// What leads to the application at an address.
    pub(crate) fn service(
        &self,
        address: SocketAddr,
        place: &Place,
        clock: Clock,
        overload: &Arc<Overload>,
    ) -> Rc<LocalService> {
        let mut services = self.services.borrow_mut();
        if let Some(service) = services.get(&address)
            && service.is_at(place)
        {
            return Rc::clone(service);
        }
        let room = services.len() < PORTS_MAX || services.contains_key(&address);
        let name = if room { format!(":{}", address.port()) } else { OTHER.to_owned() };
        let endpoint = EndpointUpdate { zone: place.zone.clone(), ..EndpointUpdate::at(address) };
        let update = ServiceUpdate::unbalanced(name.into(), address, vec![endpoint]);
        let service = Arc::new(Service::inbound(&update, place, clock));
        let service = Rc::new(LocalService::new(service, clock, Arc::clone(overload)));
        if room && let Some(old) = services.insert(address, Rc::clone(&service)) {
            old.close();
        }
        service
    }

    /// Whether an address is one of this machine's.
    pub(crate) fn is_ours(&self, ip: IpAddr) -> bool {
        let mut ours = self.ours.borrow_mut();
        if let Some(known) = ours.get(&ip) {
            return *known;
        }
        // The kernel binds to no other. Nothing is ever sent from this socket.
        let is_ours = UdpSocket::bind((ip, 0)).is_ok();
        if ours.len() < ADDRESSES_MAX {
            ours.insert(ip, is_ours);
        }
        is_ours
    }

    /// Closes what was idle for too long.
    pub(crate) fn sweep(&self, now: balance::time::Timestamp) {
        for service in self.services.borrow().values() {
            service.sweep(now);
        }
        // Addresses come and go.
        self.ours.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Refused, judge};

    #[test]
    fn only_the_applications_own_ports_are_forwarded_to() {
        let cases = [
            (Some("10.0.0.1:8080"), Ok("10.0.0.1:8080")),
            (Some("[fd00::1]:8080"), Ok("[fd00::1]:8080")),
            (None, Err(Refused::Direct)),
            (Some("127.0.0.1:8080"), Err(Refused::Loopback)),
            (Some("[::1]:8080"), Err(Refused::Loopback)),
            (Some("0.0.0.0:8080"), Err(Refused::Loopback)),
            (Some("10.0.0.1:4240"), Err(Refused::OwnPort)),
            (Some("10.0.0.1:4243"), Err(Refused::OwnPort)),
            (Some("10.0.0.1:4291"), Err(Refused::OwnPort)),
            (Some("10.0.0.2:8080"), Err(Refused::NotOurs)),
        ];
        for (original, expected) in cases {
            let original = original.map(|address| address.parse().unwrap());
            let expected = expected.map(|address| address.parse().unwrap());
            let ours = |ip: std::net::IpAddr| ip.to_string() != "10.0.0.2";
            assert_eq!(judge(original, &[4240, 4243, 4291], ours), expected, "{original:?}");
        }
    }
}
