//! What discovery tells the data plane: plain data, no behaviour. Every source of services (a topology file, a controller
//! stream) ends in a [`World`], and the data plane knows nothing else about where services come from.

pub mod metrics;
pub mod topology;
pub mod watch;

use api::policy::Policy;
use api::policy::source::PolicySource;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where something runs. What is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Its region.
    pub region: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
}

/// One endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointUpdate {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its zone.
    pub zone: Option<Arc<str>>,
    /// Its region.
    pub region: Option<Arc<str>>,
    /// Its node.
    pub node: Option<Arc<str>>,
}

/// What the endpoints of a service speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EndpointProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// One service, whole.
#[derive(Clone, Debug)]
pub struct ServiceUpdate {
    /// Its name, unique in a world.
    pub name: Arc<str>,
    /// Further names under which a forward listener finds it, without port.
    pub hosts: Vec<Arc<str>>,
    /// What its endpoints speak.
    pub protocol: EndpointProtocol,
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// Where the policy came from.
    pub policy_source: PolicySource,
    /// Callers of the service per zone, the own zone included; empty when unknown.
    pub callers: Vec<(Arc<str>, u32)>,
    /// All its endpoints.
    pub endpoints: Vec<EndpointUpdate>,
}

/// Where the proxy listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// The address to bind.
    pub address: SocketAddr,
    /// The service that everything goes to; `None` for a forward listener, which finds the service by `Host`.
    pub service: Option<Arc<str>>,
}

/// The whole state of the mesh as one proxy needs it.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Where this proxy runs.
    pub place: Place,
    /// Where it listens.
    pub listeners: Vec<ListenerSpec>,
    /// What it knows.
    pub services: Vec<ServiceUpdate>,
}
