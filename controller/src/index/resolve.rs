//! What an address or a name is.

use super::key::{Key, ServiceId};
use super::object::{Reach, Service};
use super::{Index, Interest};
use api::discovery::Passthrough;
use std::net::SocketAddr;

/// Where an application wants to go, parsed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// The address of a connection.
    Address(SocketAddr),
    /// The host of a request, in lower case and without a trailing dot, and its port.
    Name(String, u16),
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A port of a service.
    Service(ServiceId),
    /// Nothing to balance.
    Passthrough(Passthrough),
}

impl Destination {
    /// Parses `host:port`. Names longer than DNS allows are none.
    pub fn name(text: &str) -> Option<Self> {
        const LONGEST: usize = 253; // RFC 1035, section 2.3.4, as text
        let (host, port) = text.rsplit_once(':')?;
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let named =
            !host.is_empty() && host.len() <= LONGEST && !host.contains(['[', ']', ':', '/']);
        Some(Self::Name(host, port.parse().ok()?)).filter(|_| named)
    }
}

impl Index {
    /// What a destination is, for a caller in a namespace.
    pub fn resolve(&self, destination: &Destination, namespace: &str) -> Target {
        let unknown = Target::Passthrough(Passthrough::Unknown);
        let (key, port) = match destination {
            Destination::Address(address) => match self.addresses.get(&address.ip()) {
                Some(key) => (key.clone(), address.port()),
                None => return unknown,
            },
            Destination::Name(host, port) => match self.named(host, namespace) {
                Some(key) => (key, *port),
                None => return unknown,
            },
        };
        match self.service(&key) {
            None => unknown,
            Some(service) => target(key, port, service),
        }
    }

    /// What a destination's answer depends on.
    pub fn interests(&self, destination: &Destination, namespace: &str) -> Vec<Interest> {
        match destination {
            Destination::Address(address) => {
                let service = self.addresses.get(&address.ip()).cloned().map(Interest::Service);
                std::iter::once(Interest::Address(address.ip())).chain(service).collect()
            }
            Destination::Name(host, _) => {
                self.named(host, namespace).map(Interest::Service).into_iter().collect()
            }
        }
    }

    /// The service that a host names, whether it exists or not: `cart`, `cart.shop`, `cart.shop.svc`, or with the cluster's
    /// domain, or MCS' domain of all clusters.
    fn named(&self, host: &str, namespace: &str) -> Option<Key> {
        let mut parts = host.splitn(4, '.');
        let name = parts.next().filter(|name| !name.is_empty())?;
        match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => Some(Key::new(namespace, name)),
            (Some(namespace), None | Some("svc"), None) => Some(Key::new(namespace, name)),
            (Some(namespace), Some("svc"), Some(domain))
                if *domain == *self.settings.domain || domain == "clusterset.local" =>
            {
                Some(Key::new(namespace, name))
            }
            _ => None,
        }
    }
}

fn target(service: Key, port: u16, object: &Service) -> Target {
    match object.reach {
        Reach::ExternalName => Target::Passthrough(Passthrough::ExternalName),
        _ if object.session_affinity => Target::Passthrough(Passthrough::SessionAffinity),
        _ if object.port(port).is_none() => Target::Passthrough(Passthrough::Unknown),
        _ => Target::Service(ServiceId { service, port }),
    }
}
