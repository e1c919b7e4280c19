//! Objects as JSON, and an index to put them in.
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

use crate::index::key::{Cluster, Key, ServiceId};
use crate::index::object::{LocalityPolicy, Namespace, Node, Pod, Service, Slice, key};
use crate::index::resolve::{Destination, Target};
use crate::index::view::View;
use crate::index::{Change, Dirty, Index, Settings};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(super) struct World(pub(super) Index);

pub(super) fn world() -> World {
    World(Index::new(Settings { namespace: "tidegate".into(), domain: "cluster.local".into() }))
}

/// An empty index with one Service `shop/cart` at 10.96.0.7, port 80 by the name `http`.
pub(super) fn shop() -> World {
    let mut world = world();
    world.service(json!({}));
    world
}

pub(super) fn cart() -> ServiceId {
    ServiceId { service: Key::new("shop", "cart"), port: 80 }
}

fn parse<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Fields of `over` replace those of `value`, objects merged.
fn merge(value: &mut Value, over: Value) {
    match (value, over) {
        (Value::Object(value), Value::Object(over)) => {
            for (name, field) in over {
                merge(value.entry(name).or_insert(Value::Null), field);
            }
        }
        (value, over) => *value = over,
    }
}

/// One endpoint of a slice.
pub(super) fn endpoint(address: &str, zone: &str) -> Value {
    json!({ "addresses": [address], "zone": zone, "nodeName": format!("node-{zone}"),
            "targetRef": { "kind": "Pod", "uid": format!("uid-{address}") } })
}

impl World {
    pub(super) fn apply(&mut self, change: Change) -> Dirty {
        self.0.apply(&Cluster::Home, change)
    }

    pub(super) fn service(&mut self, over: Value) -> Dirty {
        let change = service(over);
        self.apply(change)
    }

    pub(super) fn slice(&mut self, name: &str, endpoints: &[Value]) -> Dirty {
        let change = slice(name, json!({ "endpoints": endpoints }));
        self.apply(change)
    }

    pub(super) fn node(&mut self, name: &str, labels: Value) -> Dirty {
        let change = node(name, labels);
        self.apply(change)
    }

    pub(super) fn namespace(&mut self, name: &str, annotations: Value) -> Dirty {
        let meta: ObjectMeta =
            parse(json!({ "name": name, "uid": "n1", "annotations": annotations }));
        self.apply(Change::Namespace(name.into(), Some(Namespace::read(&meta))))
    }

    pub(super) fn pod(&mut self, name: &str, annotations: Value) -> Dirty {
        let meta: ObjectMeta =
            parse(json!({ "name": name, "uid": "p1", "annotations": annotations }));
        self.apply(Change::Pod(Key::new("shop", name), Pod::read(&meta)))
    }

    /// `age` orders policies: the lower, the older.
    pub(super) fn policy(&mut self, namespace: &str, name: &str, age: u32, spec: Value) -> Dirty {
        let meta: ObjectMeta = parse(json!({ "namespace": namespace, "name": name, "uid": "l1",
            "creationTimestamp": format!("2026-01-01T00:00:{age:02}Z") }));
        let policy = LocalityPolicy::read(&meta, &spec, &Value::Null);
        self.apply(Change::Policy(Key::new(namespace, name), Some(policy)))
    }

    pub(super) fn view(&self) -> View {
        self.0.view(&cart()).unwrap()
    }

    /// `address zone/region/node`, with ` draining` where it is.
    pub(super) fn endpoints(&self) -> Vec<String> {
        let shown = self.view().service.endpoints.into_iter().map(|endpoint| {
            let state = if endpoint.state == 2 { " draining" } else { "" };
            let api::discovery::Endpoint { address, zone, region, node, .. } = endpoint;
            format!("{address} {zone}/{region}/{node}{state}")
        });
        shown.collect()
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.view().service.endpoints.into_iter().map(|endpoint| endpoint.address).collect()
    }

    /// Source and object of the policy that holds for `shop/cart`.
    pub(super) fn source(&self) -> String {
        let policy = self.view().service.policy.unwrap();
        format!("{} {}", policy.source, policy.object).trim().to_owned()
    }

    pub(super) fn resolve(&self, destination: &str) -> Target {
        let address = destination.parse().ok().map(Destination::Address);
        let destination = address.or_else(|| Destination::name(destination)).unwrap();
        self.0.resolve(&destination, "shop")
    }
}

pub(super) fn service(over: Value) -> Change {
    let mut value = json!({
        "metadata": { "namespace": "shop", "name": "cart", "uid": "s1" },
        "spec": {
            "type": "ClusterIP", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ipFamilies": ["IPv4"],
            "ports": [{ "name": "http", "port": 80, "targetPort": "web", "protocol": "TCP" }],
        },
    });
    merge(&mut value, over);
    let service: k8s_openapi::api::core::v1::Service = parse(value);
    Change::Service(key(&service.metadata).unwrap(), Some(Service::read(&service)))
}

pub(super) fn slice(name: &str, over: Value) -> Change {
    let mut value = json!({
        "metadata": { "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": "cart" } },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": [],
    });
    merge(&mut value, over);
    let slice: k8s_openapi::api::discovery::v1::EndpointSlice = parse(value);
    Change::Slice(key(&slice.metadata).unwrap(), Some(Slice::read(&slice)))
}

pub(super) fn no_slice(name: &str) -> Change {
    Change::Slice(Key::new("shop", name), None)
}

pub(super) fn node(name: &str, labels: Value) -> Change {
    let meta: ObjectMeta = parse(json!({ "name": name, "labels": labels }));
    Change::Node(name.into(), Some(Node::read(&meta)))
}
