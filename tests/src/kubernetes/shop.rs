//! A small shop to test with: Services and the slices that a cluster's own controllers would fill.

use super::{Client, Cluster};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// The namespace of the shop.
pub const NAMESPACE: &str = "shop";

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its zone, or none.
    pub zone: String,
    /// Its node, or none.
    pub node: String,
    /// Whether it is ready.
    pub ready: bool,
}

impl Endpoint {
    /// A ready endpoint in a zone, on no node.
    pub fn new(address: impl Into<Ipv4Addr>, zone: &str) -> Self {
        let address = address.into();
        Self { address, zone: zone.to_owned(), node: String::new(), ready: true }
    }

    /// The same on a node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        node.clone_into(&mut self.node);
        self
    }

    fn json(&self) -> Value {
        let mut value = json!({"addresses": [self.address], "conditions": {"ready": self.ready},
            "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": format!("pod-{}", self.address), "uid": format!("uid-{}", self.address)}});
        let known = [("zone", &self.zone), ("nodeName", &self.node)];
        for (key, text) in known.into_iter().filter(|(_, text)| !text.is_empty()) {
            value[key] = json!(text);
        }
        value
    }
}

/// A Service of one port 80.
pub fn service(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": name, "annotations": annotations},
        "spec": {"ports": [{"port": 80, "targetPort": 8080}]}})
}

/// A slice of a Service's endpoints on one port.
pub fn slice(name: &str, service: &str, port: u16, endpoints: &[Endpoint]) -> Value {
    let endpoints: Vec<Value> = endpoints.iter().map(Endpoint::json).collect();
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "", "port": port, "protocol": "TCP"}], "endpoints": endpoints})
}

/// A policy, for Services by name or for its whole namespace.
pub fn policy(namespace: &str, name: &str, targets: &[&str], mut spec: Value) -> Value {
    let targets: Vec<Value> = targets
        .iter()
        .map(|target| json!({"group": "", "kind": "Service", "name": target}))
        .collect();
    if !targets.is_empty() {
        spec["targetRefs"] = json!(targets);
    }
    json!({"apiVersion": "tidegate.io/v1alpha1", "kind": "LocalityPolicy",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

/// A pod that calls, on a node; it never runs.
pub fn caller(name: &str, node: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": name, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}})
}

impl Cluster {
    /// The shop's namespace, three nodes `node-a` to `node-c` in the zones `a` to `c` of the region `r`, and the Service `cart`.
    pub fn shop(&self) {
        self.namespace(NAMESPACE);
        self.namespace("tidegate");
        for zone in ["a", "b", "c"] {
            self.node(&format!("node-{zone}"), zone, "r");
        }
        self.client().apply(service("cart", &json!({})));
    }
}

impl Client {
    /// The address of a Service of the shop, with its port.
    pub fn address_of(&self, service: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/services/{service}");
        let service = self.get(&path).unwrap();
        format!("{}:80", service["spec"]["clusterIP"].as_str().unwrap())
    }
}
