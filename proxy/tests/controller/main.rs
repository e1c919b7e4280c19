//! The client of the controller against a scripted one: what it asks, keeps, and does when streams fail.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at its first surprise"
)]

mod server;

use proxy::clock::Clock;
use proxy::destinations::Answer;
use proxy::discovery::controller::connect::{Authority, Controller};
use proxy::discovery::controller::status::{Status, Stream};
use proxy::discovery::controller::{Follower, Pod};
use proxy::discovery::{Destination, Place};
use proxy::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use server::{SOON, Server, Silent};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig};

const CART: &str = "shop/cart:80";

/// With two of three replicas out of reach, a proxy is connected by then.
const CONNECTED: Duration = Duration::from_secs(5);

/// A proxy without its data plane.
struct Proxy {
    registry: Arc<Registry>,
    status: Arc<Status>,
    tried: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Follows the controller at this address, in plain text.
    fn follow(address: SocketAddr) -> Self {
        Self::with(controller(&format!("http://{address}")))
    }

    fn with(controller: Controller) -> Self {
        let registry = Arc::new(Registry::on_demand(Clock::start(), Place::default()));
        let pod = Pod { namespace: "shop".to_owned(), name: "till-1".to_owned() };
        let follower = Follower::new(controller, pod, &registry);
        let (status, tried) = (follower.status(), follower.tried());
        let task = tokio::spawn(follower.follow());
        Self { registry, status, tried, task }
    }

    /// Asks for a destination as a worker does; the answer comes later.
    fn find(&self, host: &str) -> JoinHandle<String> {
        let registry = Arc::clone(&self.registry);
        let destination = Destination::of_host(host, 80).unwrap();
        tokio::spawn(async move {
            match registry.find(&destination).await.0 {
                Answer::Balanced(service) => service.name().to_string(),
                Answer::Passthrough(why) => why.as_str().to_owned(),
                Answer::Refused => "refused".to_owned(),
            }
        })
    }

    /// Ports of a service's endpoints.
    fn ports(&self, service: &str) -> Vec<u16> {
        let Some(service) = self.registry.service(service) else { return Vec::new() };
        let state = service.state();
        let mut ports: Vec<u16> = state.present().map(|endpoint| endpoint.address.port()).collect();
        ports.sort_unstable();
        ports
    }

    async fn tried(&mut self) {
        let tried = tokio::time::timeout(SOON, self.tried.wait_for(|tried| *tried)).await;
        tried.expect("a first attempt ends").unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn controller(address: &str) -> Controller {
    Controller { addresses: vec![address.parse().unwrap()], authority: None, token: None }
}

/// Waits for a condition.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// A proxy that knows `cart`, with two endpoints at version 7.
async fn shop(server: &mut Server) -> (Proxy, server::Stream) {
    let proxy = Proxy::follow(server.address);
    let mut stream = server.stream().await;
    stream.place("a").await;
    let found = proxy.find("cart");
    assert_eq!(stream.heard().await, "+cart:80");
    stream.service(CART, 7, &["10.0.0.1:1", "10.0.0.1:2"]).await;
    stream.resolved("cart:80", CART).await;
    assert_eq!(found.await.unwrap(), CART);
    (proxy, stream)
}

#[tokio::test]
async fn a_destination_is_asked_for_at_its_first_use() {
    let mut server = Server::start();
    let (mut proxy, mut stream) = shop(&mut server).await;
    proxy.tried().await;
    assert_eq!((&*stream.hello.pod_namespace, &*stream.hello.pod_name), ("shop", "till-1"));
    assert!(stream.hello.known.is_empty());
    assert_eq!(proxy.ports(CART), [1, 2]);
    assert_eq!(proxy.registry.place().zone.as_deref(), Some("a"));

    let found = proxy.find("10.96.0.7");
    assert_eq!(stream.heard().await, "+10.96.0.7:80");
    stream.resolved("10.96.0.7:80", CART).await;
    assert_eq!(found.await.unwrap(), CART, "another way to the same service");
    stream.place("b").await;
    eventually("the place is followed", || proxy.registry.place().zone.as_deref() == Some("b"))
        .await;
}

#[tokio::test]
async fn a_lost_stream_is_resumed_and_nothing_known_is_lost() {
    let mut server = Server::start();
    let (proxy, stream) = shop(&mut server).await;
    stream.fail(tonic::Status::unavailable("going away")).await;
    let mut stream = server.stream().await;
    let known: Vec<_> =
        stream.hello.known.iter().map(|known| (&*known.service, known.version)).collect();
    assert_eq!(known, [(CART, 7)]);
    stream.place("a").await;
    assert_eq!(stream.heard().await, "+cart:80", "it is asked for again");
    assert_eq!(proxy.ports(CART), [1, 2], "meanwhile it is as it was");
    stream.service(CART, 9, &["10.0.0.1:3"]).await;
    stream.resolved("cart:80", CART).await;
    eventually("the whole set is replaced", || proxy.ports(CART) == [3]).await;
    assert_eq!(proxy.status.seen().resyncs, 1);
}

#[tokio::test]
async fn another_replica_takes_over() {
    let (mut one, mut two) = (Server::start(), Server::start());
    let url = |server: &Server| format!("http://{}", server.address).parse().unwrap();
    let addresses = vec![url(&one), url(&two)];
    let proxy = Proxy::with(Controller { addresses, authority: None, token: None });
    for _ in 0..4 {
        let stream = tokio::select! {
            stream = one.stream() => stream,
            stream = two.stream() => stream,
        };
        stream.place("a").await;
        stream.fail(tonic::Status::unavailable("going away")).await;
    }
    let seen = [&one, &two].map(Server::accepted);
    assert_eq!(seen, [2, 2], "in turn");
    drop(two);
    let stream = one.stream().await;
    stream.place("a").await;
    eventually("the one that is left", || {
        matches!(proxy.status.seen().stream, Stream::Connected(replica) if replica == one.address)
    })
    .await;
}

#[tokio::test]
async fn without_any_controller_the_proxy_goes_on_and_comes_back() {
    let mut server = Server::start();
    let (proxy, stream) = shop(&mut server).await;
    let address = server.address;
    drop((stream, server));
    eventually("it is noticed", || proxy.status.seen().stream == Stream::Disconnected).await;
    assert_eq!(proxy.find("cart").await.unwrap(), CART, "last known good");
    assert_eq!(proxy.find("new").await.unwrap(), "unanswered", "on to where it was sent");
    let stale = proxy.status.seen().stale.unwrap();
    eventually("its age rises", || proxy.status.seen().stale.unwrap() > stale).await;
    assert!(proxy.status.seen().failure.is_some());

    let mut server = Server::start_at(address, None);
    let mut stream = server.stream().await;
    stream.place("a").await;
    let mut heard = [stream.heard().await, stream.heard().await];
    heard.sort();
    assert_eq!(heard, ["+cart:80", "+new:80"]);
    stream.service("shop/new:80", 1, &["10.0.0.2:1"]).await;
    stream.resolved("new:80", "shop/new:80").await;
    eventually("what was passed through is balanced", || !proxy.ports("shop/new:80").is_empty())
        .await;
    assert_eq!(proxy.find("new").await.unwrap(), "shop/new:80");
    assert_eq!(proxy.status.seen().stale, Some(Duration::ZERO));
}

#[tokio::test]
async fn a_cold_proxy_without_controller_is_ready_and_waits_for_nobody() {
    let server = Server::start();
    let address = server.address;
    drop(server);
    let mut proxy = Proxy::follow(address);
    proxy.tried().await;
    assert_eq!(proxy.find("cart").await.unwrap(), "unanswered");
    let seen = proxy.status.seen();
    assert_eq!((seen.stream, seen.stale), (Stream::Disconnected, None), "there never was one");
}

#[tokio::test]
async fn a_missed_change_is_asked_for_again() {
    let mut server = Server::start();
    let (proxy, mut stream) = shop(&mut server).await;
    let change = api::discovery::ServiceChange {
        id: CART.to_owned(),
        base: 8,
        version: 9,
        ..api::discovery::ServiceChange::default()
    };
    stream.send(api::discovery::from_controller::Message::Change(change)).await;
    assert_eq!([stream.heard().await, stream.heard().await], ["-cart:80", "+cart:80"]);
    assert_eq!(proxy.ports(CART), [1, 2]);
    stream.service(CART, 9, &["10.0.0.1:9"]).await;
    stream.resolved("cart:80", CART).await;
    eventually("the whole set is replaced", || proxy.ports(CART) == [9]).await;
    assert_eq!(proxy.status.seen().resyncs, 1);
}

#[tokio::test]
async fn who_is_refused_says_why_and_goes_on() {
    let server = Server::start();
    server.refuse(tonic::Status::unauthenticated("the token is not valid"));
    let mut proxy = Proxy::follow(server.address);
    proxy.tried().await;
    let seen = proxy.status.seen();
    assert_eq!(seen.stream, Stream::Disconnected);
    let why = seen.failure.unwrap();
    assert!(why.contains("Unauthenticated") && why.contains("the token is not valid"), "{why}");
    assert!(server.is_idle());
}

#[tokio::test]
async fn who_is_refused_on_the_stream_waits_for_nobody() {
    let mut server = Server::start();
    let mut proxy = Proxy::follow(server.address);
    let found = proxy.find("cart");
    server.stream().await.fail(tonic::Status::unauthenticated("the token is not valid")).await;
    proxy.tried().await;
    assert_eq!(found.await.unwrap(), "unanswered");
    let seen = proxy.status.seen();
    assert_eq!((seen.stream, seen.stale), (Stream::Disconnected, None), "it never was connected");
    assert!(seen.failure.unwrap().contains("the token is not valid"));
}

#[tokio::test]
async fn a_replica_that_works_is_reached_although_others_swallow_everything() {
    // Their queues of connections are full: what comes next is not answered, as behind a firewall.
    let (one, two) = (Silent::start().await, Silent::start().await);
    let mut works = Server::start();
    let all = [one.address, works.address, two.address];
    let urls = all.map(|address| format!("http://{address}").parse().unwrap());
    for _ in 0..3 {
        let addresses = urls.clone().into();
        let proxy = Proxy::with(Controller { addresses, authority: None, token: None });
        let stream = tokio::time::timeout(CONNECTED, works.stream()).await.expect("in time");
        stream.place("a").await;
        eventually("it is connected", || {
            proxy.status.seen().stream == Stream::Connected(works.address)
        })
        .await;
        assert!(works.is_idle(), "and stays");
    }
}

#[tokio::test]
async fn the_token_is_read_again_for_each_stream() {
    let mut server = Server::start();
    let file = file("token", "one\n");
    let token = Some(file.clone());
    let proxy =
        Proxy::with(Controller { token, ..controller(&format!("http://{}", server.address)) });
    let stream = server.stream().await;
    assert_eq!(stream.authorization.as_deref(), Some("Bearer one"));
    std::fs::write(&file, "two\n").unwrap();
    stream.fail(tonic::Status::unavailable("going away")).await;
    assert_eq!(server.stream().await.authorization.as_deref(), Some("Bearer two"));
    drop(proxy);
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn tls_is_spoken_with_who_the_authority_vouches_for_and_nobody_else() {
    let (pem, acceptor) = authority();
    let (other, _) = authority();
    let mut server = Server::start_at("127.0.0.1:0".parse().unwrap(), Some(acceptor));
    let url = format!("https://localhost:{}", server.address.port());
    let ca = file("ca", &other);
    let with = |authority| Controller { authority, ..controller(&url) };

    for (authority, expected) in [
        (Some(Authority::read(&other)), "no TLS"),
        (None, "TIDEGATE_CONTROLLER_CA"),
        (Some(Authority::File("/nonexistent".into())), "TIDEGATE_CONTROLLER_CA"),
    ] {
        let mut proxy = Proxy::with(with(authority));
        proxy.tried().await;
        let why = proxy.status.seen().failure.unwrap();
        assert!(why.contains(expected), "{why}");
    }
    assert!(server.is_idle());

    let by_text = Proxy::with(with(Some(Authority::read(&pem))));
    server.stream().await;
    drop(by_text);
    let by_file = Proxy::with(with(Some(Authority::read(ca.to_str().unwrap()))));
    eventually("the wrong one fails", || by_file.status.seen().failure.is_some()).await;
    std::fs::write(&ca, pem).unwrap();
    server.stream().await;
    std::fs::remove_file(ca).unwrap();
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

/// An authority as PEM, and a server named `localhost` that it vouches for.
fn authority() -> (String, TlsAcceptor) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    (issuer.pem(), TlsAcceptor::from(Arc::new(config)))
}
