//! Real proxies behind real controllers: what reaches them, and what their callers see.

use crate::follow::{Packing, SLICES};
use crate::mesh::{CART, EFFECT, HOST, Mesh};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use tests::backend::Backend;
use tests::deadline::{Moment, SOON, spread, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::load::{Load, WhenClosed};
use tests::proxy::Proxy;
use tests::{http, need, ports};

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
        mesh.until_served_within(EFFECT);
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
    let lasting = Packing::lasting();
    for round in 0..200 {
        for slice in packing.shuffle() {
            packing.write(&mesh.cluster, slice);
        }
        until("the union of the slices", SOON, || {
            let states = mesh.proxy.states(CART);
            let known: BTreeSet<String> =
                states.iter().map(|(address, _)| address.clone()).collect();
            assert_eq!(known.len(), states.len(), "none is doubled");
            assert!(round == 0 || lasting.is_subset(&known), "none is absent in between");
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
