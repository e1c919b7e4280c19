//! The discovery stream over a real socket: what proxies are told, when, and what they are not told again.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at its first surprise"
)]

use api::discovery::discovery_client::DiscoveryClient;
use api::discovery::{
    Destination, FromController, FromProxy, Hello, Known, Passthrough, Service as Told, Subscribe,
    Unsubscribe, destination, from_controller, from_proxy, resolved,
};
use controller::hub::Hub;
use controller::index::key::{Cluster, Key};
use controller::index::object::{Node, Pod, Service, Slice};
use controller::index::{Change, Index, Settings};
use controller::serve::identify::Identify;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

/// Far above what a busy machine needs for one message.
const SOON: Duration = Duration::from_secs(20);
/// Long enough that a message that should not come would have come.
const QUIET: Duration = Duration::from_millis(300);

/// Far more changes than sockets and windows hold messages.
const CHANGES: u32 = 10_000;

struct Shop {
    hub: Arc<Hub>,
    address: SocketAddr,
}

async fn shop() -> Shop {
    let settings = Settings { namespace: "tidegate".into(), domain: "cluster.local".into() };
    let hub = Arc::new(Hub::new(Index::new(settings)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(controller::serve::serve(Arc::clone(&hub), Identify::Trust, listener, None));
    let shop = Shop { hub, address };
    shop.service(&json!({}));
    shop.endpoints(&["10.0.0.1", "10.0.0.2"]);
    shop
}

impl Shop {
    fn apply(&self, change: Change) {
        self.hub.apply(&Cluster::Home, change);
    }

    fn service(&self, annotations: &Value) {
        let service = json!({ "metadata": { "annotations": annotations },
            "spec": { "clusterIPs": ["10.96.0.7"], "ports": [{ "port": 80 }] } });
        let service = serde_json::from_value(service).unwrap();
        self.apply(Change::Service(Key::new("shop", "cart"), Some(Service::read(&service))));
    }

    fn endpoints(&self, addresses: &[&str]) {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|address| json!({ "addresses": [address], "zone": "a" }))
            .collect();
        let slice = json!({ "addressType": "IPv4", "ports": [{ "port": 8080 }], "endpoints": endpoints,
            "metadata": { "namespace": "shop", "labels": { "kubernetes.io/service-name": "cart" } } });
        let slice = serde_json::from_value(slice).unwrap();
        self.apply(Change::Slice(Key::new("shop", "one"), Some(Slice::read(&slice))));
    }

    fn node(&self, zone: &str) {
        let node = Node { zone: zone.into(), ..Node::default() };
        self.apply(Change::Node("n1".into(), Some(node)));
    }

    async fn client(&self) -> DiscoveryClient<Channel> {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        DiscoveryClient::new(endpoint.connect().await.unwrap())
    }

    async fn proxy(&self, known: Vec<Known>) -> Proxy {
        let mut client = self.client().await;
        let (sender, receiver) = mpsc::channel(64);
        let hello = Hello {
            pod_namespace: "shop".to_owned(),
            pod_name: "till-1".to_owned(),
            node: "n1".to_owned(),
            known,
            ..Hello::default()
        };
        let message = from_proxy::Message::Hello(hello);
        sender.send(FromProxy { message: Some(message) }).await.unwrap();
        let inbound = client.stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Proxy { sender, inbound }
    }
}

struct Proxy {
    sender: mpsc::Sender<FromProxy>,
    inbound: tonic::Streaming<FromController>,
}

fn name(name: &str) -> Destination {
    Destination { destination: Some(destination::Destination::Name(name.to_owned())) }
}

fn address(address: &str) -> Destination {
    Destination { destination: Some(destination::Destination::Address(address.to_owned())) }
}

impl Proxy {
    async fn subscribe(&self, destination: Destination) {
        let message = from_proxy::Message::Subscribe(Subscribe { destination: Some(destination) });
        self.sender.send(FromProxy { message: Some(message) }).await.unwrap();
    }

    async fn unsubscribe(&self, destination: Destination) {
        let message =
            from_proxy::Message::Unsubscribe(Unsubscribe { destination: Some(destination) });
        self.sender.send(FromProxy { message: Some(message) }).await.unwrap();
    }

    async fn next(&mut self) -> from_controller::Message {
        let next = tokio::time::timeout(SOON, self.inbound.message()).await;
        next.expect("a message in time").unwrap().expect("an open stream").message.unwrap()
    }

    async fn place(&mut self) -> String {
        match self.next().await {
            from_controller::Message::Place(place) => {
                let policy = place.policy.map_or_else(String::new, |policy| policy.source);
                format!("{} {policy}", place.zone).trim().to_owned()
            }
            other => panic!("a place, not {other:?}"),
        }
    }

    async fn service(&mut self) -> Told {
        match self.next().await {
            from_controller::Message::Service(service) => service,
            other => panic!("a service, not {other:?}"),
        }
    }

    async fn resolved(&mut self) -> resolved::Target {
        match self.next().await {
            from_controller::Message::Resolved(resolved) => resolved.target.unwrap(),
            other => panic!("what a destination is, not {other:?}"),
        }
    }

    async fn callers(&mut self) -> Vec<(String, u32)> {
        match self.next().await {
            from_controller::Message::Callers(callers) => {
                let mut zones: Vec<_> = callers.zones.into_iter().collect();
                zones.sort();
                zones
            }
            other => panic!("callers, not {other:?}"),
        }
    }

    async fn is_quiet(&mut self) {
        let next = tokio::time::timeout(QUIET, self.inbound.message()).await;
        assert!(next.is_err(), "nothing, not {next:?}");
    }
}

fn cart() -> resolved::Target {
    resolved::Target::Service("shop/cart:80".to_owned())
}

fn passthrough(why: Passthrough) -> resolved::Target {
    resolved::Target::Passthrough(why.into())
}

#[tokio::test]
async fn a_subscription_gets_a_snapshot_then_changes() {
    let shop = shop().await;
    let mut proxy = shop.proxy(Vec::new()).await;
    assert_eq!(proxy.place().await, "");
    proxy.subscribe(name("cart:80")).await;
    let snapshot = proxy.service().await;
    assert_eq!(snapshot.endpoints.len(), 2);
    assert_eq!(snapshot.policy.unwrap().source, "default");
    assert_eq!(proxy.resolved().await, cart());

    // Another way to the same service: it is not sent again.
    proxy.subscribe(address("10.96.0.7:80")).await;
    assert_eq!(proxy.resolved().await, cart());

    shop.endpoints(&["10.0.0.2", "10.0.0.3"]);
    let from_controller::Message::Change(change) = proxy.next().await else { panic!("a change") };
    assert_eq!((change.base, &*change.id), (snapshot.version, "shop/cart:80"));
    assert_eq!(
        change.upserted.iter().map(|endpoint| &*endpoint.address).collect::<Vec<_>>(),
        ["10.0.0.3:8080"]
    );
    assert_eq!(change.removed, ["10.0.0.1:8080"]);

    shop.service(&json!({ "tidegate.io/locality-mode": "Off" }));
    let from_controller::Message::Change(change) = proxy.next().await else { panic!("a change") };
    assert_eq!(change.service.unwrap().policy.unwrap().source, "service_annotation");

    // What concerns nobody is told nobody.
    proxy.unsubscribe(name("cart:80")).await;
    proxy.unsubscribe(address("10.96.0.7:80")).await;
    proxy.subscribe(name("till:80")).await;
    assert_eq!(proxy.resolved().await, passthrough(Passthrough::Unknown));
    shop.endpoints(&[]);
    proxy.is_quiet().await;
}

#[tokio::test]
async fn a_proxy_goes_on_where_it_stopped() {
    let shop = shop().await;
    let mut first = shop.proxy(Vec::new()).await;
    first.place().await;
    first.subscribe(name("cart.shop:80")).await;
    let version = first.service().await.version;
    drop(first);

    let known = Known { service: "shop/cart:80".to_owned(), version };
    let mut second = shop.proxy(vec![known.clone()]).await;
    second.place().await;
    second.subscribe(name("cart.shop:80")).await;
    assert_eq!(second.resolved().await, cart(), "its version still stands");
    drop(second);

    shop.endpoints(&["10.0.0.9"]);
    let mut third = shop.proxy(vec![known]).await;
    third.place().await;
    third.subscribe(name("cart.shop:80")).await;
    assert_eq!(
        third.service().await.endpoints[0].address,
        "10.0.0.9:8080",
        "whole, in place of the old set"
    );
}

#[tokio::test]
async fn destinations_follow_services_as_they_come_and_go() {
    let shop = shop().await;
    let mut proxy = shop.proxy(Vec::new()).await;
    proxy.place().await;
    proxy.subscribe(address("10.96.0.7:80")).await;
    proxy.service().await;
    assert_eq!(proxy.resolved().await, cart());
    shop.apply(Change::Service(Key::new("shop", "cart"), None));
    assert_eq!(proxy.resolved().await, passthrough(Passthrough::Unknown));
    shop.service(&json!({}));
    assert_eq!(proxy.service().await.endpoints.len(), 2);
    assert_eq!(proxy.resolved().await, cart());
}

#[tokio::test]
async fn a_place_follows_node_labels_and_the_pods_annotations() {
    let shop = shop().await;
    let mut proxy = shop.proxy(Vec::new()).await;
    assert_eq!(proxy.place().await, "");
    shop.node("a");
    assert_eq!(proxy.place().await, "a");
    let meta: ObjectMeta = serde_json::from_value(json!({ "annotations":
        { "tidegate.io/zone": "b", "balancer.buoyant.io/load-band": "0.8,2.0" } }))
    .unwrap();
    shop.apply(Change::Pod(Key::new("shop", "till-1"), Pod::read(&meta)));
    assert_eq!(proxy.place().await, "b client_pod_annotation");
}

#[tokio::test]
async fn a_slow_reader_gets_the_latest_state_and_no_backlog() {
    let shop = shop().await;
    let mut proxy = shop.proxy(Vec::new()).await;
    proxy.place().await;
    proxy.subscribe(name("cart:80")).await;
    let mut version = proxy.service().await.version;
    assert_eq!(proxy.resolved().await, cart());
    // While nothing is read, sockets and windows hold some messages, nothing else may.
    for change in 0..CHANGES {
        shop.endpoints(&[&format!("10.1.{}.{}", change / 250, change % 250), "10.0.0.2"]);
        if change % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let latest = format!("10.1.{}.{}:8080", (CHANGES - 1) / 250, (CHANGES - 1) % 250);
    let mut messages = 0;
    loop {
        let from_controller::Message::Change(change) = proxy.next().await else {
            panic!("a change")
        };
        messages += 1;
        assert_eq!(change.base, version, "each change follows the one before");
        version = change.version;
        if change.upserted.iter().any(|endpoint| endpoint.address == latest) {
            break;
        }
    }
    assert!(messages < CHANGES, "{messages} messages for {CHANGES} changes");
    proxy.is_quiet().await;
}

#[tokio::test]
async fn who_does_not_introduce_itself_is_refused() {
    let shop = shop().await;
    let mut client = shop.client().await;
    let (sender, receiver) = mpsc::channel(1);
    let message = from_proxy::Message::Subscribe(Subscribe { destination: Some(name("cart:80")) });
    sender.send(FromProxy { message: Some(message) }).await.unwrap();
    let mut inbound = client.stream(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let refused = inbound.message().await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn streams_that_end_leave_nothing_behind() {
    let shop = shop().await;
    let mut proxy = shop.proxy(Vec::new()).await;
    proxy.place().await;
    assert_eq!(shop.hub.look(|state| state.streams()), 1);
    drop(proxy);
    let gone = async {
        while shop.hub.look(|state| state.streams()) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("the stream is noticed to have ended");
}

#[tokio::test]
async fn callers_are_counted_by_zone_for_those_whom_it_concerns() {
    let shop = shop().await;
    shop.service(&json!({ "tidegate.io/locality-mode": "Proportional" }));
    shop.node("a");
    let mut first = shop.proxy(Vec::new()).await;
    first.place().await;
    first.subscribe(name("cart:80")).await;
    first.service().await;
    assert_eq!(first.resolved().await, cart());
    assert_eq!(first.callers().await, [("a".to_owned(), 1)]);
    let mut second = shop.proxy(Vec::new()).await;
    second.place().await;
    second.subscribe(name("cart:80")).await;
    assert_eq!(first.callers().await, [("a".to_owned(), 2)]);

    // The zone is another one: both move.
    shop.node("b");
    assert_eq!(first.place().await, "b");
    assert_eq!(first.callers().await, [("b".to_owned(), 2)]);
    drop(second);
    assert_eq!(first.callers().await, [("b".to_owned(), 1)]);

    // Where nothing depends on it, nothing is said.
    shop.service(&json!({}));
    let from_controller::Message::Change(_) = first.next().await else { panic!("a change") };
    let mut third = shop.proxy(Vec::new()).await;
    third.place().await;
    third.subscribe(name("cart:80")).await;
    third.service().await;
    first.is_quiet().await;
}
