//! What discovery tells the data plane: plain data, no behaviour. A topology file ends in a [`World`], which is all there is; a
//! controller's stream in [`Change`]s of what was asked for. The data plane knows nothing else about where services come from.

pub mod controller;
pub mod metrics;
pub mod topology;
pub mod watch;

use crate::outbound::detect::Version;
use api::policy::source::PolicySource;
use api::policy::{Mode, Policy};
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
    /// What stands at the address: the uid of a pod. Another one is another endpoint.
    pub uid: Option<Arc<str>>,
    /// The workload's identity, once it has one. Another one is another endpoint.
    pub identity: Option<Arc<str>>,
}

impl EndpointUpdate {
    /// An endpoint of which nothing but the address is known.
    pub const fn at(address: SocketAddr) -> Self {
        Self { address, zone: None, region: None, node: None, uid: None, identity: None }
    }

    /// Whether `other`, at the same address, is the same workload, so that what was learnt about it still holds.
    pub(crate) fn is_same_workload(&self, other: &Self) -> bool {
        let identities_agree = match (&self.identity, &other.identity) {
            (Some(ours), Some(theirs)) => ours == theirs,
            // It was not known yet.
            _ => true,
        };
        self.uid == other.uid && identities_agree
    }
}

/// What the endpoints of a service speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EndpointProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
    /// The version of HTTP that the caller speaks.
    Detect,
    /// Bytes that are not looked at: balanced a connection at a time.
    Opaque,
}

impl EndpointProtocol {
    /// The version in which an endpoint gets the requests of a caller.
    pub(crate) fn version(self, caller: Version) -> Version {
        match self {
            Self::Http1 => Version::Http1,
            Self::Http2 => Version::Http2,
            Self::Detect | Self::Opaque => caller,
        }
    }

    /// Its name in files and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
            Self::Detect => "detect",
            Self::Opaque => "opaque",
        }
    }
}

/// One service, whole.
#[derive(Clone, Debug)]
pub struct ServiceUpdate {
    /// Its name, unique in a world.
    pub name: Arc<str>,
    /// Further names under which a forward listener finds it, without port.
    pub hosts: Vec<Arc<str>>,
    /// The addresses that callers dial to reach it, such as cluster IP and port. Redirected connections are found by them.
    pub addresses: Vec<SocketAddr>,
    /// What its endpoints speak.
    pub protocol: EndpointProtocol,
    /// The policy in force.
    pub policy: Arc<Policy>,
    /// Where the policy came from.
    pub policy_source: PolicySource,
    /// The object that holds the policy, `shop/cart`, if one does.
    pub policy_object: Option<Arc<str>>,
    /// Callers of the service per zone, the own zone included; empty when unknown.
    pub callers: Vec<(Arc<str>, u32)>,
    /// All its endpoints.
    pub endpoints: Vec<EndpointUpdate>,
}

impl ServiceUpdate {
    /// A service at one address that has nothing to choose from, and whose requests are sent once.
    pub(crate) fn unbalanced(
        name: Arc<str>,
        address: SocketAddr,
        endpoints: Vec<EndpointUpdate>,
    ) -> Self {
        let mut policy = Policy { mode: Mode::Off, ..Policy::default() };
        policy.retry.attempts = 1;
        Self {
            name,
            hosts: Vec::new(),
            addresses: vec![address],
            protocol: EndpointProtocol::Detect,
            policy: Arc::new(policy),
            policy_source: PolicySource::BuiltIn,
            policy_object: None,
            callers: Vec::new(),
            endpoints,
        }
    }
}

/// Where the proxy listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// The address to bind.
    pub address: SocketAddr,
    /// What arrives there.
    pub kind: ListenerKind,
}

/// What arrives at a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Calls for one service.
    Service(Arc<str>),
    /// Calls of applications that know the proxy: the service is found by `Host`.
    Forward,
    /// The application's calls, brought here by the kernel: the service is found by the address that was dialled.
    Outbound,
    /// The calls of a gateway, brought here by the kernel: it dials pods, and the service is found by `Host`.
    Gateway,
    /// Calls to the application, brought here by the kernel.
    Inbound,
}

impl std::fmt::Display for ListenerKind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Service(name) => write!(out, "calls for {name}"),
            Self::Forward => out.write_str("calls by Host"),
            Self::Outbound => out.write_str("redirected calls of the application"),
            Self::Gateway => out.write_str("redirected calls through a gateway"),
            Self::Inbound => out.write_str("redirected calls to the application"),
        }
    }
}

impl ListenerKind {
    /// Whether the kernel brings connections here that were for another address.
    pub(crate) fn is_redirected(&self) -> bool {
        matches!(self, Self::Outbound | Self::Gateway | Self::Inbound)
    }
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

/// Longest name of a host (RFC 1035, 2.3.4, as text).
const HOST_BYTES_MAX: usize = 253;

/// Where an application wants to go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// Address and port of its connection.
    Address(SocketAddr),
    /// Host, in lower case and without a dot at its end, and port of its request.
    Name(Arc<str>, u16),
}

impl Destination {
    /// The destination that a request's host names; an address written as a host is one. `None` for what is no host.
    pub fn of_host(host: &str, port: u16) -> Option<Self> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(ip) = bare.parse() {
            return Some(Self::Address(SocketAddr::new(ip, port)));
        }
        let host = host.strip_suffix('.').unwrap_or(host);
        let odd = |c: char| c.is_control() || c.is_whitespace() || "[]:/@".contains(c);
        let named = !host.is_empty() && host.len() <= HOST_BYTES_MAX && !host.contains(odd);
        named.then(|| Self::Name(host.to_ascii_lowercase().into(), port))
    }
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// What a destination is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The service of that name.
    Service(Arc<str>),
    /// Nothing to balance: the connection goes where the application sent it.
    Passthrough(Passthrough),
}

/// Why a destination is not balanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Passthrough {
    /// No service has it: a pod, something outside, or not there yet.
    Unknown,
    /// The service is a name for something outside.
    ExternalName,
    /// The service's callers are to be kept on one endpoint each, which Kubernetes itself does.
    SessionAffinity,
    /// The controller is away, or did not say in time.
    Unanswered,
    /// So many destinations are in use that this one is not asked for.
    TooMany,
}

impl Passthrough {
    /// The name in metrics, logs and `/debug`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::ExternalName => "external_name",
            Self::SessionAffinity => "session_affinity",
            Self::Unanswered => "unanswered",
            Self::TooMany => "too_many",
        }
    }
}

/// Something that a controller said, in the order in which it takes effect: a service before the destination that leads to it.
#[derive(Clone, Debug)]
pub enum Change {
    /// Where this proxy runs, and all services as they are seen from there.
    Place(Place, Vec<ServiceUpdate>),
    /// One service, whole: new, or in place of what it was.
    Service(ServiceUpdate),
    /// A service that nothing leads to any more.
    Gone(Arc<str>),
    /// What a destination is.
    Resolved(Destination, Target),
}
