//! Real proxies: when does an endpoint become one that they use, and when does it cease to be?

use crate::figures::{Figures, Outcome};
use crate::plan::{Change, Plan, Source};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tests::controller::Controller;
use tests::deadline::{Moment, spread, until};
use tests::kubernetes::Programs;
use tests::proxy::Proxy;
use tests::{http, ports};

const PROXIES: u32 = 50;
const ENDPOINTS: u32 = 500;
const CHANGES: u32 = 200;
const SECONDS: u32 = 40;
/// Proxies that are looked at after each change, others each time: to ask all of them all the time would cost more than what
/// is measured.
const LOOKED_AT: usize = 3;
const SERVICE: &str = "shop/s0:80";
/// Far above what is worth being measured.
const LIMIT: Duration = Duration::from_mins(1);

pub(crate) fn measure(programs: &Programs, divisor: u32) -> Outcome {
    let count = (PROXIES / divisor).max(1);
    let mut random = fastrand::Rng::with_seed(1);
    let mut plan = Plan::fill(Source::real(programs), 1, ENDPOINTS, &mut random);
    let controller = Controller::start(&plan.source.kubeconfig());
    let proxies: Vec<(Proxy, SocketAddr)> = (0..count)
        .map(|number| {
            let (outbound, pod) = (ports::free(), format!("shop/caller-{number}"));
            let arguments = ["--workers", "1", "--node", "node-a", "--pod", &pod];
            (Proxy::follow(&[controller.discovery], outbound, &arguments), outbound)
        })
        .collect();
    // The first request makes a proxy ask for the service. Nothing listens at its endpoints.
    std::thread::scope(|scope| {
        for (_, outbound) in &proxies {
            scope.spawn(|| drop(http::get_of_host(*outbound, "s0.shop")));
        }
    });
    let until_complete = |wanted: &BTreeSet<String>| {
        for (proxy, _) in &proxies {
            until("all endpoints, and no other", LIMIT, || {
                let known = known(proxy);
                if known == *wanted { Ok(()) } else { Err((known.len(), wanted.len())) }
            });
        }
    };
    until_complete(&plan.addresses(0));

    let before = controller.process.cpu();
    let start = Moment::now();
    let mut latencies = Vec::new();
    spread(CHANGES, Duration::from_secs(u64::from(SECONDS)), |_| {
        let change = plan.change();
        let looked_at = random.choose_multiple(&proxies, LOOKED_AT);
        std::thread::scope(|scope| {
            let change = &change;
            let look = |proxy| scope.spawn(move || until_in_force(proxy, change));
            let looking: Vec<_> = looked_at.into_iter().map(|(proxy, _)| look(proxy)).collect();
            latencies.extend(looking.into_iter().map(|looking| looking.join().unwrap()));
        });
    });
    let lasted = Moment::now().since(start);
    let used = controller.process.cpu().saturating_sub(before);
    until_complete(&plan.addresses(0));
    let resident: u64 = proxies.iter().map(|(proxy, _)| proxy.process.resident_kib()).sum();
    println!("a proxy takes {:.1} MiB on average", resident as f64 / f64::from(count) / 1024.0);
    Outcome {
        cluster: format!("{}: 1 service, {ENDPOINTS} endpoints", plan.source.name()),
        readers: format!("{count} real proxies"),
        figures: Figures::of(
            latencies,
            f64::from(CHANGES) / lasted.as_secs_f64(),
            &controller,
            used,
            lasted,
        ),
    }
}

/// How long it took until a proxy picks the one that came and not the one that went.
fn until_in_force(proxy: &Proxy, change: &Change) -> Duration {
    until("the change is in force", LIMIT, || {
        let known = known(proxy);
        let done = known.contains(&change.come) && !known.contains(&change.gone);
        if done { Ok(()) } else { Err(known.len()) }
    });
    Moment::now().since(change.at)
}

/// The endpoints that a proxy picks among.
fn known(proxy: &Proxy) -> BTreeSet<String> {
    proxy.states(SERVICE).into_iter().map(|(address, _)| address).collect()
}
