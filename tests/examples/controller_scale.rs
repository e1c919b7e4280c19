//! What a controller costs and how soon proxies hear of a change: `cargo xtask bench controller`.
//!
//! A real API server holds the Services; listeners stand in for proxies; a writer changes one slice after the other at a steady
//! rate. A change is an endpoint that comes and one that goes; its latency runs from the API server's answer to each listener.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement stops at its first surprise and prints what it found"
)]

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use tests::controller::Controller;
use tests::deadline::{Moment, spread, until};
use tests::kubernetes::shop::{self, Endpoint};
use tests::kubernetes::{Cluster, Programs};
use tests::listener::{Listener, Listeners, Who};

/// One size of a cluster.
struct Scale {
    name: &'static str,
    services: u32,
    endpoints_each: u32,
    proxies: u32,
    subscriptions: u32,
    changes_per_second: u32,
    seconds: u32,
}

const SCALES: [Scale; 2] = [
    Scale {
        name: "one service",
        services: 1,
        endpoints_each: 500,
        proxies: 50,
        subscriptions: 1,
        changes_per_second: 10,
        seconds: 20,
    },
    Scale {
        name: "large cluster",
        services: 5_000,
        endpoints_each: 10,
        proxies: 1_000,
        subscriptions: 20,
        changes_per_second: 100,
        seconds: 30,
    },
];

/// Filling a large cluster takes minutes.
const FILL: Duration = Duration::from_mins(20);
/// Far above any latency that is worth being measured.
const ARRIVAL: Duration = Duration::from_mins(2);
/// Endpoints of one slice, as Kubernetes' own controller fills them.
const SLICE: u32 = 100;

fn main() {
    let divisor = std::env::args().nth(1).map_or(1, |text| text.parse::<u32>().unwrap());
    let Ok(programs) = Programs::find() else { panic!("`cargo xtask test` builds the API server") };
    println!(
        "| cluster | listeners | changes | p50 | p99 | longest | controller RSS | controller cores |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for scale in &SCALES {
        measure(&programs, scale, divisor);
    }
}

/// The address of an endpoint: generation 0 is what stands there first.
fn address(service: u32, number: u32, generation: u32) -> Ipv4Addr {
    let [_, high, low_service, _] = (service << 8).to_be_bytes();
    // 10 and 11 up to 100 are generations of one plan: no two endpoints share an address.
    let first = 10 + u8::try_from(generation % 200).unwrap();
    if number < 256 {
        Ipv4Addr::new(first, high, low_service, u8::try_from(number).unwrap())
    } else {
        Ipv4Addr::new(
            first,
            200 + u8::try_from(number / 256).unwrap(),
            low_service,
            u8::try_from(number % 256).unwrap(),
        )
    }
}

fn zone(number: u32) -> &'static str {
    match number % 3 {
        0 => "a",
        1 => "b",
        _ => "c",
    }
}

struct Plan<'a> {
    scale: &'a Scale,
    cluster: Cluster,
    /// How often each endpoint was replaced.
    generations: HashMap<(u32, u32), u32>,
}

impl Plan<'_> {
    fn write(&self, service: u32, slice: u32) {
        let name = format!("s{service}");
        let numbers = (slice * SLICE)..((slice + 1) * SLICE).min(self.scale.endpoints_each);
        let endpoints: Vec<Endpoint> = numbers
            .map(|number| {
                let generation = self.generations.get(&(service, number)).copied().unwrap_or(0);
                Endpoint::new(address(service, number, generation), zone(number))
            })
            .collect();
        self.cluster.client().apply(shop::slice(
            &format!("{name}-{slice}"),
            &name,
            8080,
            &endpoints,
        ));
    }

    fn fill(&self) {
        for service in 0..self.scale.services {
            self.cluster
                .client()
                .apply(shop::service(&format!("s{service}"), &serde_json::json!({})));
            for slice in 0..self.scale.endpoints_each.div_ceil(SLICE) {
                self.write(service, slice);
            }
        }
    }

    /// Replaces one endpoint after the other at the wanted rate; what was done, and how long it took.
    fn change_steadily(&mut self, random: &mut fastrand::Rng) -> (Vec<Change>, Duration) {
        let start = Moment::now();
        let mut changes = Vec::new();
        let scale = self.scale;
        let span = Duration::from_secs(u64::from(scale.seconds));
        // Each endpoint once before any twice: of two changes of one, a listener may rightly hear only the last.
        let mut all: Vec<u32> = (0..scale.services * scale.endpoints_each).collect();
        random.shuffle(&mut all);
        let mut next = all.iter().cycle();
        spread(scale.changes_per_second * scale.seconds, span, |_| {
            let place = next.next().copied().unwrap_or_default();
            let service = place / scale.endpoints_each;
            let [come, gone] = self.change(service, place % scale.endpoints_each);
            changes.push(Change { service, come, gone, at: Moment::now() });
        });
        (changes, Moment::now().since(start))
    }

    /// Replaces an endpoint; the address that comes and the one that goes.
    fn change(&mut self, service: u32, number: u32) -> [String; 2] {
        let generation = self.generations.entry((service, number)).or_default();
        let gone = address(service, number, *generation);
        *generation += 1;
        let come = address(service, number, *generation);
        self.write(service, number / SLICE);
        [come, gone].map(|address| format!("{address}:8080"))
    }
}

/// One endpoint replaced by another.
struct Change {
    service: u32,
    come: String,
    gone: String,
    /// When the API server had taken it.
    at: Moment,
}

impl Change {
    /// How long it took to reach each listener that it concerns.
    fn latencies(&self, all: &[Listener], subscribed: &[Vec<u32>]) -> Vec<Duration> {
        let pairs = all.iter().zip(subscribed);
        let concerned = pairs.filter(|(_, services)| services.contains(&self.service));
        let arrivals = concerned.map(|(listener, _)| {
            until("a change arrives", ARRIVAL, || {
                listener.look(|heard| {
                    let come = heard.moments.get(&self.come).and_then(|moments| moments.0);
                    let gone = heard.moments.get(&self.gone).and_then(|moments| moments.1);
                    come.zip(gone).ok_or(())
                })
            })
        });
        arrivals.flat_map(|(come, gone)| [come.since(self.at), gone.since(self.at)]).collect()
    }
}

fn measure(programs: &Programs, scale: &Scale, divisor: u32) {
    let part = |count: u32| (count / divisor).max(1);
    let scale = &Scale { services: part(scale.services), proxies: part(scale.proxies), ..*scale };
    let cluster = Cluster::start(programs);
    cluster.shop();
    let mut plan = Plan { scale, cluster, generations: HashMap::new() };
    plan.fill();
    let controller =
        Controller::start(&plan.cluster.kubeconfig(Some(&plan.cluster.controller_token())));
    let listeners = Listeners::new();
    let mut random = fastrand::Rng::with_seed(1);
    let subscribed: Vec<Vec<u32>> = (0..scale.proxies)
        .map(|_| (0..scale.subscriptions).map(|_| random.u32(..scale.services)).collect())
        .collect();
    let all: Vec<Listener> = (0..)
        .zip(&subscribed)
        .map(|(number, services)| listen(&listeners, &controller, number, services))
        .collect();
    for (listener, services) in all.iter().zip(&subscribed) {
        let mut services = services.clone();
        services.sort_unstable();
        services.dedup();
        listener.until("every subscription is answered", FILL, |heard| {
            if heard.services.len() == services.len() {
                Ok(())
            } else {
                Err(heard.services.len().to_string())
            }
        });
    }

    let before = controller.process.cpu();
    let (changes, written) = plan.change_steadily(&mut random);
    let used = controller.process.cpu().saturating_sub(before);
    let mut latencies: Vec<Duration> =
        changes.iter().flat_map(|change| change.latencies(&all, &subscribed)).collect();
    all.iter().for_each(Listener::assert_consistent);
    latencies.sort();
    let quantile = |permille: usize| {
        let place = latencies.len().saturating_sub(1) * permille / 1000;
        latencies.get(place).copied().unwrap_or_default()
    };
    println!(
        "| {}: {} services, {} endpoints | {} with {} each | {:.0}/s, {} heard | {:.1?} | {:.1?} | {:.1?} | {} MiB | {:.2} |",
        scale.name,
        scale.services,
        scale.services * scale.endpoints_each,
        scale.proxies,
        scale.subscriptions,
        changes.len() as f64 / written.as_secs_f64(),
        latencies.len(),
        quantile(500),
        quantile(990),
        quantile(1000),
        controller.process.resident_kib() / 1024,
        used.as_secs_f64() / written.as_secs_f64(),
    );
}

fn listen(
    listeners: &Listeners,
    controller: &Controller,
    number: u32,
    services: &[u32],
) -> Listener {
    let zone = zone(number);
    let who = Who {
        namespace: "shop".to_owned(),
        pod: format!("caller-{number}"),
        node: format!("node-{zone}"),
        token: None,
    };
    let names: Vec<String> = services.iter().map(|service| format!("s{service}:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    listeners.listen(controller.discovery, &who, &names)
}
