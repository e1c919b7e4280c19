//! Real proxies behind real controllers: what reaches them, and what their callers see.

use crate::follow::{Packing, SLICES};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tests::backend::Backend;
use tests::controller::Controller;
use tests::deadline::{Moment, SOON, spread, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::load::{Load, WhenClosed};
use tests::proxy::Proxy;
use tests::{http, need, ports};

const CART: &str = "shop/cart:80";
const HOST: &str = "cart.shop";

/// A cluster whose cart has a backend in each zone, with controllers and a proxy on a node.
struct Mesh {
    cluster: Cluster,
    controllers: Vec<Controller>,
    backends: Vec<Backend>,
    proxy: Proxy,
    outbound: SocketAddr,
}

impl Mesh {
    fn start(programs: &Programs, ip: IpAddr, controllers: usize) -> Self {
        let cluster = Cluster::start(programs);
        cluster.shop();
        let backends: Vec<Backend> =
            ["a", "b", "c"].map(|zone| Backend::start_at(ip, zone, "5ms")).into();
        let kubeconfig = cluster.kubeconfig(Some(&cluster.controller_token()));
        let controllers: Vec<Controller> =
            (0..controllers).map(|_| Controller::start(&kubeconfig)).collect();
        let outbound = ports::free();
        let addresses: Vec<SocketAddr> =
            controllers.iter().map(|controller| controller.discovery).collect();
        let arguments = ["--pod", "shop/till", "--node", "node-a"];
        let proxy = Proxy::follow(&addresses, outbound, &arguments);
        let mesh = Self { cluster, controllers, backends, proxy, outbound };
        mesh.scale(3);
        mesh
    }

    /// The first backends are the cart's endpoints; the others are none.
    fn scale(&self, count: usize) {
        for (index, backend) in self.backends.iter().enumerate() {
            let SocketAddr::V4(address) = backend.address else { panic!("{}", backend.address) };
            let zone = ["a", "b", "c"][index % 3];
            let here = [Endpoint::new(*address.ip(), zone).on(&format!("node-{zone}"))];
            let endpoints = if index < count { here.as_slice() } else { &[] };
            let name = format!("cart-{index}");
            self.cluster.client().apply(shop::slice(&name, "cart", address.port(), endpoints));
        }
    }

    /// Waits until the proxy has as many endpoints, and returns how long that took.
    fn until_endpoints(&self, count: usize) -> Duration {
        let written = Moment::now();
        until(&format!("{count} endpoints"), SOON, || {
            let known = self.proxy.states(CART).len();
            if known == count { Ok(()) } else { Err(known) }
        });
        Moment::now().since(written)
    }

    fn get(&self) -> Result<(u16, String, String), String> {
        http::get_of_host(self.outbound, HOST)
    }

    fn until_served(&self) {
        until("the cart is served", SOON, || match self.get() {
            Ok((200, ..)) => Ok(()),
            other => Err(other),
        });
    }

    /// Applies an object and waits until the proxy shows a service's or its own field so; how long that took.
    fn takes_effect(&self, object: Value, pointer: &str, expected: &str) -> Duration {
        self.cluster.client().apply(object);
        let written = Moment::now();
        until(&format!("{pointer} is {expected}"), SOON, || {
            let debug = self.proxy.debug();
            let seen = debug.pointer(pointer).cloned();
            if seen == Some(json!(expected)) { Ok(()) } else { Err(seen) }
        });
        Moment::now().since(written)
    }

    /// What a metric of the proxy says.
    fn metric(&self, name: &str) -> f64 {
        self.proxy.metrics().sum(name, &[])
    }
}

#[test]
fn what_changes_in_the_cluster_reaches_the_proxy() {
    let mesh = Mesh::start(&need!(Programs::find()), need!(ports::outside()), 1);
    mesh.until_served();
    mesh.until_endpoints(3);
    let debug = mesh.proxy.debug();
    assert_eq!(debug["proxy"]["zone"], "a", "the proxy's zone is that of its node");
    let endpoints = debug["services"][0]["endpoints"].as_array().unwrap();
    for endpoint in endpoints {
        let local = endpoint["zone"] == "a";
        assert_eq!(endpoint["locality"], if local { "local" } else { "remote" }, "{endpoint}");
    }

    // Both aliases, then a policy, then the node's label.
    let (source, signal, mode) =
        ("/services/0/policy_source", "/services/0/load_band/signal", "/services/0/policy/mode");
    let annotated = |key: &str, value: &str| shop::service("cart", &json!({ key: value }));
    let pinned = shop::policy("shop", "cart", &["cart"], json!({"mode": "Pinned"}));
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}});
    node["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "b"});
    let steps = [
        (annotated("balancer.buoyant.io/load-band", "0.8,2.0"), signal, "outstanding"),
        (annotated("zalando.org/traffic-zone-aware", "false"), mode, "Off"),
        (pinned, source, "service_policy"),
        (node, "/proxy/zone", "b"),
    ];
    for (object, pointer, expected) in steps {
        let took = mesh.takes_effect(object, pointer, expected);
        println!("{pointer} {expected}: {took:?} after the API server's answer");
    }
    let debug = mesh.proxy.debug();
    assert_eq!(debug.pointer("/services/0/policy_object"), Some(&json!("shop/cart")));
    assert_eq!(debug.pointer("/discovery/controller/stream"), Some(&json!("connected")));
    assert!(mesh.metric("tidegate_discovery_up") > 0.5);
    assert!(mesh.metric("tidegate_discovery_stale_seconds") < 0.001);
    let balanced = [("target", "balanced")];
    assert!(mesh.proxy.metrics().sum("tidegate_discovery_destinations", &balanced) > 0.5);
}

#[test]
fn a_service_without_endpoints_is_refused_at_once_and_comes_back() {
    let mesh = Mesh::start(&need!(Programs::find()), need!(ports::outside()), 1);
    mesh.until_served();
    for round in 1..=3 {
        mesh.scale(0);
        mesh.until_endpoints(0);
        let asked = Moment::now();
        for _ in 0..10 {
            let (status, reason, _) = mesh.get().unwrap();
            assert_eq!((status, reason.as_str()), (503, "no_endpoints"));
        }
        println!("round {round}: a refusal takes {:?}", Moment::now().since(asked) / 10);
        mesh.scale(3);
        let written = Moment::now();
        mesh.until_served();
        println!("round {round}: served {:?} after the endpoints", Moment::now().since(written));
    }
}

#[test]
fn controllers_that_are_all_killed_cost_no_request_and_are_followed_again() {
    let mut mesh = Mesh::start(&need!(Programs::find()), need!(ports::outside()), 2);
    mesh.until_served();
    mesh.until_endpoints(3);
    let load = Load::of_host(mesh.outbound, HOST, 4, WhenClosed::Reconnect);
    mesh.controllers.iter_mut().for_each(|controller| controller.process.kill());
    until("the proxy says so", SOON, || {
        let stream = mesh.proxy.debug()["discovery"]["controller"]["stream"].clone();
        if stream == "disconnected" { Ok(()) } else { Err(stream) }
    });
    let served = load.so_far().total();
    until("three seconds without a controller", SOON, || {
        let stale = mesh.metric("tidegate_discovery_stale_seconds");
        if stale > 3.0 { Ok(()) } else { Err(stale) }
    });
    assert!(load.so_far().total() > served, "callers go on");
    assert!(matches!(http::get(mesh.proxy.admin, "/ready"), Ok((200, _))), "as does the proxy");
    // What was never asked for is not known, and nobody waits for it.
    let (status, reason, _) = http::get_of_host(mesh.outbound, "mill.shop").unwrap();
    assert_eq!((status, reason.as_str()), (503, "unknown_service"));

    // Meanwhile the world goes on.
    mesh.scale(2);
    assert_eq!(mesh.proxy.states(CART).len(), 3, "the last known good");
    mesh.controllers[1].restart();
    let took = mesh.until_endpoints(2);
    println!("followed again {took:?} after the controller was ready");
    let count = load.stop();
    println!("{} requests, {} failed", count.total(), count.total() - count.good);
    assert_eq!((count.bad.as_slice(), count.lost.as_slice()), (&[][..], &[][..]));
    assert!(mesh.metric("tidegate_discovery_resyncs_total") > 0.5);
}

#[test]
fn a_controller_that_hangs_is_given_up_for_another_one() {
    let mesh = Mesh::start(&need!(Programs::find()), need!(ports::outside()), 2);
    mesh.until_served();
    let replica = || {
        let debug = mesh.proxy.debug();
        debug.pointer("/discovery/controller/replica").and_then(Value::as_str).map(str::to_owned)
    };
    let first = replica().unwrap();
    let hung = mesh.controllers.iter().find(|one| one.discovery.to_string() == first).unwrap();
    hung.process.signal("STOP");
    let stopped = Moment::now();
    let limit = Duration::from_mins(1);
    until("the other one", limit, || match replica() {
        Some(now) if now != first => Ok(()),
        other => Err(other),
    });
    println!("at another controller {:?} after one hung", Moment::now().since(stopped));
    mesh.scale(1);
    mesh.until_endpoints(1);
    hung.process.signal("CONT");
}

#[test]
fn proxies_have_the_union_of_the_slices() {
    let mesh = Mesh::start(&need!(Programs::find()), need!(ports::outside()), 1);
    mesh.until_served();
    mesh.scale(0);
    let seed = fastrand::u64(..);
    println!("SEED={seed}");
    let mut packing = Packing::new(seed);
    (0..SLICES).for_each(|slice| packing.write(&mesh.cluster, slice));
    for round in 0..20 {
        for slice in packing.shuffle() {
            packing.write(&mesh.cluster, slice);
        }
        until("the union of the slices", SOON, || {
            let states = mesh.proxy.states(CART);
            let known: BTreeSet<String> =
                states.iter().map(|(address, _)| address.clone()).collect();
            assert_eq!(known.len(), states.len(), "none is doubled");
            let wanted = packing.union();
            if known == wanted { Ok(()) } else { Err((round, known.len(), wanted.len())) }
        });
    }
}

/// Requests that each endpoint got so far, by address.
fn picks(proxy: &Proxy) -> BTreeMap<String, u64> {
    let service = proxy.service(CART).unwrap_or_default();
    let endpoints = service["endpoints"].as_array().cloned().unwrap_or_default();
    let one = |endpoint: &Value| {
        Some((endpoint["address"].as_str()?.to_owned(), endpoint["picks"].as_u64()?))
    };
    endpoints.iter().filter_map(one).collect()
}

#[test]
fn a_zone_that_fails_here_is_served_by_the_same_zone_of_another_cluster() {
    let (programs, ip) = (need!(Programs::find()), need!(ports::outside()));
    let mut mesh = Mesh::start(&programs, ip, 1);
    let mut east = Cluster::start(&programs);
    east.shop();
    let there = Backend::start_at(ip, "a", "5ms");
    let SocketAddr::V4(address) = there.address else { panic!("{}", there.address) };
    let endpoints = [Endpoint::new(*address.ip(), "a").on("node-a")];
    east.client().apply(shop::slice("cart-1", "cart", address.port(), &endpoints));
    mesh.cluster.define_multicluster();
    east.define_multicluster();
    mesh.cluster.join("east", &east.kubeconfig(Some(&east.remote_token())));
    east.client().export("cart");
    mesh.until_served();
    let late = Duration::from_mins(1);
    until("endpoints of both clusters", late, || match mesh.proxy.states(CART).len() {
        4 => Ok(()),
        other => Err(other),
    });

    // Of each hundred requests: good ones, and those to the zone here, the same zone there, and elsewhere.
    let (here, there) = (mesh.backends[0].address.to_string(), there.address.to_string());
    let hundred = |mesh: &Mesh| {
        let before = picks(&mesh.proxy);
        let mut good = 0;
        spread(100, Duration::from_secs(2), |_| {
            good += u64::from(mesh.get().is_ok_and(|(status, ..)| status == 200));
        });
        let after = picks(&mesh.proxy);
        let new = |address: &String| after[address] - before[address];
        let all: u64 = after.keys().map(new).sum();
        (good, new(&here), new(&there), all - new(&here) - new(&there))
    };
    let until_split = |mesh: &Mesh, what: &str, fits: fn((u64, u64, u64, u64)) -> bool| {
        let split = until(what, late, || {
            let split = hundred(mesh);
            if fits(split) { Ok(split) } else { Err(split) }
        });
        println!("{what}: good, here, there, elsewhere {split:?}");
    };
    let shared =
        |(good, here, there, elsewhere)| good == 100 && here > 10 && there > 10 && elsewhere <= 5;
    until_split(&mesh, "both serve the zone", shared);
    mesh.backends[0].switch("fail-percent=100");
    until_split(
        &mesh,
        "the same zone of the other cluster takes over",
        |(good, here, there, _)| good == 100 && here <= 5 && there >= 70,
    );

    // The other API server is away: what was known there stays.
    east.kill_server(0);
    until("the controller says so", late, || {
        let stale = mesh.controllers[0].stale_seconds("east");
        if stale > 1.0 { Ok(()) } else { Err(stale) }
    });
    assert_eq!(mesh.proxy.states(CART).len(), 4, "the last known endpoints");
    until_split(&mesh, "still so", |(good, _, there, elsewhere)| {
        good == 100 && there > 2 * elsewhere
    });
    mesh.backends[0].switch("reset");
    until_split(&mesh, "and back", shared);
    mesh.controllers.clear();
}
