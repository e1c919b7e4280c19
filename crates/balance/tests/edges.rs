//! Cases that are easily got wrong.

mod world;

use balance::balancer::{Balancer, Outcome};
use balance::config::Config;
use balance::endpoint::Locality;
use balance::snapshot::EndpointState;
use balance::time::Timestamp;
use world::{World, zones};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// The state of the only endpoint.
fn state(balancer: &Balancer, now: Timestamp) -> Option<EndpointState> {
    balancer.snapshot(now).endpoints.first().map(|endpoint| endpoint.state)
}

#[test]
fn the_first_estimate_of_a_slow_service_is_not_cut_short() {
    let mut world = World::new(3, Config::default(), 1);
    (world.latency, world.rate) = (3.0, 10.0);
    let mut baseline = 0.0;
    while baseline <= 0.0 && world.now < at(120_000) {
        world.run(0.5);
        baseline = world.balancer.snapshot(world.now).numbers.baseline_seconds;
    }
    // short answers come first, so the first estimate is low; a cut at 1 s would hold it below that
    assert!((1.1..5.0).contains(&baseline), "{baseline} s");
    world.run(60.0);
    world.forget();
    world.run(60.0);
    assert!(world.cross_share() < 0.05, "{}", world.cross_share());
}

/// Answers whose headers are fine and whose bodies fail: a gRPC error after the first message, a cut stream.
#[test]
fn failing_bodies_eject_like_failing_headers() {
    let mut balancer = Balancer::new(Config::default(), 1, at(0));
    balancer.update(&zones(&[1]), at(0));
    for request in 0..5 {
        assert_eq!(
            state(&balancer, at(request)),
            Some(EndpointState::Serving),
            "request {request}"
        );
        let pick = balancer.pick(at(request)).unwrap();
        let served = balancer.answered(pick.ticket, Outcome::Success, at(request));
        balancer.body_failed(served, at(request));
    }
    assert_ne!(state(&balancer, at(5)), Some(EndpointState::Serving));
}

#[test]
fn a_probe_with_a_failing_body_restores_nothing() {
    let mut balancer = Balancer::new(Config::default(), 1, at(0));
    balancer.update(&zones(&[1]), at(0));
    for _ in 0..5 {
        let pick = balancer.pick(at(0)).unwrap();
        balancer.answered(pick.ticket, Outcome::Failure, at(0));
    }
    for second in 1..60 {
        let now = at(second * 1_000);
        let pick = balancer.pick(now).unwrap();
        let served = balancer.answered(pick.ticket, Outcome::Success, now);
        balancer.body_failed(served, now);
        assert_ne!(state(&balancer, now), Some(EndpointState::Serving), "after {second} s");
    }
}

#[test]
fn a_body_that_fails_after_a_failed_answer_counts_once() {
    let mut balancer = Balancer::new(Config::default(), 1, at(0));
    balancer.update(&zones(&[1]), at(0));
    for _ in 0..4 {
        let pick = balancer.pick(at(0)).unwrap();
        let served = balancer.answered(pick.ticket, Outcome::Failure, at(0));
        balancer.body_failed(served, at(0));
    }
    assert_eq!(state(&balancer, at(1)), Some(EndpointState::Serving));
}

#[test]
fn a_dry_run_leaves_the_spill_budget_as_the_policy_would() {
    let dry = Config { governed_share: 0.0, remote_share_max: 0.2, ..Config::default() };
    let mut world = World::new(3, dry.clone(), 1);
    world.run(60.0);
    world.balancer.configure(Config { governed_share: 1.0, ..dry }, world.now);
    world.fault = world::Fault::Fails;
    world.forget();
    world.run(20.0);
    assert!((0.15..=0.21).contains(&world.cross_share()), "{}", world.cross_share());
}

#[test]
fn answers_in_no_time_break_no_number() {
    let mut balancer = Balancer::new(Config::default(), 1, at(0));
    balancer.update(&zones(&[2, 2]), at(0));
    for millis in 0..20_000 {
        if balancer.next_tick() <= at(millis) {
            balancer.tick(at(millis));
        }
        let pick = balancer.pick(at(millis)).unwrap();
        balancer.answered(pick.ticket, Outcome::Success, at(millis));
    }
    let numbers = balancer.snapshot(at(20_000)).numbers;
    assert!(
        numbers.baseline_seconds > 0.0
            && numbers.load.is_finite()
            && numbers.load_lower.is_finite()
    );
}

#[test]
fn a_caller_that_learns_its_zone_measures_anew() {
    let mut world = World::new(3, Config { zone_known: false, ..Config::default() }, 1);
    world.run(20.0);
    assert!(world.balancer.snapshot(world.now).numbers.baseline_seconds > 0.0);
    world.balancer.configure(Config::default(), world.now);
    assert!(world.balancer.snapshot(world.now).numbers.baseline_seconds <= 0.0);
    world.run(20.0);
    world.forget();
    world.run(20.0);
    assert!(world.cross_share() < 0.02, "{}", world.cross_share());
}

#[test]
fn the_latest_events_are_kept() {
    let mut balancer = Balancer::new(Config::default(), 1, at(0));
    for round in 0..400 {
        let counts = if round % 2 == 0 { [1, 1] } else { [0, 1] };
        balancer.update(&zones(&counts), at(round));
    }
    let dropped = balancer.snapshot(at(400)).events_dropped;
    let events = balancer.take_events();
    assert_eq!(events.len(), 256);
    assert!(dropped > 0 && events.last().is_some_and(|event| event.at >= at(399)));
}

#[test]
fn a_retry_never_goes_to_the_failed_endpoint_even_when_nothing_may_cross() {
    let config = Config { remote_share_max: 0.0, ..Config::default() };
    let mut balancer = Balancer::new(config, 1, at(0));
    balancer.update(&zones(&[2, 2]), at(0));
    for round in 0..8 {
        let pick = balancer.pick(at(round)).unwrap();
        let failed = pick.endpoint;
        let served = balancer.answered(pick.ticket, Outcome::Failure, at(round));
        let Ok(second) = balancer.pick_retry(served, at(round)) else { continue };
        assert_ne!(second.endpoint, failed);
        assert_eq!(second.locality, Locality::Local);
        balancer.answered(second.ticket, Outcome::Success, at(round));
    }
}
