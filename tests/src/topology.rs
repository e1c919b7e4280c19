//! Writing topology files.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// A topology file in the making.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    place: String,
    listeners: String,
    services: String,
}

impl Topology {
    /// A proxy in a zone.
    pub fn zone(zone: &str) -> Self {
        Self { place: format!("[proxy]\nzone = \"{zone}\"\n"), ..Self::default() }
    }

    /// A listener that finds the service by the request's host.
    #[must_use]
    pub fn forward(mut self, address: SocketAddr) -> Self {
        writeln!(self.listeners, "[[listener]]\naddress = \"{address}\"").unwrap();
        self
    }

    /// A listener whose requests all go to one service.
    #[must_use]
    pub fn listener(mut self, address: SocketAddr, service: &str) -> Self {
        writeln!(self.listeners, "[[listener]]\naddress = \"{address}\"\nservice = \"{service}\"")
            .unwrap();
        self
    }

    /// A service; `settings` are further lines of its table: `protocol`, `hosts`, `policy.mode`.
    #[must_use]
    pub fn service(mut self, name: &str, settings: &str) -> Self {
        writeln!(self.services, "[[service]]\nname = \"{name}\"\n{settings}").unwrap();
        self
    }

    /// An endpoint of the last service.
    #[must_use]
    pub fn endpoint(mut self, address: SocketAddr, zone: &str) -> Self {
        writeln!(self.services, "[[service.endpoint]]\naddress = \"{address}\"\nzone = \"{zone}\"")
            .unwrap();
        self
    }

    /// The file.
    pub fn text(&self) -> String {
        [self.place.as_str(), &self.listeners, &self.services].concat()
    }
}
