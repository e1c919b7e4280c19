//! Precedence, step by step; conflicts; status.

use super::build::{World, endpoint, shop};
use crate::index::key::Key;
use crate::index::place::Proxy;
use crate::index::status::Verdict;
use crate::index::{Change, Interest};
use serde_json::{Value, json};

fn for_cart(mode: &str) -> Value {
    json!({ "targetRefs": [{ "group": "", "kind": "Service", "name": "cart" }], "mode": mode })
}

fn mode(world: &World) -> String {
    let policy: Value = serde_json::from_str(&world.view().service.policy.unwrap().json).unwrap();
    policy["mode"].as_str().unwrap().to_owned()
}

#[test]
fn the_most_specific_object_holds_whole() {
    let mut world = shop();
    let touched =
        |dirty: &crate::index::Dirty| dirty.contains(&Interest::Service(Key::new("shop", "cart")));
    assert_eq!(world.source(), "default");

    assert!(touched(&world.policy(
        "tidegate",
        "mesh",
        1,
        json!({ "mode": "Proportional", "percent": 50 })
    )));
    assert_eq!(world.source(), "mesh_default tidegate/mesh");
    assert_eq!(mode(&world), "Proportional");

    assert!(touched(
        &world.service(json!({ "spec": { "trafficDistribution": "PreferSameZone" } }))
    ));
    assert_eq!(world.source(), "traffic_distribution shop/cart");

    assert!(touched(&world.namespace("shop", json!({ "tidegate.io/locality-mode": "Off" }))));
    assert_eq!(world.source(), "namespace_annotation shop");

    assert!(touched(&world.policy("shop", "all", 2, json!({ "mode": "Pinned" }))));
    assert_eq!(world.source(), "namespace_policy shop/all");

    let annotated =
        json!({ "metadata": { "annotations": { "tidegate.io/load-band": "1.3,1.6" } } });
    assert!(touched(&world.service(annotated)));
    assert_eq!(world.source(), "service_annotation shop/cart");
    assert_eq!(mode(&world), "Adaptive", "whole: the namespace's mode is not merged in");

    assert!(touched(&world.policy("shop", "cart", 3, for_cart("Pinned"))));
    assert_eq!(world.source(), "service_policy shop/cart");

    // And back, as each goes away.
    assert!(touched(&world.apply(Change::Policy(Key::new("shop", "cart"), None))));
    assert_eq!(world.source(), "service_annotation shop/cart");
    world.service(json!({}));
    assert_eq!(world.source(), "namespace_policy shop/all");
    world.apply(Change::Policy(Key::new("shop", "all"), None));
    world.namespace("shop", json!({}));
    assert_eq!(world.source(), "mesh_default tidegate/mesh");
    assert!(touched(&world.apply(Change::Policy(Key::new("tidegate", "mesh"), None))));
    assert_eq!(world.source(), "default");
}

#[test]
fn the_callers_pod_goes_before_all_but_what_kubernetes_promises() {
    let mut world = shop();
    let proxy =
        Proxy { pod: Some(Key::new("shop", "till-1")), node: "n1".into(), ..Proxy::default() };
    assert_eq!(world.0.place(&proxy).policy, None);
    let dirty = world.pod("till-1", json!({ "balancer.buoyant.io/load-band": "0.8,2.0" }));
    assert!(dirty.contains(&proxy.interests()[0]));
    let policy = world.0.place(&proxy).policy.unwrap();
    assert_eq!((&*policy.source, &*policy.object), ("client_pod_annotation", "shop/till-1"));
    let json: Value = serde_json::from_str(&policy.json).unwrap();
    assert_eq!(json["load"], json!({ "signal": "Outstanding", "low": 0.8, "high": 2 }));

    world.service(json!({ "spec": { "internalTrafficPolicy": "Local" } }));
    let fixed = world.view().service.policy.unwrap();
    assert!(fixed.fixed);
    assert_eq!(fixed.source, "internal_traffic_policy");
    let json: Value = serde_json::from_str(&fixed.json).unwrap();
    assert_eq!((&json["mode"], &json["tiers"]), (&json!("Pinned"), &json!(["node"])));
}

#[test]
fn aliases_of_other_meshes_are_understood() {
    let mut world = shop();
    let annotate = |world: &mut World, key: &str, value: &str| {
        world.service(json!({ "metadata": { "annotations": { key: value } } }));
    };
    annotate(&mut world, "zalando.org/traffic-zone-aware", "false");
    assert_eq!(mode(&world), "Off");
    annotate(&mut world, "service.kubernetes.io/topology-mode", "Auto");
    assert_eq!(mode(&world), "Proportional");
    annotate(&mut world, "balancer.buoyant.io/load-band", "0.8,2.0");
    assert!(world.view().service.policy.unwrap().json.contains("Outstanding"));
}

#[test]
fn a_place_is_the_pods_annotation_or_the_nodes_label() {
    let mut world = shop();
    let proxy =
        Proxy { pod: Some(Key::new("shop", "till-1")), node: "n1".into(), ..Proxy::default() };
    assert_eq!(world.0.place(&proxy).zone, "");
    let dirty = world.node(
        "n1",
        json!({ "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r" }),
    );
    assert!(dirty.contains(&Interest::Node("n1".into())));
    let place = world.0.place(&proxy);
    assert_eq!((&*place.zone, &*place.region, &*place.node), ("a", "r", "n1"));
    world.pod("till-1", json!({ "tidegate.io/zone": "b" }));
    let place = world.0.place(&proxy);
    assert_eq!((&*place.zone, &*place.region), ("b", "r"));
}

#[test]
fn the_older_of_two_policies_for_one_target_holds() {
    let mut world = shop();
    world.policy("shop", "young", 9, for_cart("Off"));
    world.policy("shop", "old", 1, for_cart("Pinned"));
    assert_eq!(world.source(), "service_policy shop/old");
    let statuses = world.0.policy_statuses();
    let verdicts: Vec<_> =
        statuses.iter().map(|(key, targets)| (&*key.name, targets[0].verdict)).collect();
    assert_eq!(verdicts, [("old", Verdict::Accepted), ("young", Verdict::Conflicted)]);
}

#[test]
fn status_names_every_target_and_every_mistake() {
    let mut world = shop();
    world.slice("one", &[json!({ "addresses": ["10.0.0.1"] }), endpoint("10.0.0.2", "a")]);
    let both = json!({ "targetRefs": [{ "kind": "Service", "name": "cart" }, { "kind": "Service", "name": "none" }] });
    world.policy("shop", "both", 1, both);
    world.policy(
        "shop",
        "junk",
        2,
        json!({ "mode": "Pinned", "percent": 400, "maxRemotePercent": -1 }),
    );
    world.policy("shop", "typo", 3, json!({ "mod": "Pinned" }));
    world.policy(
        "shop",
        "deployment",
        4,
        json!({ "targetRefs": [{ "group": "apps", "kind": "Deployment", "name": "cart" }] }),
    );
    let statuses = world.0.policy_statuses();
    let of = |name: &str| &statuses.iter().find(|(key, _)| &*key.name == name).unwrap().1;
    let both: Vec<_> = of("both")
        .iter()
        .map(|target| (&*target.name, target.verdict, target.zone_unknown))
        .collect();
    assert_eq!(
        both,
        [("cart", Verdict::Accepted, Some(1)), ("none", Verdict::TargetNotFound, None)]
    );
    assert_eq!(of("junk")[0].verdict, Verdict::Invalid);
    let message = &of("junk")[0].message;
    assert!(message.contains("percent:") && message.contains("maxRemotePercent:"), "{message}");
    for name in ["typo", "deployment"] {
        assert_eq!(of(name)[0].verdict, Verdict::Invalid, "{name}");
    }
    assert_eq!(world.source(), "service_policy shop/both", "a policy with mistakes never holds");
}

#[test]
fn a_policy_is_overridden_by_what_a_service_asks_of_kubernetes() {
    let external = json!({ "type": "ExternalName", "externalName": "example.org", "clusterIP": null, "clusterIPs": null });
    let cases = [
        (external, "type ExternalName"),
        (json!({ "sessionAffinity": "ClientIP" }), "sessionAffinity ClientIP"),
        (json!({ "internalTrafficPolicy": "Local" }), "internalTrafficPolicy Local"),
    ];
    for (spec, setting) in cases {
        let mut world = shop();
        world.policy("shop", "cart", 1, for_cart("Pinned"));
        assert_eq!(world.0.policy_statuses()[0].1[0].verdict, Verdict::Accepted);
        world.service(json!({ "spec": spec }));
        let status = &world.0.policy_statuses()[0].1[0];
        assert_eq!(status.verdict, Verdict::Overridden, "{setting}");
        assert_eq!(status.message, format!("{setting} of Service shop/cart goes before"));
        let events = world.0.findings(&Interest::Policies);
        assert_eq!(events.iter().map(|event| event.reason).collect::<Vec<_>>(), ["Overridden"]);
    }
}
