//! Two clusters, each with its own API server, and one service in both.

use crate::follow::who;
use serde_json::json;
use std::time::Duration;
use tests::controller::Controller;
use tests::deadline::{SOON, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::listener::{Listener, Listeners};
use tests::need;

/// A kind that a cluster does not have is looked for again every few seconds.
const LATE: Duration = Duration::from_mins(1);

/// `address zone region node` of each endpoint.
fn until_endpoints(listener: &Listener, service: &str, wanted: &[&str]) {
    listener.until("the endpoints of both clusters", LATE, |heard| {
        let service = heard.services.get(service).ok_or("no service")?;
        let shown: Vec<String> = service
            .endpoints
            .values()
            .map(|found| {
                format!("{} {} {} {}", found.address, found.zone, found.region, found.node)
            })
            .collect();
        if shown == wanted { Ok(()) } else { Err(format!("{shown:?}")) }
    });
}

#[test]
fn endpoints_of_two_clusters_are_one_service_and_stay_while_one_cannot_be_reached() {
    let programs = need!(Programs::find());
    let (home, mut east) = (Cluster::start(&programs), Cluster::start(&programs));
    for (cluster, address) in [(&home, [10, 1, 0, 1]), (&east, [10, 2, 0, 1])] {
        cluster.shop();
        let endpoints = [Endpoint::new(address, "a").on("node-a")];
        cluster.client().apply(shop::slice("cart-1", "cart", 8080, &endpoints));
    }
    east.client().apply(shop::service("till", &json!({})));
    let endpoints = [Endpoint::new([10, 2, 1, 1], "").on("node-b")];
    east.client().apply(shop::slice("till-1", "till", 8080, &endpoints));
    let controller = Controller::start(&home.kubeconfig(Some(&home.controller_token())));
    let listeners = Listeners::new();
    let asked = ["cart:80", "till.shop.svc.clusterset.local:80", "10.42.0.7:80"];
    let listener = listeners.listen(controller.discovery, &who("caller", "node-a"), &asked);
    let own = "10.1.0.1:8080 a r node-a";
    let (cart, till) = ("shop/cart:80", "shop/till:80");
    until_endpoints(&listener, cart, &[own]);

    // Neither a Secret nor an export alone says anything; both do. The kinds may come later than the controller.
    home.join("east", &east.kubeconfig(Some(&east.remote_token())));
    home.define_multicluster();
    east.define_multicluster();
    east.client().export("cart");
    let remote = "10.2.0.1:8080 a r east/node-a";
    until_endpoints(&listener, cart, &[own, remote]);

    // A Service that only the other cluster has, by its import.
    east.client().export("till");
    home.client().apply(json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
        "metadata": {"namespace": "shop", "name": "till"},
        "spec": {"type": "ClusterSetIP", "ips": ["10.42.0.7"], "ports": [{"port": 80, "protocol": "TCP"}]}}));
    until_endpoints(&listener, till, &["10.2.1.1:8080 b r east/node-b"]);
    listener.until("the import's address and name lead to it", LATE, |heard| {
        let found = asked[1..].iter().map(|asked| heard.resolved.get(*asked).cloned());
        let all: Vec<_> = found.collect();
        if all.iter().all(|target| *target == Some(Ok(till.to_owned()))) {
            Ok(())
        } else {
            Err(format!("{all:?}"))
        }
    });

    // The other API server is away: what is known stays, and what changes here is followed.
    east.kill_server(0);
    until("the staleness is told", LATE, || {
        let stale = controller.stale_seconds("east");
        if stale > 1.0 { Ok(()) } else { Err(stale) }
    });
    assert!(controller.is_ready());
    let late = listeners.listen(controller.discovery, &who("late", "node-a"), &["cart:80"]);
    until_endpoints(&late, cart, &[own, remote]);
    let endpoints =
        [[10, 1, 0, 1], [10, 1, 0, 2]].map(|address| Endpoint::new(address, "a").on("node-a"));
    home.client().apply(shop::slice("cart-1", "cart", 8080, &endpoints));
    let all = [own, "10.1.0.2:8080 a r node-a", remote];
    until_endpoints(&listener, cart, &all);
    east.start_server(0);
    let endpoints = [Endpoint::new([10, 2, 0, 2], "c").on("node-c")];
    east.client().apply(shop::slice("cart-1", "cart", 8080, &endpoints));
    until_endpoints(&listener, cart, &[all[0], all[1], "10.2.0.2:8080 c r east/node-c"]);

    // Its Secret goes: it is forgotten.
    home.leave("east");
    until_endpoints(&listener, cart, &all[..2]);
    until("nothing is told of it any more", SOON, || {
        let metrics = controller.metrics();
        let told = metrics.select("tidegate_discovery_stale_seconds", &[("cluster", "east")]);
        let values: Vec<f64> = told.map(|sample| sample.value).collect();
        if values.iter().all(|value| *value < 0.001) { Ok(()) } else { Err(values) }
    });
    listener.assert_consistent();
}
