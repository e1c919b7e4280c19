//! Scenarios that no one chose: a random base with a random fault, the zone valve against the best of its peers in each.

use crate::fault::{Ailment, Effect, Episode, Target};
use crate::jobs::{Job, Results};
use crate::policy::PolicyKind;
use crate::scenario::{Base, Demand, SPAN, Scenario, base_named};
use crate::table::{Table, number};
use crate::world::chance::{Stream, stream_of};
use fastrand::Rng;
use serde::Serialize;
use std::sync::Arc;

/// One random scenario and what became of it. Shares and success in per cent.
#[derive(Clone, Debug, Serialize)]
pub struct Contest {
    /// `random.SEED.INDEX`, to be run again by that name.
    pub scenario: String,
    /// What happens in it.
    pub what: String,
    /// Success of the zone valve's zone-0 callers in the fault.
    pub ok: f64,
    /// The same with retries.
    pub ok_retry: f64,
    /// Crossing before the fault.
    pub xs: f64,
    /// Crossing in the fault.
    pub xf: f64,
    /// 99th percentile in the fault, in milliseconds.
    pub p99: f64,
    /// The best peer by success, of several the one that crosses least.
    pub best: PolicyKind,
    /// Its success.
    pub best_ok: f64,
    /// Its crossing in the fault.
    pub best_xf: f64,
    /// How much success is lost to it, never negative.
    pub loss: f64,
    /// The success of all peers, in the order of [`PolicyKind::PEERS`].
    pub peers: Vec<f64>,
}

/// Means over all contests.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The contests.
    pub contests: Vec<Contest>,
    /// Mean loss of success against the best peer of each scenario, in points.
    pub loss: f64,
    /// Mean crossing before the fault, in per cent.
    pub xs: f64,
    /// Mean loss of each peer against the best of all policies, the zone valve included.
    pub peer_losses: Vec<(PolicyKind, f64)>,
    /// The same of the zone valve.
    pub own_loss: f64,
}

/// What may be lost against the best peer, in points, and crossed before the fault, in per cent: means.
pub const LOSS_MAX: f64 = 0.5;
/// See [`LOSS_MAX`].
pub const CROSSING_MAX: f64 = 1.0;

/// Bases to draw from; more often those of usual size.
const BASES: [&str; 19] = [
    "c3", "c3", "c30", "c30", "c30", "c30", "c300", "c300", "gw", "2s", "heavy", "rho70", "tight",
    "low", "s1", "s30", "k1", "vlo", "demo",
];

impl Outcome {
    /// Whether both limits are kept.
    pub fn holds(&self) -> bool {
        self.loss <= LOSS_MAX && self.xs <= CROSSING_MAX
    }
}

/// Runs scenarios `0..count` of a seed.
pub fn contest((count, seed): (u32, u64), results: &mut Results) -> Outcome {
    let scenarios: Vec<_> = (0..count).map(|index| scenario(seed, index)).collect();
    let own = [PolicyKind::Valve, PolicyKind::ValveRetry];
    let policies = || own.into_iter().chain(PolicyKind::PEERS);
    let shared: Vec<Arc<Scenario>> =
        scenarios.iter().map(|(scenario, _)| Arc::new(scenario.clone())).collect();
    let jobs = shared.iter().flat_map(|scenario| {
        policies().map(move |policy| Job { scenario: Arc::clone(scenario), policy, seed })
    });
    results.add(jobs.collect());
    let contests: Vec<Contest> = scenarios
        .iter()
        .filter_map(|(scenario, what)| held(&scenario.name, what, seed, results))
        .collect();
    let mean =
        |of: &dyn Fn(&Contest) -> f64| contests.iter().map(of).sum::<f64>() / contests.len() as f64;
    let peer_loss = |peer: usize| mean(&|c| c.best_ok.max(c.ok) - c.peers[peer]);
    Outcome {
        loss: mean(&|c| c.loss),
        xs: mean(&|c| c.xs),
        own_loss: mean(&|c| c.best_ok.max(c.ok) - c.ok),
        peer_losses: PolicyKind::PEERS
            .into_iter()
            .enumerate()
            .map(|(i, peer)| (peer, peer_loss(i)))
            .collect(),
        contests,
    }
}

fn held(name: &str, what: &str, seed: u64, results: &Results) -> Option<Contest> {
    let own = results.of(name, PolicyKind::Valve, seed)?;
    let retry = results.of(name, PolicyKind::ValveRetry, seed)?;
    let peers: Vec<_> = PolicyKind::PEERS
        .into_iter()
        .filter_map(|peer| results.of(name, peer, seed).map(|m| (peer, m)))
        .collect();
    let (best, measured) =
        *peers.iter().max_by(|(_, a), (_, b)| a.ok.total_cmp(&b.ok).then(b.xf.total_cmp(&a.xf)))?;
    Some(Contest {
        scenario: name.to_owned(),
        what: what.to_owned(),
        ok: own.ok,
        ok_retry: retry.ok,
        xs: own.xs,
        xf: own.xf,
        p99: own.p99,
        best,
        best_ok: measured.ok,
        best_xf: measured.xf,
        loss: (measured.ok - own.ok).max(0.0),
        peers: peers.iter().map(|(_, m)| m.ok).collect(),
    })
}

/// All contests as a table, the greatest loss first; at most `rows`.
pub fn table(outcome: &Outcome, rows: usize) -> String {
    let mut contests: Vec<&Contest> = outcome.contests.iter().collect();
    contests.sort_by(|a, b| b.loss.total_cmp(&a.loss));
    let head = [
        "scenario",
        "what happens",
        "ok",
        "+ retry",
        "cross before",
        "cross",
        "p99 ms",
        "best peer",
        "its ok",
        "its cross",
        "loss",
    ];
    let mut table = Table::new(&head);
    for c in contests.into_iter().take(rows) {
        table.row(vec![
            c.scenario.clone(),
            c.what.clone(),
            number(c.ok),
            number(c.ok_retry),
            number(c.xs),
            number(c.xf),
            number(c.p99),
            c.best.title().to_owned(),
            number(c.best_ok),
            number(c.best_xf),
            format!("{:.2}", c.loss),
        ]);
    }
    table.text()
}

/// The means, as sentences.
pub fn summary(outcome: &Outcome) -> String {
    let Outcome { contests, loss, xs, peer_losses, own_loss } = outcome;
    let verdict = if outcome.holds() { "ok" } else { "FAIL" };
    let peers: Vec<String> =
        peer_losses.iter().map(|(peer, loss)| format!("{} {loss:.2}", peer.title())).collect();
    format!(
        "{} random scenarios: mean loss of success against the best peer of each {loss:.2} points (at most {LOSS_MAX}), \
         mean crossing before the fault {xs:.2} % (at most {CROSSING_MAX}): {verdict}\n\
         mean loss against the best of all: zone valve {own_loss:.2}, {}",
        contests.len(),
        peers.join(", ")
    )
}

/// The scenario of this name, if it is one of these.
pub fn named(name: &str) -> Option<Scenario> {
    let (seed, index) = name.strip_prefix("random.")?.split_once('.')?;
    Some(scenario(seed.parse().ok()?, index.parse().ok()?).0)
}

/// A random scenario, and what happens in it.
pub fn scenario(seed: u64, index: u32) -> (Scenario, String) {
    let mut rng = stream_of(seed, Stream::Scenario, u64::from(index));
    let drawn = BASES[rng.usize(..BASES.len())];
    let mut base =
        base_named(drawn).unwrap_or_else(|| unreachable!("the list above holds names of bases"));
    if let Demand::Utilisation(rho) = &mut base.demand {
        *rho *= between(&mut rng, 0.7, 1.2);
    }
    let (effects, what) = fault(&mut rng, &mut base);
    let ((from, until), end) = SPAN;
    let episodes = effects.into_iter().map(|effect| Episode { from, until, effect }).collect();
    let demand = match base.demand {
        Demand::Utilisation(rho) => format!("ρ {rho:.2}"),
        Demand::PerCaller(rate) => format!("{rate:.0} rps a caller"),
    };
    let what = format!("{}, {demand}: {what}", base.name);
    (Scenario::of(format!("random.{seed}.{index}"), base, episodes, (SPAN.0, end)), what)
}

/// A fault that fits the base.
fn fault(rng: &mut Rng, base: &mut Base) -> (Vec<Effect>, String) {
    let servers = base.servers[0];
    match rng.u32(..20) {
        0..10 => {
            let (ailment, what) = ailment(rng);
            (vec![Effect::Ail(Target::zone(0), ailment)], format!("zone 0 {what}"))
        }
        10..13 => {
            let (ailment, what) = ailment(rng);
            let count = rng.u32(1..=servers.div_ceil(2));
            (
                vec![Effect::Ail(Target::first(count), ailment)],
                format!("{count} of {servers} servers of zone 0 {what}"),
            )
        }
        13 => {
            let (ailment, what) = ailment(rng);
            (vec![Effect::Ail(Target::zone(1), ailment)], format!("zone 1 {what}"))
        }
        14 => {
            let (ailment, what) = ailment(rng);
            let effects = [0, 1].map(|zone| Effect::Ail(Target::zone(zone), ailment)).to_vec();
            (effects, format!("zones 0 and 1 {what}"))
        }
        15 => {
            let slow = rng.bool();
            let (factor, percent) = (between(rng, 1.2, 2.2), between(rng, 2.0, 30.0));
            let ailment =
                if slow { Ailment::Slow(factor) } else { failing(percent / 100.0, 0.001) };
            let what =
                if slow { format!("slow ×{factor:.1}") } else { format!("fail {percent:.0} %") };
            (vec![Effect::Ail(Target::EVERYWHERE, ailment)], format!("all zones {what}"))
        }
        16 | 17 => {
            let zone = (rng.u32(..4) > 0).then_some(0);
            let factor =
                if zone.is_some() { between(rng, 1.3, 3.0) } else { between(rng, 1.2, 2.4) };
            let who = if zone.is_some() { "zone 0" } else { "all callers" };
            (vec![Effect::Rate { zone, factor }], format!("{who} ×{factor:.1}"))
        }
        18 => {
            let count = rng.u32(1..=servers);
            (
                vec![Effect::Down(Target::first(count))],
                format!("{count} of {servers} servers of zone 0 down"),
            )
        }
        _ => {
            base.servers = [servers.div_ceil(2), servers, servers + servers / 2];
            (vec![], format!("servers {:?}", base.servers))
        }
    }
}

fn ailment(rng: &mut Rng) -> (Ailment, String) {
    match rng.u32(..10) {
        0 | 1 => (failing(1.0, 0.001), "fails fast".to_owned()),
        2 => {
            let after = between(rng, 0.01, 0.8);
            (failing(1.0, after), format!("fails after {:.0} ms", after * 1e3))
        }
        3 | 4 => (Ailment::Hang, "hangs".to_owned()),
        5..8 => {
            let factor = between(rng, 0.4, 3.4).exp();
            (Ailment::Slow(factor), format!("slow ×{factor:.1}"))
        }
        _ => {
            let percent = between(rng, 2.0, 95.0);
            (failing(percent / 100.0, 0.001), format!("fails {percent:.0} %"))
        }
    }
}

const fn failing(probability: f64, after: f64) -> Ailment {
    Ailment::Fail { probability, after }
}

fn between(rng: &mut Rng, from: f64, until: f64) -> f64 {
    from + rng.f64() * (until - from)
}
