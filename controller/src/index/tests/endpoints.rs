//! Slices merged, ports matched, families chosen, zones found.

use super::build::{cart, endpoint, no_slice, shop, slice, world};
use crate::index::key::{Key, ServiceId};
use serde_json::{Value, json};

#[test]
fn ports_are_matched_by_the_name_of_the_services_port() {
    // (service port, slice ports, number that endpoints listen on)
    let cases: [(Value, Value, Option<u16>); 6] = [
        (
            json!({ "name": "http", "port": 80, "targetPort": "web" }),
            json!([{ "name": "http", "port": 8080 }]),
            Some(8080),
        ),
        (
            json!({ "name": "http", "port": 80, "targetPort": 9000 }),
            json!([{ "name": "http", "port": 9000 }, { "name": "admin", "port": 9001 }]),
            Some(9000),
        ),
        (json!({ "port": 80 }), json!([{ "name": "", "port": 8080 }]), Some(8080)),
        (json!({ "port": 80 }), json!([{ "port": 8080 }]), Some(8080)),
        (json!({ "name": "http", "port": 80 }), json!([{ "name": "web", "port": 8080 }]), None),
        (
            json!({ "name": "http", "port": 80 }),
            json!([{ "name": "http", "port": 8080, "protocol": "UDP" }]),
            None,
        ),
    ];
    for (service_port, slice_ports, number) in cases {
        let mut world = world();
        world.service(json!({ "spec": { "ports": [service_port.clone()] } }));
        world.apply(slice(
            "one",
            json!({ "ports": slice_ports.clone(), "endpoints": [endpoint("10.0.0.1", "a")] }),
        ));
        let wanted: Vec<String> =
            number.map(|number| format!("10.0.0.1:{number}")).into_iter().collect();
        assert_eq!(world.addresses(), wanted, "{service_port} {slice_ports}");
    }
}

#[test]
fn pods_of_one_service_may_listen_on_different_ports() {
    let mut world = shop();
    world.slice("one", &[endpoint("10.0.0.1", "a")]);
    let moved = json!({ "ports": [{ "name": "http", "port": 9090 }], "endpoints": [endpoint("10.0.0.2", "a")] });
    world.apply(slice("two", moved));
    assert_eq!(world.addresses(), ["10.0.0.1:8080", "10.0.0.2:9090"]);
}

#[test]
fn each_port_of_a_service_has_its_own_endpoints() {
    let mut world = world();
    world.service(json!({ "spec": { "ports": [{ "name": "http", "port": 80 }, { "name": "grpc", "port": 90, "appProtocol": "kubernetes.io/h2c" }] } }));
    world.apply(slice(
        "one",
        json!({ "ports": [{ "name": "http", "port": 8080 }, { "name": "grpc", "port": 9090 }],
        "endpoints": [endpoint("10.0.0.1", "a")] }),
    ));
    let grpc =
        world.0.view(&ServiceId { service: Key::new("shop", "cart"), port: 90 }).unwrap().service;
    assert_eq!(grpc.endpoints[0].address, "10.0.0.1:9090");
    assert_eq!(grpc.app_protocol, "kubernetes.io/h2c");
    assert_eq!(world.addresses(), ["10.0.0.1:8080"]);
}

#[test]
fn a_dual_stack_pod_is_one_endpoint_in_the_services_first_family() {
    let both = ["10.0.0.1", "fd00::1"];
    let family = |address: &str| {
        let mut value = endpoint(address, "a");
        value["targetRef"]["uid"] = json!("pod-1");
        let family = if address.contains(':') { "IPv6" } else { "IPv4" };
        slice(family, json!({ "addressType": family, "endpoints": [value] }))
    };
    for (first, wanted, other) in
        [("IPv4", "10.0.0.1:8080", "fd00::1"), ("IPv6", "[fd00::1]:8080", "10.0.0.1")]
    {
        for order in [both, [both[1], both[0]]] {
            let mut world = world();
            world.service(json!({ "spec": { "ipFamilies": [first] } }));
            for address in order {
                world.apply(family(address));
            }
            assert_eq!(world.addresses(), [wanted], "{first} first, slices in the order {order:?}");
            world.apply(no_slice(first));
            assert!(
                world.addresses()[0].contains(other),
                "the other family is left: {:?}",
                world.addresses()
            );
        }
    }
}

#[test]
fn pods_without_uid_keep_both_families() {
    let mut world = shop();
    let bare = |address: &str| json!({ "addresses": [address] });
    world.apply(slice("4", json!({ "endpoints": [bare("10.0.0.1")] })));
    world.apply(slice("6", json!({ "addressType": "IPv6", "endpoints": [bare("fd00::1")] })));
    assert_eq!(world.addresses(), ["10.0.0.1:8080", "[fd00::1]:8080"]);
}

#[test]
fn only_the_first_address_counts_and_junk_is_left_out() {
    let mut world = shop();
    let odd = json!({ "endpoints": [{ "addresses": ["10.0.0.1", "10.0.0.2"] }, { "addresses": ["not an address"] }] });
    world.apply(slice("one", odd));
    world.apply(slice(
        "names",
        json!({ "addressType": "FQDN", "endpoints": [{ "addresses": ["a.example.org"] }] }),
    ));
    assert_eq!(world.addresses(), ["10.0.0.1:8080"]);
}

#[test]
fn the_zone_is_the_slices_or_else_the_nodes_and_follows_late_labels() {
    let mut world = shop();
    world.slice(
        "one",
        &[json!({ "addresses": ["10.0.0.1"], "nodeName": "n1" }), endpoint("10.0.0.2", "b")],
    );
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 //n1", "10.0.0.2:8080 b//node-b"]);

    let labels =
        json!({ "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r" });
    assert!(!world.node("n1", labels.clone()).is_empty());
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 a/r/n1", "10.0.0.2:8080 b//node-b"]);
    assert!(world.node("n1", labels).is_empty(), "what did not change touches nothing");

    let beta = json!({ "failure-domain.beta.kubernetes.io/zone": "b", "failure-domain.beta.kubernetes.io/region": "s" });
    world.node("n1", beta);
    // The zone's region is learnt from any of its nodes.
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 b/s/n1", "10.0.0.2:8080 b/s/node-b"]);

    world.apply(crate::index::Change::Node("n1".into(), None));
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 //n1", "10.0.0.2:8080 b//node-b"]);
}

#[test]
fn a_service_without_endpoints_has_none_and_one_that_is_gone_says_so() {
    let mut world = shop();
    assert_eq!(world.addresses(), Vec::<String>::new());
    world.apply(crate::index::Change::Service(Key::new("shop", "cart"), None));
    assert_eq!(world.0.view(&cart()), None);
}

#[test]
fn slices_may_come_before_their_service() {
    let mut world = world();
    world.slice("one", &[endpoint("10.0.0.1", "a")]);
    assert_eq!(world.0.view(&cart()), None);
    world.service(json!({}));
    assert_eq!(world.addresses(), ["10.0.0.1:8080"]);
}

#[test]
fn a_slice_that_moves_to_another_service_leaves_the_first() {
    let mut world = shop();
    world.slice("one", &[endpoint("10.0.0.1", "a")]);
    let label = json!({ "metadata": { "labels": { "kubernetes.io/service-name": "till" } } });
    assert_eq!(world.apply(slice("one", label)).len(), 2);
    assert_eq!(world.addresses(), Vec::<String>::new());
}

#[test]
fn a_change_says_what_came_and_went() {
    let mut world = shop();
    world.slice(
        "one",
        &[endpoint("10.0.0.1", "a"), endpoint("10.0.0.2", "b"), endpoint("10.0.0.3", "c")],
    );
    let before = world.view();
    world.slice(
        "one",
        &[endpoint("10.0.0.4", "a"), endpoint("10.0.0.2", "c"), endpoint("10.0.0.3", "c")],
    );
    let after = world.view();
    let change = after.since(&before);
    let upserted: Vec<&str> = change.upserted.iter().map(|endpoint| &*endpoint.address).collect();
    assert_eq!(upserted, ["10.0.0.2:8080", "10.0.0.4:8080"]);
    assert_eq!(change.removed, ["10.0.0.1:8080"]);
    assert_eq!((change.base, change.version), (before.version(), after.version()));
    assert_eq!(change.service, None);

    world.service(json!({ "spec": { "trafficDistribution": "PreferSameNode" } }));
    let change = world.view().since(&after);
    assert!(change.upserted.is_empty() && change.removed.is_empty());
    assert_eq!(change.service.unwrap().policy.unwrap().source, "traffic_distribution");
}

#[test]
fn another_pod_at_the_same_address_is_a_change() {
    let mut world = shop();
    world.slice("one", &[endpoint("10.0.0.1", "a")]);
    let before = world.view();
    let mut other = endpoint("10.0.0.1", "a");
    other["targetRef"]["uid"] = json!("another");
    world.slice("one", &[other]);
    assert_eq!(world.view().since(&before).upserted[0].uid, "another");
}
