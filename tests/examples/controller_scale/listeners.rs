//! Listeners, which are cheap enough that a thousand fit beside the controller.

use crate::figures::{Figures, Outcome};
use crate::plan::{Change, Plan, Source, zone};
use std::collections::BTreeSet;
use std::time::Duration;
use tests::controller::Controller;
use tests::deadline::{Moment, spread};
use tests::listener::{Listener, Listeners, Who};

/// Until a thousand have been told everything.
const BEGIN: Duration = Duration::from_mins(5);
/// Far above any latency that is worth being measured.
const ARRIVAL: Duration = Duration::from_mins(1);

/// The size of a cluster.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) services: u32,
    pub(crate) endpoints_each: u32,
    pub(crate) listeners: u32,
    pub(crate) subscriptions: u32,
    pub(crate) changes_per_second: u32,
    pub(crate) seconds: u32,
}

impl Scale {
    /// A smaller one.
    pub(crate) fn divided(self, divisor: u32) -> Self {
        let part = |count: u32| (count / divisor).max(1);
        Self { services: part(self.services), listeners: part(self.listeners), ..self }
    }
}

/// A listener and the services that it asked for.
struct Reader {
    listener: Listener,
    services: BTreeSet<u32>,
}

pub(crate) fn measure(source: Source, scale: &Scale) -> Outcome {
    let mut random = fastrand::Rng::with_seed(1);
    let mut plan = Plan::fill(source, scale.services, scale.endpoints_each, &mut random);
    let controller = Controller::start(&plan.source.kubeconfig());
    let listeners = Listeners::new();
    let begun = Moment::now();
    let readers: Vec<Reader> = (0..scale.listeners)
        .map(|number| {
            let services = (0..scale.subscriptions).map(|_| random.u32(..scale.services)).collect();
            listen(&listeners, &controller, number, services)
        })
        .collect();
    for Reader { listener, services } in &readers {
        listener.until("every subscription is answered", BEGIN, |heard| {
            let count = heard.services.len();
            if count == services.len() { Ok(()) } else { Err(count.to_string()) }
        });
    }
    let began = Moment::now().since(begun);
    println!("{} listeners were told of everything after {began:.1?}", readers.len());

    let before = controller.process.cpu();
    let start = Moment::now();
    let mut changes = Vec::new();
    let span = Duration::from_secs(u64::from(scale.seconds));
    spread(scale.changes_per_second * scale.seconds, span, |_| changes.push(plan.change()));
    let written = Moment::now().since(start);
    let used = controller.process.cpu().saturating_sub(before);
    let latencies = changes.iter().flat_map(|change| latencies(change, &readers)).collect();
    for reader in &readers {
        reader.listener.assert_consistent();
    }
    let per_second = changes.len() as f64 / written.as_secs_f64();
    Outcome {
        cluster: format!(
            "{}: {} service{}, {} endpoints",
            plan.source.name(),
            scale.services,
            if scale.services == 1 { "" } else { "s" },
            scale.services * scale.endpoints_each
        ),
        readers: format!("{} listeners of {}", scale.listeners, scale.subscriptions),
        figures: Figures::of(latencies, per_second, &controller, used, written),
    }
}

fn listen(
    listeners: &Listeners,
    controller: &Controller,
    number: u32,
    services: BTreeSet<u32>,
) -> Reader {
    let who = Who {
        namespace: "shop".to_owned(),
        pod: format!("caller-{number}"),
        node: format!("node-{}", zone(number)),
        token: None,
    };
    let names: Vec<String> = services.iter().map(|service| format!("s{service}:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Reader { listener: listeners.listen(controller.discovery, &who, &names), services }
}

/// How long a change took to reach each reader that it concerns: that one endpoint came, and that the other went.
fn latencies(change: &Change, readers: &[Reader]) -> Vec<Duration> {
    let concerned = readers.iter().filter(|reader| reader.services.contains(&change.service));
    let arrivals = concerned.map(|reader| {
        reader.listener.until("a change arrives", ARRIVAL, |heard| {
            let come = heard.moments.get(&change.come).and_then(|moments| moments.0);
            let gone = heard.moments.get(&change.gone).and_then(|moments| moments.1);
            come.zip(gone).ok_or_else(|| format!("{} for {}", change.come, change.gone))
        })
    });
    arrivals.flat_map(|(come, gone)| [come.since(change.at), gone.since(change.at)]).collect()
}
