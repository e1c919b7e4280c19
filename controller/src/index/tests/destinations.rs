//! What addresses and names are.

use super::build::{cart, shop, world};
use crate::index::Interest;
use crate::index::key::Key;
use crate::index::resolve::{Destination, Target};
use api::discovery::Passthrough;
use serde_json::json;

#[test]
fn a_service_is_known_by_its_addresses_and_names() {
    let mut world = world();
    world.service(json!({ "spec": { "clusterIPs": ["10.96.0.7", "fd00::7"], "ipFamilies": ["IPv4", "IPv6"] } }));
    for destination in [
        "10.96.0.7:80",
        "[fd00::7]:80",
        "cart:80",
        "cart.shop:80",
        "CART.shop:80",
        "cart.shop.svc:80",
        "cart.shop.svc.cluster.local:80",
        "cart.shop.svc.cluster.local.:80",
        "cart.shop.svc.clusterset.local:80",
    ] {
        assert_eq!(world.resolve(destination), Target::Service(cart()), "{destination}");
    }
    for destination in [
        "10.96.0.8:80",
        "10.96.0.7:81",
        "cart:81",
        "cart.other:80",
        "cart.shop.svc.example.org:80",
        "cart.shop.pod:80",
        "a.cart.shop.svc.cluster.local:80",
        "example.org:80",
        ".shop:80",
    ] {
        let unknown = Target::Passthrough(Passthrough::Unknown);
        assert_eq!(world.resolve(destination), unknown, "{destination}");
    }
}

#[test]
fn hostile_names_are_none() {
    let long = format!("{}:80", "a.".repeat(200));
    for text in [
        "",
        ":80",
        "cart",
        "cart:",
        "cart:http",
        "cart:70000",
        "[::1:80",
        "a/b:80",
        "a:b:80",
        &long,
    ] {
        assert_eq!(Destination::name(text), None, "{text}");
    }
}

#[test]
fn services_of_other_kinds_are_passed_through() {
    let cases = [
        (
            json!({ "type": "ExternalName", "externalName": "example.org", "clusterIP": null, "clusterIPs": null }),
            Target::Passthrough(Passthrough::ExternalName),
        ),
        (
            json!({ "sessionAffinity": "ClientIP" }),
            Target::Passthrough(Passthrough::SessionAffinity),
        ),
        (
            json!({ "ports": [{ "port": 80, "protocol": "UDP" }] }),
            Target::Passthrough(Passthrough::Unknown),
        ),
        // By name, no pod has been chosen yet.
        (json!({ "clusterIP": "None", "clusterIPs": ["None"] }), Target::Service(cart())),
        (json!({ "type": "NodePort" }), Target::Service(cart())),
        (json!({ "type": "LoadBalancer" }), Target::Service(cart())),
    ];
    for (spec, target) in cases {
        let mut world = world();
        world.service(json!({ "spec": spec.clone() }));
        assert_eq!(world.resolve("cart.shop:80"), target, "{spec}");
    }
}

#[test]
fn headless_services_have_no_address() {
    let mut world = world();
    world.service(json!({ "spec": { "clusterIP": "None", "clusterIPs": ["None"] } }));
    assert_eq!(world.resolve("10.0.0.1:80"), Target::Passthrough(Passthrough::Unknown));
}

#[test]
fn an_address_that_moves_to_another_service_is_asked_again() {
    let mut world = shop();
    let address = Interest::Address([10, 96, 0, 7].into());
    // The new owner comes before the old one's deletion is heard.
    let dirty = world.service(json!({ "metadata": { "name": "till" } }));
    assert!(dirty.contains(&address));
    let gone = crate::index::Change::Service(Key::new("shop", "cart"), None);
    assert!(world.apply(gone).contains(&address));
    let till = crate::index::key::ServiceId { service: Key::new("shop", "till"), port: 80 };
    assert_eq!(world.resolve("10.96.0.7:80"), Target::Service(till));
}

#[test]
fn a_name_waits_for_its_service() {
    let mut world = world();
    let name = Destination::name("cart:80").unwrap();
    let waits = world.0.interests(&name, "shop");
    assert_eq!(waits, [Interest::Service(Key::new("shop", "cart"))]);
    assert!(world.service(json!({})).contains(&waits[0]));
}
