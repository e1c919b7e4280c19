//! A proxy with one worker, told directly what exists.

use super::eventually;
use api::policy::Policy;
use api::policy::source::PolicySource;
use proxy::clock::Clock;
use proxy::discovery::{
    EndpointProtocol, EndpointUpdate, ListenerKind, ListenerSpec, Place, ServiceUpdate, World,
};
use proxy::drain::Signal;
use proxy::registry::Registry;
use proxy::service::ServiceSnapshot;
use proxy::worker::Workers;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static METRICS: LazyLock<kit::metrics::Metrics> = LazyLock::new(|| {
    kit::metrics::Metrics::install(kit::metrics::Build { program: "test", version: "0" }).unwrap()
});

/// A running proxy with one service, in zone `a`. It ends with its value.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// The listener of the service.
    pub(crate) address: SocketAddr,
    /// The forward listener.
    pub(crate) forward: SocketAddr,
    pub(crate) registry: Arc<Registry>,
    pub(crate) signal: Signal,
    pub(crate) workers: Option<Workers>,
    name: Arc<str>,
    protocol: EndpointProtocol,
}

impl Proxy {
    /// Starts a proxy whose service has these endpoints. The service's name is `name`, which no other test may use.
    pub(crate) fn start(name: &str, protocol: EndpointProtocol, endpoints: &[SocketAddr]) -> Self {
        Self::with_policy(name, protocol, endpoints, Policy::default())
    }

    /// The same with a policy.
    pub(crate) fn with_policy(
        name: &str,
        protocol: EndpointProtocol,
        endpoints: &[SocketAddr],
        policy: Policy,
    ) -> Self {
        LazyLock::force(&METRICS);
        let registry = Arc::new(Registry::new(Clock::start()));
        let name: Arc<str> = name.into();
        registry.apply(&world(&name, protocol, endpoints, policy));
        let signal = Signal::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let listeners = [
            ListenerSpec { address: any, kind: ListenerKind::Service(Arc::clone(&name)) },
            ListenerSpec { address: any, kind: ListenerKind::Forward },
        ];
        let workers = Workers::start(1, &registry, &listeners, &signal).unwrap();
        let (address, forward) = (workers.addresses[0], workers.addresses[1]);
        Self { address, forward, registry, signal, workers: Some(workers), name, protocol }
    }

    pub(crate) fn http1(name: &str, endpoints: &[SocketAddr]) -> Self {
        Self::start(name, EndpointProtocol::Http1, endpoints)
    }

    pub(crate) fn http2(name: &str, endpoints: &[SocketAddr]) -> Self {
        Self::start(name, EndpointProtocol::Http2, endpoints)
    }

    /// Replaces the endpoints.
    pub(crate) fn set_endpoints(&self, endpoints: &[SocketAddr]) {
        self.registry.apply(&world(&self.name, self.protocol, endpoints, Policy::default()));
    }

    pub(crate) fn snapshot(&self) -> ServiceSnapshot {
        self.registry.service(&self.name).unwrap().snapshot()
    }

    /// Waits until no request is under way, which must always come.
    pub(crate) async fn settles(&self) {
        eventually("nothing outstanding", || {
            let snapshot = self.snapshot();
            snapshot
                .endpoints()
                .all(|(endpoint, seen)| seen.outstanding == 0 && endpoint.counts.open_bodies() == 0)
        })
        .await;
    }

    /// The value of a counter of this service whose labels contain all of `labels`, summed up.
    pub(crate) fn counted(&self, metric: &str, labels: &[&str]) -> f64 {
        let service = format!("service=\"{}\"", self.name);
        let lines = METRICS.render();
        let lines = lines
            .lines()
            .filter(|line| line.starts_with(&format!("{metric}{{")) && line.contains(&service));
        lines
            .filter(|line| labels.iter().all(|label| line.contains(label)))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    /// Waits for a counter.
    pub(crate) async fn counts(&self, metric: &str, labels: &[&str], expected: f64) {
        eventually(&format!("{metric} {labels:?} = {expected}"), || {
            (self.counted(metric, labels) - expected).abs() < 0.5
        })
        .await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.signal.start(Duration::ZERO);
        if let Some(workers) = self.workers.take() {
            workers.join();
        }
    }
}

fn world(
    name: &Arc<str>,
    protocol: EndpointProtocol,
    endpoints: &[SocketAddr],
    policy: Policy,
) -> World {
    let zone = Some(Arc::from("a"));
    let endpoints = endpoints
        .iter()
        .map(|address| EndpointUpdate { zone: zone.clone(), ..EndpointUpdate::at(*address) });
    let service = ServiceUpdate {
        name: Arc::clone(name),
        hosts: vec![format!("{name}.shop").into()],
        addresses: Vec::new(),
        protocol,
        policy: Arc::new(policy),
        policy_source: PolicySource::BuiltIn,
        policy_object: None,
        callers: Vec::new(),
        endpoints: endpoints.collect(),
    };
    World {
        place: Place { zone, region: None, node: None },
        listeners: Vec::new(),
        services: vec![service],
    }
}
