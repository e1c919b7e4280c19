//! What proxies are told of one port of a service, and how two versions of it differ.

use super::Index;
use super::endpoints::Located;
use super::key::ServiceId;
use super::object::Condition;
use super::policies::Effective;
use api::discovery as proto;
use prost::Message;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hasher};
use std::net::SocketAddr;

/// One port of a service at one version. Immutable: shared by all that read it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// As sent, its endpoints by address and its version filled in.
    pub service: proto::Service,
    /// The policy, parsed.
    pub effective: Effective,
}

impl View {
    /// The version: a digest of the content.
    pub const fn version(&self) -> u64 {
        self.service.version
    }

    /// What turns `old` into this, if that can be said as a change of the same service.
    pub fn since(&self, old: &Self) -> proto::ServiceChange {
        let (upserted, removed) = difference(&old.service.endpoints, &self.service.endpoints);
        let head =
            |view: &Self| proto::Service { endpoints: Vec::new(), version: 0, ..view.head() };
        let changed = head(self) != head(old);
        proto::ServiceChange {
            id: self.service.id.clone(),
            base: old.version(),
            version: self.version(),
            upserted,
            removed,
            service: changed.then(|| proto::Service { version: self.version(), ..self.head() }),
        }
    }

    /// Everything but the endpoints.
    fn head(&self) -> proto::Service {
        let service = &self.service;
        proto::Service {
            id: service.id.clone(),
            version: service.version,
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            port: service.port,
            port_name: service.port_name.clone(),
            app_protocol: service.app_protocol.clone(),
            policy: service.policy.clone(),
            endpoints: Vec::new(),
        }
    }

    fn sealed(mut service: proto::Service, effective: Effective) -> Self {
        // Fixed keys: replicas of one build agree. Of different builds, they may not, at the price of one snapshot.
        let mut hasher = DefaultHasher::new();
        hasher.write(&service.encode_to_vec());
        service.version = hasher.finish().max(1); // 0 is "no version" on the wire
        Self { service, effective }
    }
}

impl Index {
    /// What proxies are told of a service; `None` if there is no such port.
    pub fn view(&self, id: &ServiceId) -> Option<View> {
        let service = self.service(&id.service)?;
        let port = service.port(id.port)?;
        let effective = self.effective(&id.service, service);
        let endpoints = self.endpoints(&id.service, service, port);
        let message = proto::Service {
            port_name: port.name.clone(),
            app_protocol: port.app_protocol.clone(),
            policy: Some(policy(&effective)),
            endpoints: endpoints.into_iter().map(endpoint).collect(),
            ..named(id)
        };
        Some(View::sealed(message, effective))
    }
}

/// A policy as sent.
pub fn policy(effective: &Effective) -> proto::Policy {
    proto::Policy {
        // A policy is numbers, names and lists of them: nothing in it cannot be written as JSON.
        json: serde_json::to_string(&effective.policy).unwrap_or_default(),
        source: effective.source.as_str().to_owned(),
        object: effective.object.clone(),
        fixed: effective.fixed,
    }
}

fn named(id: &ServiceId) -> proto::Service {
    proto::Service {
        id: id.to_string(),
        namespace: id.service.namespace.to_string(),
        name: id.service.name.to_string(),
        port: u32::from(id.port),
        ..proto::Service::default()
    }
}

fn endpoint((address, located): (SocketAddr, Located)) -> proto::Endpoint {
    let state = match located.condition {
        Condition::Ready => proto::State::Serving,
        Condition::Draining | Condition::Unready => proto::State::Draining,
    };
    proto::Endpoint {
        address: address.to_string(),
        zone: located.zone.to_string(),
        region: located.region.to_string(),
        node: located.node.to_string(),
        state: state.into(),
        uid: located.uid.to_string(),
        identity: String::new(),
    }
}

/// Endpoints of `new` that are not in `old` as they are, and addresses of `old` that are not in `new`. Both in one order.
fn difference(
    old: &[proto::Endpoint],
    new: &[proto::Endpoint],
) -> (Vec<proto::Endpoint>, Vec<String>) {
    let (mut upserted, mut removed) = (Vec::new(), Vec::new());
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return (upserted, removed),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => place(before).cmp(&place(after)),
        };
        let before = order.is_le().then(|| old.next()).flatten();
        let after = order.is_ge().then(|| new.next()).flatten();
        match (before, after) {
            (before, Some(after)) if before != Some(after) => upserted.push(after.clone()),
            (Some(before), None) => removed.push(before.address.clone()),
            _ => {}
        }
    }
}

/// The order of endpoints in a view.
fn place(endpoint: &proto::Endpoint) -> Option<SocketAddr> {
    endpoint.address.parse().ok()
}
