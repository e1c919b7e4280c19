//! The simulated world itself.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use sim::measure::Measured;
use sim::policy::PolicyKind;
use sim::scenario::Scenario;
use sim::world::Run;

const POLICIES: [PolicyKind; 10] = [
    PolicyKind::Valve,
    PolicyKind::ValveRetry,
    PolicyKind::Strict,
    PolicyKind::Envoy,
    PolicyKind::Istio,
    PolicyKind::Consul,
    PolicyKind::Hazl,
    PolicyKind::P2cPeak,
    PolicyKind::P2cLeast,
    PolicyKind::RoundRobin,
];

fn measured(scenario: &str, policy: PolicyKind, seed: u64) -> Measured {
    let scenario = Scenario::named(scenario).unwrap();
    Run { scenario: &scenario, policy, seed, sample_every: None }.measured()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for policy in POLICIES {
        let [first, again] = [5, 5].map(|seed| measured("part30.demo", policy, seed));
        assert_eq!(first, again, "{policy:?}, seed 5");
        assert_ne!(first, measured("part30.demo", policy, 6), "{policy:?}, seed 6");
    }
}

#[test]
fn every_request_ends_exactly_once() {
    for scenario in [
        "hang.demo",
        "hang.demo.cancel",
        "trickle.demo",
        "stream50.demo",
        "lpoll50.demo",
        "hang.still40.demo",
        "steady.jerky40.demo",
    ] {
        for policy in POLICIES {
            let totals = measured(scenario, policy, 3).totals;
            let ended = totals.succeeded + totals.failed + totals.cancelled;
            assert_eq!(totals.arrived, ended, "{scenario}, {policy:?}, seed 3: {totals:?}");
        }
    }
}

#[test]
fn nothing_fails_in_a_world_without_faults() {
    for policy in POLICIES {
        let totals = measured("steady.demo", policy, 4).totals;
        assert_eq!(totals.arrived, totals.succeeded, "{policy:?}, seed 4: {totals:?}");
        assert_eq!(totals.retries, 0, "{policy:?}, seed 4");
    }
}

#[test]
fn arrivals_are_the_same_for_every_policy() {
    let arrived = POLICIES.map(|policy| measured("heavyz.demo", policy, 2).totals.arrived);
    assert!(arrived.iter().all(|count| *count == arrived[0]), "seed 2: {arrived:?}");
}

#[test]
fn the_rate_of_arrivals_is_the_scenario_s() {
    // 3 callers of 100 a second for 210 s, zone 0 at 2.4 times that for 60 s of them.
    let expected = 3.0 * 100.0 * 210.0 + 1.4 * 100.0 * 60.0;
    let arrived = measured("heavyz.demo", PolicyKind::RoundRobin, 1).totals.arrived as f64;
    assert!((arrived / expected - 1.0).abs() < 0.02, "seed 1: {arrived} of {expected}");
}
