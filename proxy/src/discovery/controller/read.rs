//! From messages to plain values. What cannot be read is refused here, whole, so that it never replaces something good.

use crate::discovery::{
    Destination, EndpointProtocol, EndpointUpdate, Passthrough, Place, ServiceUpdate, Target,
};
use api::discovery as proto;
use api::policy::Policy;
use api::policy::source::PolicySource;
use api::policy::spec::PolicySpec;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Longest name of a place or an object: what fits into a metric's label without harm.
const NAME_BYTES_MAX: usize = 128;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// An endpoint's address.
    #[error("{0:?} is no address of an endpoint")]
    Address(String),
    /// A destination.
    #[error("a destination that is neither an address nor a name with a port")]
    Destination,
    /// A service without a name that could be shown.
    #[error("{0:?} is no name of a service")]
    Service(String),
    /// Nothing that this version knows.
    #[error("a message without content")]
    Empty,
}

/// A policy with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chosen {
    pub(super) policy: Arc<Policy>,
    pub(super) source: PolicySource,
    pub(super) object: Option<Arc<str>>,
    /// Goes before what the caller's own annotations say.
    pub(super) fixed: bool,
    json: String,
}

impl Default for Chosen {
    fn default() -> Self {
        Self {
            policy: Arc::default(),
            source: PolicySource::BuiltIn,
            object: None,
            fixed: false,
            json: String::new(),
        }
    }
}

/// Endpoints by address, which names them within their service.
pub(super) type Endpoints = BTreeMap<SocketAddr, EndpointUpdate>;

/// A service, all but its endpoints.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) id: Arc<str>,
    pub(super) protocol: EndpointProtocol,
    pub(super) policy: Chosen,
    /// Why the policy that was sent is not the one in force.
    pub(super) policy_refused: Option<String>,
}

impl Head {
    /// Reads it. A policy that this version does not understand leaves `before` in force.
    pub(super) fn read(
        service: &proto::Service,
        before: Option<&Chosen>,
    ) -> Result<Self, Unreadable> {
        let id = name(&service.id).ok_or_else(|| Unreadable::Service(service.id.clone()))?;
        let (policy, policy_refused) =
            match service.policy.as_ref().map(|sent| policy(sent, before)) {
                None => (Chosen::default(), None),
                Some(Ok(chosen)) => (chosen, None),
                Some(Err(problem)) => (before.cloned().unwrap_or_default(), Some(problem)),
            };
        let protocol = protocol(&service.app_protocol);
        Ok(Self { id, protocol, policy, policy_refused })
    }

    /// The whole service, governed by `policy`.
    pub(super) fn update(
        &self,
        policy: &Chosen,
        endpoints: &Endpoints,
        callers: &[(Arc<str>, u32)],
    ) -> ServiceUpdate {
        ServiceUpdate {
            name: Arc::clone(&self.id),
            hosts: Vec::new(),
            addresses: Vec::new(),
            protocol: self.protocol,
            policy: Arc::clone(&policy.policy),
            policy_source: policy.source,
            policy_object: policy.object.clone(),
            callers: callers.to_vec(),
            endpoints: endpoints.values().cloned().collect(),
        }
    }
}

/// Reads a policy; one that was read before is not read again.
pub(super) fn policy(sent: &proto::Policy, before: Option<&Chosen>) -> Result<Chosen, String> {
    let source = PolicySource::ALL.into_iter().find(|source| source.as_str() == sent.source);
    let source =
        source.ok_or_else(|| format!("a policy from {}, which is not known", sent.source))?;
    let same = before.filter(|before| before.json == sent.json);
    let policy = match same {
        Some(before) => Arc::clone(&before.policy),
        None => Arc::new(parsed(&sent.json)?),
    };
    let object = name(&sent.object);
    Ok(Chosen { policy, source, object, fixed: sent.fixed, json: sent.json.clone() })
}

fn parsed(json: &str) -> Result<Policy, String> {
    let spec: PolicySpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Policy::parse(&spec)
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Reads endpoints, all or none.
pub(super) fn endpoints(sent: &[proto::Endpoint]) -> Result<Endpoints, Unreadable> {
    sent.iter()
        .map(|endpoint| {
            let address = address(&endpoint.address)?;
            let update = EndpointUpdate {
                zone: name(&endpoint.zone),
                region: name(&endpoint.region),
                node: name(&endpoint.node),
                uid: name(&endpoint.uid),
                identity: text(&endpoint.identity),
                ..EndpointUpdate::at(address)
            };
            Ok((address, update))
        })
        .collect()
}

/// Reads the address of an endpoint.
pub(super) fn address(text: &str) -> Result<SocketAddr, Unreadable> {
    let address: Option<SocketAddr> = text.parse().ok();
    address
        .filter(|address| address.port() != 0)
        .ok_or_else(|| Unreadable::Address(text.to_owned()))
}

/// Reads where something runs.
pub(super) fn place(sent: &proto::Place) -> Place {
    Place { zone: name(&sent.zone), region: name(&sent.region), node: name(&sent.node) }
}

/// Reads the callers of each zone.
pub(super) fn callers(sent: &proto::Callers) -> Vec<(Arc<str>, u32)> {
    let mut callers: Vec<_> =
        sent.zones.iter().filter_map(|(zone, count)| Some((name(zone)?, *count))).collect();
    callers.sort();
    callers
}

/// Reads what a destination is.
pub(super) fn resolved(sent: &proto::Resolved) -> Result<(Destination, Target), Unreadable> {
    use proto::resolved::Target as Sent;
    let destination = sent.destination.as_ref().and_then(destination);
    let destination = destination.ok_or(Unreadable::Destination)?;
    let target = match &sent.target {
        Some(Sent::Service(id)) => {
            Target::Service(name(id).ok_or_else(|| Unreadable::Service(id.clone()))?)
        }
        Some(Sent::Passthrough(why)) => Target::Passthrough(passthrough(*why)),
        // A kind of target that this version does not know.
        None => Target::Passthrough(Passthrough::Unknown),
    };
    Ok((destination, target))
}

fn passthrough(why: i32) -> Passthrough {
    match proto::Passthrough::try_from(why) {
        Ok(proto::Passthrough::ExternalName) => Passthrough::ExternalName,
        Ok(proto::Passthrough::SessionAffinity) => Passthrough::SessionAffinity,
        Ok(proto::Passthrough::Unknown | proto::Passthrough::Unspecified) | Err(_) => {
            Passthrough::Unknown
        }
    }
}

/// Reads a destination.
fn destination(sent: &proto::Destination) -> Option<Destination> {
    use proto::destination::Destination as Sent;
    match sent.destination.as_ref()? {
        Sent::Address(address) => address.parse().ok().map(Destination::Address),
        Sent::Name(name) => {
            let (host, port) = name.rsplit_once(':')?;
            Destination::of_host(host, port.parse().ok()?)
        }
    }
}

/// Writes a destination.
pub(super) fn written(destination: &Destination) -> proto::Destination {
    use proto::destination::Destination as Sent;
    let written = match destination {
        Destination::Address(address) => Sent::Address(address.to_string()),
        Destination::Name(..) => Sent::Name(destination.to_string()),
    };
    proto::Destination { destination: Some(written) }
}

/// What the endpoints speak, by the names that Kubernetes, Istio and others have for it. `http` is any version.
fn protocol(app_protocol: &str) -> EndpointProtocol {
    match app_protocol.to_ascii_lowercase().as_str() {
        "kubernetes.io/h2c" | "h2c" | "http2" | "grpc" | "grpc-web" => EndpointProtocol::Http2,
        "kubernetes.io/wss" | "https" | "tls" | "tcp" | "mongo" | "mysql" | "postgresql"
        | "redis" => EndpointProtocol::Opaque,
        _ => EndpointProtocol::Detect,
    }
}

/// A name that may stand in a label and a log line. What cannot is as good as none.
fn name(text: &str) -> Option<Arc<str>> {
    let odd = |c: char| c.is_control() || c.is_whitespace();
    self::text(text).filter(|text| text.len() <= NAME_BYTES_MAX && !text.contains(odd))
}

fn text(text: &str) -> Option<Arc<str>> {
    (!text.is_empty()).then(|| text.into())
}
