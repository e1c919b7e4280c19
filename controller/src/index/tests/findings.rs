//! What authors are told.

use super::build::{shop, slice};
use crate::index::Interest;
use crate::index::finding::zone_unknown;
use crate::index::key::Key;
use crate::index::place::Proxy;
use serde_json::{Value, json};

#[test]
fn every_setting_that_is_not_followed_is_told_on_its_object() {
    let cases: [(Value, &[&str]); 6] = [
        (json!({}), &[]),
        (
            json!({ "metadata": { "annotations": { "tidegate.io/load-band": "wide", "tidegate.io/locality-mode": "Strict" } } }),
            &["InvalidAnnotation", "InvalidAnnotation"],
        ),
        (json!({ "spec": { "sessionAffinity": "ClientIP" } }), &["SessionAffinity"]),
        (
            json!({ "spec": { "trafficDistribution": "PreferSameRack" } }),
            &["UnknownTrafficDistribution"],
        ),
        (json!({ "spec": { "internalTrafficPolicy": "Local" } }), &[]),
        (
            json!({ "spec": { "internalTrafficPolicy": "Local" }, "metadata": { "annotations": { "tidegate.io/locality-mode": "Off" } } }),
            &["PolicyIgnored"],
        ),
    ];
    for (service, wanted) in cases {
        let mut world = shop();
        world.service(service.clone());
        let found = world.0.findings(&Interest::Service(Key::new("shop", "cart")));
        let reasons: Vec<&str> = found.iter().map(|finding| finding.reason).collect();
        assert_eq!(reasons, wanted, "{service}");
        assert!(
            found.iter().all(|finding| finding.regarding.uid == "s1" && !finding.note.is_empty())
        );
    }
}

#[test]
fn host_names_in_slices_are_told() {
    let mut world = shop();
    let names = json!({ "addressType": "FQDN", "endpoints": [{ "addresses": ["a.example.org"] }] });
    world.apply(slice("names", names));
    assert_eq!(
        world.0.findings(&Interest::Service(Key::new("shop", "cart")))[0].reason,
        "HostNamesIgnored"
    );
}

#[test]
fn namespaces_pods_and_policies_are_told_too() {
    let mut world = shop();
    assert!(
        world
            .namespace("shop", json!({ "tidegate.io/load-band": "2,1" }))
            .contains(&Interest::Namespace("shop".into()))
    );
    assert_eq!(world.0.findings(&Interest::Namespace("shop".into()))[0].regarding.uid, "n1");
    world.pod("till-1", json!({ "tidegate.io/locality-mode": "?" }));
    assert_eq!(world.0.findings(&Interest::Pod(Key::new("shop", "till-1")))[0].regarding.uid, "p1");
    world.policy(
        "shop",
        "none",
        1,
        json!({ "targetRefs": [{ "kind": "Service", "name": "none" }] }),
    );
    world.policy("shop", "fine", 1, json!({ "mode": "Off" }));
    let reasons: Vec<_> =
        world.0.findings(&Interest::Policies).iter().map(|finding| finding.reason).collect();
    assert_eq!(reasons, ["TargetNotFound"]);
}

#[test]
fn a_proxy_without_zone_is_told_why() {
    let mut proxy = Proxy::default();
    assert_eq!(zone_unknown(&proxy), None, "there is no pod to tell");
    proxy.pod = Some(Key::new("shop", "till-1"));
    assert!(zone_unknown(&proxy).unwrap().note.contains("token"));
    proxy.node = "n1".into();
    assert!(zone_unknown(&proxy).unwrap().note.contains("node n1"));
}
