//! What stands in the cluster, and how it changes.

use crate::simulated::Simulated;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use tests::deadline::Moment;
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};

/// Endpoints of one slice, as Kubernetes' own controller fills them.
const SLICE: u32 = 100;
/// Generations of addresses; as many times an endpoint may be replaced before one comes back.
const GENERATIONS: u32 = 200;
const SERVICES: &str = "/api/v1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const NODES: &str = "/api/v1/nodes";

/// Where the controller's objects come from.
pub(crate) enum Source {
    /// etcd and kube-apiserver.
    Real(Box<Cluster>),
    Simulated(Simulated),
}

impl Source {
    pub(crate) fn real(programs: &Programs) -> Self {
        let cluster = Cluster::start(programs);
        cluster.shop();
        Self::Real(Box::new(cluster))
    }

    pub(crate) fn simulated() -> Self {
        let simulated = Simulated::start();
        for zone in ["a", "b", "c"] {
            let labels =
                json!({"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "r"});
            let name = format!("node-{zone}");
            simulated.apply(NODES, json!({"metadata": {"name": name, "labels": labels}}));
        }
        Self::Simulated(simulated)
    }

    pub(crate) fn kubeconfig(&self) -> String {
        match self {
            Self::Real(cluster) => cluster.kubeconfig(Some(&cluster.controller_token())),
            Self::Simulated(simulated) => simulated.kubeconfig(),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Real(_) => "real API server",
            Self::Simulated(_) => "simulated objects",
        }
    }

    fn apply(&self, path: &str, object: Value) {
        match self {
            Self::Real(cluster) => drop(cluster.client().apply(object)),
            Self::Simulated(simulated) => simulated.apply(path, object),
        }
    }
}

/// One endpoint replaced by another.
pub(crate) struct Change {
    pub(crate) service: u32,
    pub(crate) come: String,
    pub(crate) gone: String,
    /// When the API server had taken it.
    pub(crate) at: Moment,
}

/// Services `s0`, `s1` and so on with as many endpoints each.
pub(crate) struct Plan {
    pub(crate) source: Source,
    services: u32,
    endpoints_each: u32,
    /// How often each endpoint was replaced.
    generations: HashMap<(u32, u32), u32>,
    /// Endpoints in the order in which they are replaced: each once before any twice, since of two changes of one a listener
    /// may rightly hear only the last.
    order: Vec<u32>,
    next: usize,
}

impl Plan {
    /// Fills the cluster.
    pub(crate) fn fill(
        source: Source,
        services: u32,
        endpoints_each: u32,
        random: &mut fastrand::Rng,
    ) -> Self {
        let mut order: Vec<u32> = (0..services * endpoints_each).collect();
        random.shuffle(&mut order);
        let plan =
            Self { source, services, endpoints_each, generations: HashMap::new(), order, next: 0 };
        for service in 0..plan.services {
            let mut object = shop::service(&format!("s{service}"), &json!({}));
            if matches!(plan.source, Source::Simulated(_)) {
                // What a real server adds.
                let [_, first, second, third] = service.to_be_bytes();
                object["spec"]["clusterIPs"] = json!([Ipv4Addr::new(172, first, second, third)]);
                object["metadata"]["uid"] = json!(format!("service-{service}"));
            }
            plan.source.apply(SERVICES, object);
            for slice in 0..plan.endpoints_each.div_ceil(SLICE) {
                plan.write(service, slice);
            }
        }
        plan
    }

    /// Replaces the next endpoint by another.
    pub(crate) fn change(&mut self) -> Change {
        let place = self.order[self.next % self.order.len()];
        self.next += 1;
        let (service, number) = (place / self.endpoints_each, place % self.endpoints_each);
        let generation = self.generations.entry((service, number)).or_default();
        let gone = address(service, number, *generation);
        *generation += 1;
        let come = address(service, number, *generation);
        self.write(service, number / SLICE);
        let [come, gone] = [come, gone].map(|address| format!("{address}:8080"));
        Change { service, come, gone, at: Moment::now() }
    }

    /// The addresses of a service now.
    pub(crate) fn addresses(&self, service: u32) -> BTreeSet<String> {
        let numbers = 0..self.endpoints_each;
        numbers.map(|number| format!("{}:8080", self.address(service, number))).collect()
    }

    fn address(&self, service: u32, number: u32) -> Ipv4Addr {
        let generation = self.generations.get(&(service, number)).copied().unwrap_or(0);
        address(service, number, generation)
    }

    fn write(&self, service: u32, slice: u32) {
        let name = format!("s{service}");
        let numbers = (slice * SLICE)..((slice + 1) * SLICE).min(self.endpoints_each);
        let endpoints: Vec<Endpoint> = numbers
            .map(|number| Endpoint::new(self.address(service, number), zone(number)))
            .collect();
        let slice = shop::slice(&format!("{name}-{slice}"), &name, 8080, &endpoints);
        self.source.apply(SLICES, slice);
    }
}

/// The zone of an endpoint or a caller.
pub(crate) fn zone(number: u32) -> &'static str {
    ["a", "b", "c"][number as usize % 3]
}

/// The address of an endpoint; no two share one. Generation 0 is what stands there first.
fn address(service: u32, number: u32, generation: u32) -> Ipv4Addr {
    let [_, _, high, low] = service.to_be_bytes();
    let [_, _, hundreds, last] = number.to_be_bytes();
    let first = 10 + u8::try_from(generation % GENERATIONS).unwrap();
    // Services of more than 256 endpoints are few: their further ones get the second bytes that no other service has.
    let second = if hundreds == 0 { high } else { 200 + hundreds };
    Ipv4Addr::new(first, second, low, last)
}
