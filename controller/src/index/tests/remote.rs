//! Endpoints of other clusters.

use super::build::{cart, endpoint, node, service, shop, slice, world};
use crate::index::Change;
use crate::index::key::{Cluster, Key};
use crate::index::object::Service;
use crate::index::resolve::Target;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

fn east() -> Cluster {
    Cluster::Remote("east".into())
}

#[test]
fn exported_services_add_their_endpoints_with_their_zones() {
    let mut world = shop();
    world.slice("one", &[endpoint("10.0.0.1", "a")]);
    world.0.apply(&east(), service(json!({})));
    world.0.apply(
        &east(),
        slice(
            "one",
            json!({ "endpoints": [endpoint("10.1.0.1", "a"), endpoint("10.1.0.2", "b")] }),
        ),
    );
    assert_eq!(world.addresses(), ["10.0.0.1:8080"], "not exported");
    let dirty = world.0.apply(&east(), Change::Export(Key::new("shop", "cart"), true));
    assert_eq!(dirty.len(), 1);
    assert_eq!(
        world.endpoints(),
        ["10.0.0.1:8080 a//node-a", "10.1.0.1:8080 a//east/node-a", "10.1.0.2:8080 b//east/node-b"]
    );
    assert_eq!(world.0.forget("east").len(), 1);
    assert_eq!(world.addresses(), ["10.0.0.1:8080"]);
}

#[test]
fn ports_are_the_same_by_number() {
    let mut world = shop();
    world
        .0
        .apply(&east(), service(json!({ "spec": { "ports": [{ "name": "web", "port": 80 }] } })));
    world.0.apply(&east(), slice("one", json!({ "ports": [{ "name": "web", "port": 8888 }], "endpoints": [endpoint("10.1.0.1", "a")] })));
    world.0.apply(&east(), Change::Export(Key::new("shop", "cart"), true));
    assert_eq!(world.addresses(), ["10.1.0.1:8888"]);
}

#[test]
fn zones_are_compared_by_id_where_there_is_one() {
    let mut world = shop();
    let labels = |zone: &str, id: &str| json!({ "topology.kubernetes.io/zone": zone, "topology.k8s.aws/zone-id": id });
    world.node("node-a", labels("a", "use1-az1"));
    world.node("node-b", labels("b", "use1-az2"));
    // In the other account the same zones have each other's names, and there is one that home does not know.
    for (zone, id) in [("a", "use1-az2"), ("b", "use1-az1"), ("c", "use1-az3")] {
        world.0.apply(&east(), node(&format!("node-{zone}"), labels(zone, id)));
    }
    let there = [endpoint("10.1.0.1", "a"), endpoint("10.1.0.2", "b"), endpoint("10.1.0.3", "c")];
    world.0.apply(&east(), slice("one", json!({ "endpoints": there })));
    world.0.apply(&east(), Change::Export(Key::new("shop", "cart"), true));
    assert_eq!(
        world.endpoints(),
        [
            "10.1.0.1:8080 b//east/node-a",
            "10.1.0.2:8080 a//east/node-b",
            "10.1.0.3:8080 use1-az3//east/node-c",
        ]
    );
}

#[test]
fn remote_policies_and_addresses_are_not_ours() {
    let mut world = shop();
    let dirty = world.0.apply(
        &east(),
        service(json!({ "metadata": { "name": "till" }, "spec": { "clusterIPs": ["10.96.0.9"] } })),
    );
    assert_eq!(dirty.len(), 1);
    assert_eq!(
        world.resolve("10.96.0.9:80"),
        Target::Passthrough(api::discovery::Passthrough::Unknown)
    );
}

#[test]
fn an_imported_service_needs_no_counterpart_here() {
    let mut world = world();
    let key = Key::new("shop", "cart");
    world.0.apply(&east(), service(json!({})));
    world.0.apply(&east(), slice("one", json!({ "endpoints": [endpoint("10.1.0.1", "a")] })));
    world.0.apply(&east(), Change::Export(key.clone(), true));
    let spec = json!({ "type": "ClusterSetIP", "ips": ["10.42.0.7"],
        "ports": [{ "name": "http", "protocol": "TCP", "port": 80 }] });
    let import = Service::read_import(&ObjectMeta::default(), &spec);
    world.apply(Change::Import(key.clone(), Some(import)));
    for destination in ["10.42.0.7:80", "cart.shop.svc.clusterset.local:80"] {
        assert_eq!(world.resolve(destination), Target::Service(cart()), "{destination}");
    }
    assert_eq!(world.addresses(), ["10.1.0.1:8080"]);
    assert_eq!(world.0.service_ids(), [cart()]);
    let dirty = world.apply(Change::Import(key, None));
    assert_eq!(dirty.len(), 3, "address, service and policies: {dirty:?}");
    assert_ne!(world.resolve("10.42.0.7:80"), Target::Service(cart()));
}
