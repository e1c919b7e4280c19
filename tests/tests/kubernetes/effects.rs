//! How soon a proxy does what the cluster's objects say, and which of several holds.

use crate::mesh::{CART, EFFECT, Mesh};
use serde_json::{Value, json};
use tests::controller::Controller;
use tests::deadline::{Moment, SOON, until};
use tests::folder::Folder;
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::proxy::Proxy;
use tests::{certificate, http, need, ports};

const SOURCE: &str = "/services/0/policy_source";
const MODE: &str = "/services/0/policy/mode";
const SIGNAL: &str = "/services/0/load_band/signal";
const ZONE: &str = "/proxy/zone";

/// Does something to the cluster and waits until the proxy shows it.
fn takes_effect(mesh: &Mesh, act: impl FnOnce(&Cluster), expected: &[(&str, &str)]) {
    act(&mesh.cluster);
    let written = Moment::now();
    until(&format!("{expected:?}"), EFFECT, || {
        let debug = mesh.proxy.debug();
        let shown = |pointer| debug.pointer(pointer).and_then(Value::as_str);
        let seen: Vec<_> = expected.iter().map(|(pointer, _)| shown(pointer)).collect();
        let wanted = expected.iter().map(|(_, value)| Some(*value));
        if wanted.eq(seen.iter().copied()) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
    println!("{expected:?}: {:?} after the API server's answer", Moment::now().since(written));
}

fn applies(mesh: &Mesh, object: Value, expected: &[(&str, &str)]) {
    takes_effect(mesh, |cluster| drop(cluster.client().apply(object)), expected);
}

fn deletes(mesh: &Mesh, object: &Value, expected: &[(&str, &str)]) {
    takes_effect(mesh, |cluster| cluster.client().delete(object), expected);
}

fn start() -> Option<Mesh> {
    let programs = tests::programs::or_skip(Programs::find())?;
    let mesh = Mesh::start(&programs, tests::programs::or_skip(ports::outside())?, 1);
    mesh.until_served();
    mesh.until_endpoints(3);
    Some(mesh)
}

fn cart(annotations: &Value) -> Value {
    shop::service("cart", annotations)
}

fn namespace(annotations: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}})
}

#[test]
fn what_changes_in_the_cluster_reaches_the_proxy() {
    let Some(mesh) = start() else { return };
    let debug = mesh.proxy.debug();
    assert_eq!(debug["proxy"]["zone"], "a", "the proxy's zone is that of its node");
    let endpoints = debug["services"][0]["endpoints"].as_array().unwrap();
    for endpoint in endpoints {
        let local = endpoint["zone"] == "a";
        assert_eq!(endpoint["locality"], if local { "local" } else { "remote" }, "{endpoint}");
    }

    // Both aliases, on a Service and on the pod that calls, then a policy, then the node's label.
    let band = json!({"balancer.buoyant.io/load-band": "0.8,2.0"});
    applies(&mesh, cart(&band), &[(SIGNAL, "outstanding"), (SOURCE, "service_annotation")]);
    let opt_out = json!({"zalando.org/traffic-zone-aware": "false"});
    applies(&mesh, cart(&opt_out), &[(MODE, "Off"), (SIGNAL, "normalized")]);
    let pod = shop::caller("till", "node-a", &band);
    applies(&mesh, pod.clone(), &[(SIGNAL, "outstanding"), (SOURCE, "client_pod_annotation")]);
    deletes(&mesh, &pod, &[(MODE, "Off"), (SOURCE, "service_annotation")]);
    let pinned = shop::policy("shop", "cart", &["cart"], json!({"mode": "Pinned"}));
    applies(
        &mesh,
        pinned,
        &[(SOURCE, "service_policy"), ("/services/0/policy_object", "shop/cart")],
    );
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}});
    node["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "b"});
    applies(&mesh, node, &[(ZONE, "b")]);
    let debug = mesh.proxy.debug();
    assert_eq!(debug.pointer("/discovery/controller/stream"), Some(&json!("connected")));
    assert!(mesh.metric("tidegate_discovery_up") > 0.5);
    assert!(mesh.metric("tidegate_discovery_stale_seconds") < 0.001);
    let balanced = [("target", "balanced")];
    assert!(mesh.proxy.metrics().sum("tidegate_discovery_destinations", &balanced) > 0.5);
}

#[test]
fn each_step_of_precedence_holds_in_the_proxy() {
    let Some(mesh) = start() else { return };
    let holds = |source, mode| [(SOURCE, source), (MODE, mode)];
    takes_effect(&mesh, |_| {}, &holds("default", "Adaptive"));

    // From the least specific to the most.
    let all = shop::policy("tidegate", "mesh", &[], json!({"mode": "Off"}));
    applies(&mesh, all.clone(), &holds("mesh_default", "Off"));
    let mut service = cart(&json!({}));
    service["spec"]["trafficDistribution"] = json!("PreferClose");
    applies(&mesh, service.clone(), &holds("traffic_distribution", "Adaptive"));
    let annotation = |mode: &str| json!({"tidegate.io/locality-mode": mode});
    let proportional = annotation("Proportional");
    applies(&mesh, namespace(&proportional), &holds("namespace_annotation", "Proportional"));
    let of_namespace = shop::policy("shop", "all", &[], json!({"mode": "Pinned"}));
    applies(&mesh, of_namespace.clone(), &holds("namespace_policy", "Pinned"));
    service["metadata"]["annotations"] = annotation("Off");
    applies(&mesh, service.clone(), &holds("service_annotation", "Off"));
    let one = shop::policy("shop", "cart", &["cart"], json!({"mode": "Proportional"}));
    applies(&mesh, one.clone(), &holds("service_policy", "Proportional"));
    let pod = shop::caller("till", "node-a", &annotation("Pinned"));
    applies(&mesh, pod.clone(), &holds("client_pod_annotation", "Pinned"));

    // And back.
    deletes(&mesh, &pod, &holds("service_policy", "Proportional"));
    deletes(&mesh, &one, &holds("service_annotation", "Off"));
    service["metadata"]["annotations"] = json!({});
    applies(&mesh, service, &holds("namespace_policy", "Pinned"));
    deletes(&mesh, &of_namespace, &holds("namespace_annotation", "Proportional"));
    applies(&mesh, namespace(&json!({})), &holds("traffic_distribution", "Adaptive"));
    applies(&mesh, cart(&json!({})), &holds("mesh_default", "Off"));
    deletes(&mesh, &all, &holds("default", "Adaptive"));
}

#[test]
fn a_proxy_proves_itself_by_its_token_over_tls() {
    let programs = need!(Programs::find());
    let cluster = Cluster::start(&programs);
    cluster.shop();
    let client = cluster.client();
    client.apply(shop::slice("cart-1", "cart", 8080, &[Endpoint::new([10, 1, 0, 1], "b")]));
    client.apply(shop::caller("till", "node-b", &json!({})));
    let folder = Folder::new();
    let file = |name: &str| folder.path().join(name).display().to_string();
    certificate::write(&folder, "server");
    certificate::write(&folder, "other");
    for (name, audience) in [("good", "tidegate-controller"), ("bad", "somebody-else")] {
        folder.write(name, &cluster.pod_token("shop", "till", audience));
    }
    let (chain, key) = (file("server.crt"), file("server.key"));
    let tls = ["--tls-certificate", &chain, "--tls-key", &key];
    let kubeconfig = cluster.kubeconfig(Some(&cluster.controller_token()));
    let controller = Controller::start_with(&kubeconfig, &tls);
    let start = |scheme: &str, authority: &str, token: &str| {
        let outbound = ports::free();
        let url = format!("{scheme}://{}", controller.discovery);
        let (authority, token) = (file(authority), file(token));
        let arguments = ["--controller-ca", &authority, "--controller-token", &token];
        (Proxy::follow_urls(&url, outbound, &arguments), outbound)
    };
    let controller_view = |proxy: &Proxy| proxy.debug()["discovery"]["controller"].clone();

    let (proxy, outbound) = start("https", "server.crt", "good");
    until("it is connected, and in the zone of its pod's node", SOON, || {
        let debug = proxy.debug();
        if debug["proxy"]["zone"] == "b" { Ok(()) } else { Err(debug) }
    });
    drop(http::get_of_host(outbound, "cart.shop"));
    let known = proxy.states(CART);
    assert_eq!(known.iter().map(|(address, _)| &**address).collect::<Vec<_>>(), ["10.1.0.1:8080"]);

    // Strangers, and proxies that do not trust who answers, are not served, and serve all the same.
    let refused = [
        ("https", "server.crt", "bad", "the token is not valid for this audience"),
        ("https", "other.crt", "good", "no TLS with"),
        ("http", "server.crt", "good", ""),
    ];
    for (scheme, authority, token, why) in refused {
        let (proxy, _) = start(scheme, authority, token);
        until("it gives up for now", SOON, || {
            let view = controller_view(&proxy);
            let told = view["last_failure"].as_str().is_some_and(|failure| failure.contains(why));
            if view["stream"] == "disconnected" && told { Ok(()) } else { Err(view) }
        });
        assert!(matches!(http::get(proxy.admin, "/ready"), Ok((200, _))), "{scheme} {why}");
    }
}
