//! Services of every kind.

use api::policy::annotations::Annotated;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use std::net::IpAddr;

/// A Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its uid, for events.
    pub uid: String,
    /// How it is reached.
    pub reach: Reach,
    /// Its TCP ports, by number.
    pub ports: Vec<Port>,
    /// IPv6 goes first where a pod has both families.
    pub ipv6_first: bool,
    /// `internalTrafficPolicy: Local`.
    pub internal_local: bool,
    /// `sessionAffinity: ClientIP`.
    pub session_affinity: bool,
    /// `trafficDistribution`, as written.
    pub traffic_distribution: Option<String>,
    /// The policy in its annotations.
    pub annotated: Annotated,
}

/// How a Service is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// By addresses of its own, one a family. A NodePort or LoadBalancer has them, too.
    ClusterIps(Vec<IpAddr>),
    /// By name only, which resolves to the endpoints.
    Headless,
    /// A name for something outside the cluster.
    ExternalName,
}

/// A TCP port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: u16,
    /// Its name, which leads to the port of the endpoints; empty for a single port without a name.
    pub name: String,
    /// What is spoken there, if said.
    pub app_protocol: String,
}

impl Service {
    /// Reads a Service.
    pub fn read(service: &core::Service) -> Self {
        let none = core::ServiceSpec::default();
        let spec = service.spec.as_ref().unwrap_or(&none);
        let mut ports: Vec<Port> = spec.ports.iter().flatten().filter_map(port).collect();
        ports.sort_by_key(|port| port.number);
        ports.dedup_by_key(|port| port.number);
        Self {
            uid: service.metadata.uid.clone().unwrap_or_default(),
            reach: reach(spec),
            ports,
            ipv6_first: spec
                .ip_families
                .iter()
                .flatten()
                .next()
                .is_some_and(|family| family == "IPv6"),
            internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            session_affinity: spec.session_affinity.as_deref() == Some("ClientIP"),
            traffic_distribution: spec.traffic_distribution.clone(),
            annotated: super::annotated(&service.metadata),
        }
    }

    /// Reads a ServiceImport of the multi-cluster services API by its metadata and `spec`, which says in other words what a
    /// Service says.
    pub fn read_import(meta: &ObjectMeta, spec: &Value) -> Self {
        let part = |name: &str| spec.get(name).cloned().unwrap_or_default();
        let spec = core::ServiceSpec {
            cluster_ips: serde_json::from_value(part("ips")).ok(),
            ports: serde_json::from_value(part("ports")).ok(),
            session_affinity: part("sessionAffinity").as_str().map(str::to_owned),
            ..core::ServiceSpec::default()
        };
        Self::read(&core::Service {
            metadata: meta.clone(),
            spec: Some(spec),
            ..core::Service::default()
        })
    }

    /// The port of that number.
    pub fn port(&self, number: u16) -> Option<&Port> {
        self.ports.iter().find(|port| port.number == number)
    }
}

fn port(port: &core::ServicePort) -> Option<Port> {
    let tcp = port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    let number = u16::try_from(port.port).ok().filter(|number| tcp && *number > 0)?;
    Some(Port {
        number,
        name: port.name.clone().unwrap_or_default(),
        app_protocol: port.app_protocol.clone().unwrap_or_default(),
    })
}

fn reach(spec: &core::ServiceSpec) -> Reach {
    if spec.type_.as_deref() == Some("ExternalName") {
        return Reach::ExternalName;
    }
    let written = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let mut addresses: Vec<IpAddr> = written.filter_map(|address| address.parse().ok()).collect();
    addresses.sort();
    addresses.dedup();
    if addresses.is_empty() { Reach::Headless } else { Reach::ClusterIps(addresses) }
}
