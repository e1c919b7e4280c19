//! The view's answers: content by policy, caching by digest.
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

use super::{Parts, Reply, View};
use crate::hub::Hub;
use crate::index::key::{Cluster, Key};
use crate::index::object::{LocalityPolicy, Node, Service, Slice};
use crate::index::{Change, Index, Settings};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Shop {
    view: View,
    synced: Arc<AtomicBool>,
}

/// `shop/cart` with endpoints in the zones given.
fn shop(zones: &[&str]) -> Shop {
    let settings = Settings { namespace: "tidegate".into(), domain: "cluster.local".into() };
    let hub = Arc::new(Hub::new(Index::new(settings)));
    let synced = Arc::new(AtomicBool::new(true));
    let shop = Shop { view: View::new(hub, Arc::clone(&synced)), synced };
    let service = serde_json::from_value(json!({ "metadata": { "name": "cart" },
        "spec": { "clusterIPs": ["10.96.0.7"], "ports": [{ "port": 80 }] } }))
    .unwrap();
    shop.apply(Change::Service(Key::new("shop", "cart"), Some(Service::read(&service))));
    for (zone, region) in [("a", "r"), ("b", "r"), ("c", "s")] {
        let node = Node { zone: zone.into(), region: region.into(), zone_id: "".into() };
        shop.apply(Change::Node(zone.into(), Some(node)));
    }
    shop.endpoints(zones);
    shop
}

impl Shop {
    fn apply(&self, change: Change) {
        self.view.hub.apply(&Cluster::Home, change);
    }

    fn endpoints(&self, zones: &[&str]) {
        let endpoints: Vec<Value> = zones.iter().enumerate()
            .map(|(number, zone)| json!({ "addresses": [format!("10.0.0.{number}")], "nodeName": zone }))
            .collect();
        let slice = serde_json::from_value(json!({ "addressType": "IPv4", "ports": [{ "port": 8080 }], "endpoints": endpoints,
            "metadata": { "namespace": "shop", "name": "one", "labels": { "kubernetes.io/service-name": "cart" } } })).unwrap();
        self.apply(Change::Slice(Key::new("shop", "one"), Some(Slice::read(&slice))));
    }

    fn policy(&self, spec: Value) {
        let policy = LocalityPolicy::read(&ObjectMeta::default(), &spec, &Value::Null);
        self.apply(Change::Policy(Key::new("shop", "all"), Some(policy)));
    }

    fn ask(&self, method: Method, path: &str, tag: Option<&str>) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(tag) = tag {
            request = request.header("if-none-match", tag);
        }
        let (parts, ()): (Parts, ()) = request.body(()).unwrap().into_parts();
        self.view.answer(&parts)
    }

    async fn json(&self, path: &str) -> Value {
        let reply = self.ask(Method::GET, path, None);
        assert_eq!(reply.status(), StatusCode::OK);
        serde_json::from_slice(&reply.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    /// `zone priority` of each endpoint of the only service.
    async fn shown(&self, path: &str) -> Vec<String> {
        let page = self.json(path).await;
        let endpoints = page["services"][0]["endpoints"].as_array().unwrap().iter();
        endpoints
            .map(|endpoint| {
                format!("{} {}", endpoint["zone"].as_str().unwrap_or("?"), endpoint["priority"])
            })
            .collect()
    }
}

fn header<'a>(reply: &'a Reply, name: &str) -> &'a str {
    reply.headers().get(name).unwrap().to_str().unwrap()
}

#[tokio::test]
async fn priorities_are_those_of_the_zone() {
    let shop = shop(&["a", "b", "c"]);
    shop.policy(json!({ "mode": "Pinned", "tiers": ["zone", "region", "any"] }));
    assert_eq!(shop.shown("/v1/endpoints/a").await, ["a 0", "b 1", "c 2"]);
    assert_eq!(shop.shown("/v1/endpoints/b").await, ["a 1", "b 0", "c 2"]);
    assert_eq!(shop.shown("/v1/endpoints").await, ["a null", "b null", "c null"]);
    assert_eq!(
        shop.shown("/v1/endpoints/nowhere").await,
        ["a null", "b null", "c null"],
        "an unknown zone gets all"
    );
}

#[tokio::test]
async fn the_guard_of_three_local_endpoints() {
    let shop = shop(&["a", "a", "b"]);
    shop.policy(json!({ "mode": "Pinned", "minEndpoints": { "local": 3 }, "fallback": "Spread" }));
    assert_eq!(shop.shown("/v1/endpoints/a").await, ["a null", "a null", "b null"]);
    shop.endpoints(&["a", "a", "b", "a"]);
    assert_eq!(shop.shown("/v1/endpoints/a").await, ["a 0", "a 0", "a 0"]);
    shop.policy(json!({ "mode": "Off" }));
    assert_eq!(shop.shown("/v1/endpoints/a").await.len(), 4);
}

#[tokio::test]
async fn a_service_is_never_dropped() {
    let shop = shop(&[]);
    let page = shop.json("/v1/endpoints/a").await;
    assert_eq!(page["services"][0]["endpoints"], json!([]));
    assert_eq!(
        shop.json("/v1/endpoints?service=shop/cart").await["services"].as_array().unwrap().len(),
        1
    );
    assert_eq!(shop.json("/v1/endpoints?service=shop/none").await["services"], json!([]));
}

#[test]
fn tags_change_with_content_alone_and_each_zone_has_its_own() {
    let shop = shop(&["a", "b"]);
    let get = |path: &str, tag: Option<&str>| shop.ask(Method::GET, path, tag);
    let first = get("/v1/endpoints/a", None);
    let tag = header(&first, "etag").to_owned();
    assert!(!tag.starts_with("W/"));
    assert_eq!(header(&first, "x-count"), "1");
    assert!(
        header(&first, "last-modified").ends_with(" GMT"),
        "{}",
        header(&first, "last-modified")
    );
    assert_ne!(header(&get("/v1/endpoints/b", None), "etag"), tag);
    assert_ne!(header(&get("/v1/endpoints", None), "etag"), tag);

    for asked in [&*tag, "*", &format!("\"other\", {tag}"), &format!("W/{tag}")] {
        let reply = get("/v1/endpoints/a", Some(asked));
        assert_eq!(reply.status(), StatusCode::NOT_MODIFIED, "{asked}");
        assert_eq!(header(&reply, "etag"), tag);
    }
    // Something changed, but nothing that is shown.
    shop.apply(Change::Node("d".into(), Some(Node::default())));
    let again = get("/v1/endpoints/a", Some(&tag));
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(header(&again, "last-modified"), header(&first, "last-modified"));

    shop.endpoints(&["a", "b", "a"]);
    let reply = get("/v1/endpoints/a", Some(&tag));
    assert_eq!(reply.status(), StatusCode::OK);
    assert_ne!(header(&reply, "etag"), tag);
}

#[test]
fn other_methods_and_paths_are_refused_and_nothing_is_shown_before_the_first_sync() {
    let shop = shop(&["a"]);
    let refused = shop.ask(Method::POST, "/v1/endpoints", None);
    assert_eq!(
        (refused.status(), header(&refused, "allow")),
        (StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD")
    );
    assert_eq!(shop.ask(Method::HEAD, "/v1/endpoints", None).status(), StatusCode::OK);
    for path in ["/", "/v1", "/v1/endpointsa", "/v1/endpoints/a/b"] {
        assert_eq!(shop.ask(Method::GET, path, None).status(), StatusCode::NOT_FOUND, "{path}");
    }
    shop.synced.store(false, Ordering::Release);
    assert_eq!(shop.ask(Method::GET, "/v1/endpoints", None).status(), StatusCode::NOT_FOUND);
}
