//! The view over HTTP, asked by curl.

use serde_json::{Value, json};
use tests::controller::Controller;
use tests::curl::{Answer, curl};
use tests::deadline::{SOON, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::{need, programs};

/// `address zone priority` of each endpoint of a service.
fn endpoints(answer: &Answer, service: &str) -> Vec<String> {
    let page: Value = serde_json::from_slice(&answer.body).unwrap();
    let services = page["services"].as_array().unwrap();
    let found = services.iter().find(|found| found["name"] == service).unwrap();
    let shown = found["endpoints"].as_array().unwrap().iter().map(|endpoint| {
        let text = |key: &str| endpoint[key].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", text("address"), text("zone"), endpoint["priority"])
    });
    shown.collect()
}

#[test]
fn people_and_routers_see_services_by_zone() {
    let cluster = Cluster::start(&need!(Programs::find()));
    let program = need!(programs::tool("curl"));
    cluster.shop();
    let client = cluster.client();
    let skipper = json!({"mode": "Pinned", "minEndpoints": {"local": 3}, "fallback": "Spread"});
    client.apply(shop::policy("shop", "cart", &["cart"], skipper));
    let zones = ["a", "a", "b"];
    let mut all: Vec<Endpoint> =
        (1..).zip(zones).map(|(number, zone)| Endpoint::new([10, 1, 0, number], zone)).collect();
    client.apply(shop::slice("cart-1", "cart", 8080, &all));
    let controller = Controller::start(&cluster.kubeconfig(Some(&cluster.controller_token())));
    let ask = |path: &str, more: &[&str]| {
        let url = format!("http://{}{path}", controller.view);
        curl(&program, &[more, &[&url]].concat())
    };

    let whole = ask("/v1/endpoints", &[]);
    assert_eq!((whole.status, whole.exit), (200, Some(0)));
    let everything = ["10.1.0.1:8080 a null", "10.1.0.2:8080 a null", "10.1.0.3:8080 b null"];
    assert_eq!(endpoints(&whole, "cart"), everything);
    let count = whole.header("x-count").unwrap().parse::<usize>().unwrap();
    assert_eq!(
        count,
        serde_json::from_slice::<Value>(&whole.body).unwrap()["services"].as_array().unwrap().len()
    );
    let modified = whole.header("last-modified").unwrap();
    assert!(modified.ends_with(" GMT"), "{modified}");

    // Two of three that the guard wants: all, without preference.
    let zone = ask("/v1/endpoints/a", &[]);
    assert_eq!(endpoints(&zone, "cart"), everything);
    let (tag, other) = (zone.header("etag").unwrap(), whole.header("etag").unwrap());
    assert!(tag.starts_with('"') && tag != other, "{tag} {other}");
    let again = ask("/v1/endpoints/a", &["-H", &format!("If-None-Match: {tag}")]);
    assert_eq!((again.status, &*again.body), (304, &b""[..]));
    assert_eq!(again.header("etag"), Some(tag));

    // A zone that nothing stands in gets everything.
    assert_eq!(ask("/v1/endpoints/nowhere", &[]).body, whole.body);
    let head = ask("/v1/endpoints", &["--head"]);
    assert_eq!((head.status, head.header("content-length")), (200, whole.header("content-length")));
    let post = ask("/v1/endpoints", &["-X", "POST"]);
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(ask("/v1/other", &[]).status, 404);

    // Three of three: those alone.
    all.push(Endpoint::new([10, 1, 0, 4], "a"));
    client.apply(shop::slice("cart-1", "cart", 8080, &all));
    let stale = format!("If-None-Match: {tag}");
    let zone = until("the zone's page changes", SOON, || {
        let answer = ask("/v1/endpoints/a", &["-H", &stale]);
        if answer.status == 200 { Ok(answer) } else { Err(answer) }
    });
    let local = ["10.1.0.1:8080 a 0", "10.1.0.2:8080 a 0", "10.1.0.4:8080 a 0"];
    assert_eq!(endpoints(&zone, "cart"), local);

    // A service without endpoints is still there.
    client.apply(shop::slice("cart-1", "cart", 8080, &[]));
    until("no endpoints", SOON, || {
        let shown = endpoints(&ask("/v1/endpoints/a", &[]), "cart");
        if shown.is_empty() { Ok(()) } else { Err(shown) }
    });

    // Consul's failover: tiers as priorities 0, 1, 2.
    cluster.node("node-d", "d", "s");
    let consul = json!({"mode": "Pinned", "tiers": ["zone", "region", "any"]});
    client.apply(shop::policy("shop", "cart", &["cart"], consul));
    let spread = [("a", "node-a"), ("b", "node-b"), ("d", "node-d")];
    let all: Vec<Endpoint> = (1..)
        .zip(spread)
        .map(|(number, (zone, node))| Endpoint::new([10, 1, 0, number], zone).on(node))
        .collect();
    client.apply(shop::slice("cart-1", "cart", 8080, &all));
    let tiers = ["10.1.0.1:8080 a 0", "10.1.0.2:8080 b 1", "10.1.0.3:8080 d 2"];
    until("each tier its priority", SOON, || {
        let shown = endpoints(&ask("/v1/endpoints/a", &[]), "cart");
        if shown == tiers { Ok(()) } else { Err(shown) }
    });
}
