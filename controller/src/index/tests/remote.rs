//! Endpoints of other clusters.

use super::build::{endpoint, node, service, shop, slice};
use crate::index::Change;
use crate::index::key::{Cluster, Key};
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
        crate::index::resolve::Target::Passthrough(api::discovery::Passthrough::Unknown)
    );
}
