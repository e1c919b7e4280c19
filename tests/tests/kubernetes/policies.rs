//! Policies and annotations on live objects: which holds, how soon, and what their authors are told.

use serde_json::{Value, json};
use tests::controller::Controller;
use tests::deadline::{Moment, SOON, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::listener::{Heard, Listener, Listeners, Who};
use tests::need;

const CART: &str = "shop/cart:80";

/// Source, object and mode or band of the policy that holds for the cart.
fn policy_of_service(heard: &Heard) -> String {
    let policy = heard.services.get(CART).and_then(|service| service.head.policy.clone());
    let policy = policy.unwrap_or_default();
    shown(&policy.source, &policy.object, &policy.json)
}

fn policy_of_place(heard: &Heard) -> String {
    let policy = heard.place.clone().unwrap_or_default().policy.unwrap_or_default();
    shown(&policy.source, &policy.object, &policy.json)
}

fn shown(source: &str, object: &str, json: &str) -> String {
    let json: Value = serde_json::from_str(json).unwrap_or_default();
    let load = &json["load"];
    format!("{source} {object} {} {} {}", text(&json["mode"]), text(&load["signal"]), load["low"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

struct Live {
    cluster: Cluster,
    _controller: Controller,
    _listeners: Listeners,
    listener: Listener,
    slowest: std::time::Duration,
}

impl Live {
    fn start(programs: &Programs) -> Self {
        let cluster = Cluster::start(programs);
        cluster.shop();
        let endpoints = [Endpoint::new([10, 1, 0, 1], "a").on("node-a")];
        cluster.client().apply(shop::slice("cart-1", "cart", 8080, &endpoints));
        let controller = Controller::start(&cluster.kubeconfig(Some(&cluster.controller_token())));
        let listeners = Listeners::new();
        let who = Who {
            namespace: "shop".to_owned(),
            pod: "till".to_owned(),
            node: "node-a".to_owned(),
            token: None,
        };
        let listener = listeners.listen(controller.discovery, &who, &["cart:80"]);
        Self {
            cluster,
            _controller: controller,
            _listeners: listeners,
            listener,
            slowest: std::time::Duration::ZERO,
        }
    }

    /// Applies an object and waits for its effect.
    fn apply(&mut self, object: Value, look: fn(&Heard) -> String, expected: &str) {
        self.act(|cluster| drop(cluster.client().apply(object)), look, expected);
    }

    fn delete(&mut self, object: &Value, look: fn(&Heard) -> String, expected: &str) {
        self.act(|cluster| cluster.client().delete(object), look, expected);
    }

    fn act(&mut self, act: impl FnOnce(&Cluster), look: fn(&Heard) -> String, expected: &str) {
        act(&self.cluster);
        let written = Moment::now();
        self.listener.until(expected, SOON, |heard| {
            let seen = look(heard);
            if seen.starts_with(expected) { Ok(()) } else { Err(seen) }
        });
        self.slowest = self.slowest.max(Moment::now().since(written));
    }
}

fn namespace(annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}})
}

#[test]
fn each_step_of_precedence_holds_on_live_objects() {
    let mut live = Live::start(&need!(Programs::find()));
    let of_service = policy_of_service;
    live.act(|_| {}, of_service, "default  Adaptive Normalized");

    // From the least specific to the most.
    let mesh = shop::policy("tidegate", "mesh", &[], json!({"mode": "Off"}));
    live.apply(mesh.clone(), of_service, "mesh_default tidegate/mesh Off");
    let mut service = shop::service("cart", &json!({}));
    service["spec"]["trafficDistribution"] = json!("PreferClose");
    live.apply(service.clone(), of_service, "traffic_distribution shop/cart Adaptive");
    let annotations = json!({"tidegate.io/locality-mode": "Proportional"});
    live.apply(namespace(&annotations), of_service, "namespace_annotation shop Proportional");
    let of_namespace = shop::policy("shop", "all", &[], json!({"mode": "Pinned"}));
    live.apply(of_namespace.clone(), of_service, "namespace_policy shop/all Pinned");
    service["metadata"]["annotations"] = json!({"tidegate.io/load-band": "1.1,1.9"});
    live.apply(service.clone(), of_service, "service_annotation shop/cart Adaptive Normalized 1.1");
    let one = shop::policy("shop", "cart", &["cart"], json!({"mode": "Off"}));
    live.apply(one.clone(), of_service, "service_policy shop/cart Off");
    let annotations = json!({"tidegate.io/locality-mode": "Pinned"});
    live.apply(
        shop::caller("till", "node-a", &annotations),
        policy_of_place,
        "client_pod_annotation shop/till Pinned",
    );

    // And back.
    live.delete(&shop::caller("till", "node-a", &json!({})), policy_of_place, "   ");
    live.delete(&one, of_service, "service_annotation");
    service["metadata"]["annotations"] = json!({});
    live.apply(service, of_service, "namespace_policy");
    live.delete(&of_namespace, of_service, "namespace_annotation");
    live.apply(namespace(&json!({})), of_service, "traffic_distribution");
    live.apply(shop::service("cart", &json!({})), of_service, "mesh_default");
    live.delete(&mesh, of_service, "default");
    live.listener.assert_consistent();
    println!("the slowest effect took {:?} from the answer of the API server", live.slowest);
}

#[test]
fn aliases_of_other_meshes_hold_on_live_objects() {
    let mut live = Live::start(&need!(Programs::find()));
    let band = json!({"balancer.buoyant.io/load-band": "0.8,2.0"});
    live.apply(
        shop::service("cart", &band),
        policy_of_service,
        "service_annotation shop/cart Adaptive Outstanding 0.8",
    );
    let opt_out = json!({"zalando.org/traffic-zone-aware": "false"});
    live.apply(
        shop::service("cart", &opt_out),
        policy_of_service,
        "service_annotation shop/cart Off",
    );
    live.apply(
        shop::caller("till", "node-a", &band),
        policy_of_place,
        "client_pod_annotation shop/till Adaptive Outstanding 0.8",
    );
    println!("the slowest effect took {:?} from the answer of the API server", live.slowest);
}

#[test]
fn authors_are_told_what_does_not_hold() {
    let mut live = Live::start(&need!(Programs::find()));
    let junk = json!({"tidegate.io/load-band": "lots"});
    live.apply(shop::service("cart", &junk), policy_of_service, "default");
    live.cluster.client().apply(shop::policy("shop", "cart", &["cart", "nobody"], json!({})));
    // Passes the schema, and is a mistake all the same.
    let band = json!({"load": {"signal": "Outstanding", "low": 1.9}});
    live.cluster.client().apply(shop::policy("shop", "mistaken", &["cart"], band));

    let client = live.cluster.client();
    until("an event about the annotation", SOON, || {
        let events = client.get("/apis/events.k8s.io/v1/namespaces/shop/events").unwrap();
        let found = events["items"].as_array().unwrap().iter().any(|event| {
            event["regarding"]["name"] == "cart" && text(&event["note"]).contains("lots")
        });
        if found { Ok(()) } else { Err(events.to_string()) }
    });
    let reasons = |name: &str| {
        let path = format!("/apis/tidegate.io/v1alpha1/namespaces/shop/localitypolicies/{name}");
        let policy = client.get(&path).unwrap();
        let targets = policy["status"]["targets"].as_array().cloned().unwrap_or_default();
        let reasons = targets.iter().map(|target| {
            format!("{}: {}", text(&target["name"]), text(&target["conditions"][0]["reason"]))
        });
        reasons.collect::<Vec<_>>()
    };
    until("a status for each target", SOON, || {
        let seen = [reasons("cart"), reasons("mistaken")].concat();
        let wanted = ["cart: Accepted", "nobody: TargetNotFound", "cart: Invalid"];
        if seen == wanted { Ok(()) } else { Err(seen) }
    });
}

#[test]
fn the_api_server_refuses_what_makes_no_sense() {
    let cluster = Cluster::start(&need!(Programs::find()));
    cluster.shop();
    let client = cluster.client();
    let refused = [
        (json!({"tiers": ["any", "zone"]}), "nearest first"),
        (json!({"tiers": ["zone", "zone"]}), "at most once"),
        (json!({"load": {"low": 2.0, "high": 1.5}}), "high must be above low"),
        (json!({"load": {"low": 0.9, "high": 1.5}}), "low must be above 1"),
        (json!({"load": {"signal": "Outstanding", "low": 0.8, "high": 1.5}}), "more than twice"),
        (json!({"percent": 101}), "less than or equal to 100"),
        (json!({"mode": "Sometimes"}), "Unsupported value"),
        (json!({"modes": "Off"}), "modes"),
        (json!({"retry": {"attempts": 9}}), "retry.attempts"),
    ];
    for (spec, reason) in refused {
        let refusal = client.try_apply(&shop::policy("shop", "cart", &["cart"], spec.clone()));
        let message = refusal.expect_err(&format!("{spec} was taken")).message;
        assert!(message.contains(reason), "{spec}: {message}");
    }
    let whole = json!({
        "mode": "Adaptive", "tiers": ["zone", "any"], "minEndpoints": {"local": 1, "total": 0}, "minHealthyPercent": 0,
        "fallback": "NextTier", "maxRemotePercent": 100, "percent": 100,
        "load": {"signal": "Normalized", "low": 1.2, "high": 1.5}, "failureBudgetPercent": 0.5,
        "overprovisioningPercent": 140, "algorithm": "PeakEwma",
        "breaker": {"consecutive": 5, "successRatePercent": 50, "minRequests": 10, "backoff": {"min": "1s", "max": "15s"}},
        "retry": {"budgetPercent": 20, "attempts": 2, "on": ["connect", "refused-stream", "5xx"], "methods": "idempotent"},
        "timeout": {"connect": "1s"},
    });
    client.apply(shop::policy("shop", "cart", &["cart"], whole));
}
