//! The watches against a scripted API server that is away, forgets, refuses and hangs.
#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

#[path = "support/api_server.rs"]
mod api_server;

use api_server::{ApiServer, Mode};
use controller::hub::Hub;
use controller::index::key::{Cluster, Key, ServiceId};
use controller::index::{Index, Settings};
use controller::watch::health::Health;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const SERVICES: &str = "/api/v1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const NODES: &str = "/api/v1/nodes";
const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/pods";
const POLICIES: &str = "/apis/tidegate.io/v1alpha1/localitypolicies";

/// What was missed is caught up with by then.
const RETURN: Duration = Duration::from_secs(10);

struct World {
    server: ApiServer,
    hub: Arc<Hub>,
    health: Health,
}

async fn world() -> World {
    let server = ApiServer::start().await;
    server.put(
        SERVICES,
        json!({ "metadata": { "namespace": "shop", "name": "cart", "uid": "s1" },
        "spec": { "clusterIPs": ["10.96.0.7"], "ports": [{ "port": 80 }] } }),
    );
    server.put(
        NODES,
        json!({ "metadata": { "name": "n1", "labels": { "topology.kubernetes.io/zone": "a" } } }),
    );
    let settings = Settings { namespace: "tidegate".into(), domain: "cluster.local".into() };
    let (hub, health) = (Arc::new(Hub::new(Index::new(settings))), Health::default());
    slice(&server, "one", &["10.0.0.1"]);
    let config = server.config();
    tokio::spawn(controller::watch::home::follow_home(
        kube::Client::try_from(config.clone()).unwrap(),
        config,
        Arc::clone(&hub),
        health.clone(),
    ));
    let world = World { server, hub, health };
    world.until("the first lists", |world| world.health.is_synced(&Cluster::Home)).await;
    world
}

fn slice(server: &ApiServer, name: &str, addresses: &[&str]) {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({ "addresses": [address], "nodeName": "n1" }))
        .collect();
    server.put(SLICES, json!({ "addressType": "IPv4", "ports": [{ "port": 8080 }], "endpoints": endpoints,
        "metadata": { "namespace": "shop", "name": name, "labels": { "kubernetes.io/service-name": "cart" } } }));
}

impl World {
    /// `address@zone` of each endpoint, and the policy's source.
    fn seen(&self) -> String {
        let id = ServiceId { service: Key::new("shop", "cart"), port: 80 };
        let Some(view) = self.hub.look(|state| state.view(&id)) else {
            return "no service".to_owned();
        };
        let endpoints = view.service.endpoints.iter();
        let shown: Vec<String> =
            endpoints.map(|endpoint| format!("{}@{}", endpoint.address, endpoint.zone)).collect();
        format!("{} {}", shown.join(" "), view.effective.source.as_str())
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let wait = async {
            while !done(self) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(RETURN, wait).await;
        assert!(waited.is_ok(), "{what}: last seen {}, stale {:?}", self.seen(), self.stale());
    }

    async fn until_seen(&self, wanted: &str) {
        self.until(wanted, |world| world.seen() == wanted).await;
    }

    /// The longest failure of any watch, in seconds.
    fn stale(&self) -> f64 {
        self.health
            .stale_seconds(Instant::now())
            .into_iter()
            .map(|(.., seconds)| seconds)
            .fold(0.0, f64::max)
    }
}

#[tokio::test]
async fn objects_of_every_kind_are_followed() {
    let world = world().await;
    assert_eq!(world.seen(), "10.0.0.1:8080@a default");
    slice(&world.server, "two", &["10.0.0.2"]);
    world.until_seen("10.0.0.1:8080@a 10.0.0.2:8080@a default").await;
    world.server.delete(SLICES, "shop/one");
    world.until_seen("10.0.0.2:8080@a default").await;
    world.server.put(
        NODES,
        json!({ "metadata": { "name": "n1", "labels": { "topology.kubernetes.io/zone": "b" } } }),
    );
    world.until_seen("10.0.0.2:8080@b default").await;
    world.server.put(NAMESPACES, json!({ "metadata": { "name": "shop", "annotations": { "tidegate.io/locality-mode": "Off" } } }));
    world.until_seen("10.0.0.2:8080@b namespace_annotation").await;
    world.server.put(
        POLICIES,
        json!({ "apiVersion": "tidegate.io/v1alpha1", "kind": "LocalityPolicy",
        "metadata": { "namespace": "shop", "name": "all" }, "spec": { "mode": "Pinned" } }),
    );
    world.until_seen("10.0.0.2:8080@b namespace_policy").await;
    world.server.put(PODS, json!({ "metadata": { "namespace": "shop", "name": "till-1", "annotations": { "tidegate.io/zone": "c" } } }));
    let proxy = controller::index::place::Proxy {
        pod: Some(Key::new("shop", "till-1")),
        ..Default::default()
    };
    world
        .until("the pod's zone", |world| {
            world.hub.look(|state| state.index().place(&proxy).zone == "c")
        })
        .await;
}

#[tokio::test]
async fn what_was_missed_while_the_server_was_away_and_forgot_is_caught_up_with() {
    for gone_as_status in [false, true] {
        let world = world().await;
        slice(&world.server, "two", &["10.0.0.2"]);
        world.until_seen("10.0.0.1:8080@a 10.0.0.2:8080@a default").await;
        world.server.behave(Mode::Refuses(503));
        world.until("failure noticed", |world| world.stale() > 0.0).await;
        world.server.delete(SLICES, "shop/two");
        slice(&world.server, "three", &["10.0.0.3"]);
        world.server.compact(gone_as_status);
        assert_eq!(world.seen(), "10.0.0.1:8080@a 10.0.0.2:8080@a default", "what is known stays");
        world.server.behave(Mode::Well);
        world.until_seen("10.0.0.1:8080@a 10.0.0.3:8080@a default").await;
        // And goes on from there.
        slice(&world.server, "one", &[]);
        world.until_seen("10.0.0.3:8080@a default").await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_or_errs_changes_nothing_but_the_age_of_what_is_known() {
    for code in [429, 500] {
        let world = world().await;
        world.server.behave(Mode::Refuses(code));
        world.until("the age grows", |world| world.stale() > 1.0).await;
        assert!(world.health.is_synced(&Cluster::Home), "readiness stays");
        assert_eq!(world.seen(), "10.0.0.1:8080@a default");
        slice(&world.server, "one", &["10.0.0.4"]);
        world.server.behave(Mode::Well);
        world.until_seen("10.0.0.4:8080@a default").await;
        world.until("all is well", |world| world.stale() == 0.0).await;
    }
}

#[tokio::test]
async fn watches_that_hang_are_left_when_the_server_answers_again() {
    let world = world().await;
    world.server.behave(Mode::Silent);
    world.until("silence noticed", |world| world.stale() > 0.5).await;
    slice(&world.server, "one", &["10.0.0.5"]);
    world.server.behave(Mode::Well);
    world.until_seen("10.0.0.5:8080@a default").await;
}
