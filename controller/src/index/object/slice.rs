//! EndpointSlices.

use crate::index::key::Key;
use k8s_openapi::api::discovery::v1 as discovery;
use std::net::IpAddr;
use std::sync::Arc;

/// The label that names a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// An EndpointSlice.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its Service; `None` for a slice that belongs to none.
    pub service: Option<Key>,
    /// Names and numbers of its TCP ports.
    pub ports: Vec<(String, u16)>,
    /// Its endpoints with an IP address.
    pub endpoints: Vec<Endpoint>,
    /// It holds host names, which nothing resolves.
    pub names_only: bool,
}

/// One endpoint, on all ports of its slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The first address: Kubernetes gives no meaning to others.
    pub address: IpAddr,
    /// Whether it serves.
    pub condition: Condition,
    /// Zone, as the slice says; empty is unknown.
    pub zone: Arc<str>,
    /// Node, as the slice says; empty is unknown.
    pub node: Arc<str>,
    /// The pod's uid; empty if none is named.
    pub uid: Arc<str>,
}

/// Whether an endpoint serves. The order is that of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// It is ready, or published though it is not.
    Ready,
    /// It terminates but still serves: used only where nothing is ready.
    Draining,
    /// It does not serve.
    Unready,
}

impl Condition {
    /// Reads the three conditions, with the defaults that the API defines: ready, serving, not terminating.
    pub fn read(ready: Option<bool>, serving: Option<bool>, terminating: Option<bool>) -> Self {
        match (ready.unwrap_or(true), serving.unwrap_or(true), terminating.unwrap_or(false)) {
            (true, _, _) => Self::Ready,
            (false, true, true) => Self::Draining,
            (false, _, _) => Self::Unready,
        }
    }
}

impl Slice {
    /// Reads an EndpointSlice.
    pub fn read(slice: &discovery::EndpointSlice) -> Self {
        let labels = slice.metadata.labels.as_ref();
        let service = labels.and_then(|labels| labels.get(SERVICE_NAME));
        let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
        Self {
            service: service.map(|name| Key::new(namespace, name)),
            ports: slice.ports.iter().flatten().filter_map(port).collect(),
            endpoints: slice.endpoints.iter().filter_map(endpoint).collect(),
            names_only: slice.address_type == "FQDN",
        }
    }
}

fn port(port: &discovery::EndpointPort) -> Option<(String, u16)> {
    let tcp = port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let number = u16::try_from(port.port?).ok().filter(|number| tcp && *number > 0)?;
    Some((port.name.clone().unwrap_or_default(), number))
}

fn endpoint(endpoint: &discovery::Endpoint) -> Option<Endpoint> {
    let conditions = endpoint.conditions.as_ref();
    let text = |value: Option<&String>| value.map(String::as_str).unwrap_or_default().into();
    Some(Endpoint {
        address: endpoint.addresses.first()?.parse().ok()?,
        condition: Condition::read(
            conditions.and_then(|conditions| conditions.ready),
            conditions.and_then(|conditions| conditions.serving),
            conditions.and_then(|conditions| conditions.terminating),
        ),
        zone: text(endpoint.zone.as_ref()),
        node: text(endpoint.node_name.as_ref()),
        uid: text(endpoint.target_ref.as_ref().and_then(|target| target.uid.as_ref())),
    })
}
