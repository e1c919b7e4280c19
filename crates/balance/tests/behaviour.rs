//! A caller, a service and time: what the balancer does as a whole.
#![expect(clippy::expect_used, reason = "a test stops at its first surprise")]

use balance::balancer::{Balancer, Outcome, Pick};
use balance::config::{Algorithm, Config, Guard, LoadBand, Mode};
use balance::endpoint::{EndpointKey, EndpointSpec, Locality, ZoneId};
use balance::event::Change;
use balance::reason::Reason;
use balance::snapshot::EndpointState;
use balance::time::Timestamp;
use std::time::Duration;

/// A caller in zone 0 whose endpoints answer as a test says.
struct Caller {
    balancer: Balancer,
    now: Timestamp,
}

/// `per_zone` endpoints in each of three zones; the key is `zone · 100 + number`.
fn three_zones(per_zone: u64) -> Vec<EndpointSpec> {
    let endpoint = |zone: u64, number: u64| EndpointSpec {
        key: EndpointKey(zone * 100 + number),
        tier: u8::from(zone > 0),
        same_zone: zone == 0,
        same_region: true,
        zone: u32::try_from(zone).ok().map(ZoneId),
    };
    (0..3).flat_map(|zone| (0..per_zone).map(move |number| endpoint(zone, number))).collect()
}

impl Caller {
    fn new(config: Config, endpoints: &[EndpointSpec]) -> Self {
        let mut balancer = Balancer::new(config, 7, Timestamp::ZERO);
        balancer.update(endpoints, Timestamp::ZERO);
        Self { balancer, now: Timestamp::ZERO }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.plus(time);
        while self.balancer.next_tick() <= end {
            self.now = self.now.max(self.balancer.next_tick());
            self.balancer.tick(self.now);
        }
        self.now = end;
    }

    /// One request that takes `latency`, answered as `outcome` says for its endpoint.
    fn request(
        &mut self,
        latency: Duration,
        outcome: impl Fn(EndpointKey) -> Outcome,
    ) -> (Pick, Outcome) {
        let pick = self.balancer.pick(self.now).expect("endpoints are present");
        let outcome = outcome(pick.endpoint);
        self.pass(latency);
        (pick, outcome)
    }

    fn finish(&mut self, (pick, outcome): (Pick, Outcome)) -> (EndpointKey, Locality, Reason) {
        self.balancer.answered(pick.ticket, outcome, self.now);
        (pick.endpoint, pick.locality, pick.reason)
    }

    /// `seconds` of 100 requests a second that take 5 ms each; returns the remote share.
    fn run(&mut self, seconds: u32, outcome: impl Fn(EndpointKey) -> Outcome) -> f64 {
        let mut remote = 0;
        for _ in 0..seconds * 100 {
            let answered = self.request(Duration::from_millis(5), &outcome);
            let (_, locality, _) = self.finish(answered);
            remote += u32::from(locality == Locality::Remote);
            self.pass(Duration::from_millis(5));
        }
        f64::from(remote) / f64::from(seconds * 100)
    }
}

fn healthy(_: EndpointKey) -> Outcome {
    Outcome::Success
}

fn zone_a_fails(key: EndpointKey) -> Outcome {
    if key.0 < 100 { Outcome::Failure } else { Outcome::Success }
}

#[test]
fn one_request_at_a_time_is_shared_evenly_among_endpoints_that_are_almost_alike() {
    let mut caller = Caller::new(Config::default(), &three_zones(2)[..2]);
    let mut picks = [0_u32; 2];
    for _ in 0..4_000 {
        let pick = caller.balancer.pick(caller.now).expect("endpoints are present");
        // 5.0 and 5.5 ms: a tenth slower is no reason to leave one idle
        let endpoint = usize::try_from(pick.endpoint.0).expect("0 or 1");
        picks[endpoint] += 1;
        caller.pass(Duration::from_micros(5_000 + 500 * pick.endpoint.0));
        caller.finish((pick, Outcome::Success));
    }
    assert!(picks.iter().all(|count| (1_800..2_200).contains(count)), "{picks:?}");
}

#[test]
fn a_zone_that_comes_back_in_part_gets_its_part() {
    let all = three_zones(4);
    let mut caller = Caller::new(Config::default(), &all);
    caller.run(30, healthy);
    let update = |caller: &mut Caller, local: usize| {
        let endpoints = [&all[..local], &all[4..]].concat();
        caller.balancer.update(&endpoints, caller.now);
    };
    update(&mut caller, 0);
    caller.run(20, healthy);
    update(&mut caller, 1);
    caller.run(10, healthy);
    let snapshot = caller.balancer.snapshot(caller.now);
    assert_eq!(snapshot.reason, Reason::Capacity);
    // 1.4 times a quarter, and a little more, since the zone is forgotten to have been larger
    assert!((0.35..0.45).contains(&snapshot.numbers.share), "{snapshot:?}");
    update(&mut caller, 3);
    caller.run(10, healthy);
    assert_eq!(caller.balancer.snapshot(caller.now).numbers.share.to_bits(), 1.0_f64.to_bits());
}

#[test]
fn a_healthy_zone_keeps_its_requests() {
    let mut caller = Caller::new(Config::default(), &three_zones(3));
    caller.run(20, healthy);
    assert_eq!(caller.run(60, healthy).to_bits(), 0.0_f64.to_bits());
    let snapshot = caller.balancer.snapshot(caller.now);
    assert_eq!(snapshot.reason, Reason::Local);
    assert_eq!(snapshot.numbers.reach, 0);
}

#[test]
fn a_failing_zone_is_left_and_returned_to() {
    let mut caller = Caller::new(Config::default(), &three_zones(3));
    caller.run(30, healthy);
    caller.balancer.take_events();
    assert!(caller.run(60, zone_a_fails) > 0.97);
    assert_eq!(caller.balancer.snapshot(caller.now).reason, Reason::NoLocal);
    let ejections = caller
        .balancer
        .take_events()
        .into_iter()
        .filter(|event| matches!(event.change, Change::Ejected { .. }));
    assert!(ejections.count() >= 3);
    caller.run(30, healthy);
    assert!(caller.run(10, healthy) < 0.01);
    assert!(
        caller
            .balancer
            .snapshot(caller.now)
            .endpoints
            .iter()
            .all(|endpoint| endpoint.state == EndpointState::Serving)
    );
}

#[test]
fn partial_failure_opens_the_gate_for_the_reason_failure() {
    let mut caller = Caller::new(Config::default(), &three_zones(4));
    caller.run(30, healthy);
    let mut turn = 0_u64;
    let mut remote = 0;
    for _ in 0..3000 {
        let pick = caller.balancer.pick(caller.now).unwrap();
        turn += 1;
        let fails = pick.endpoint.0 < 100 && turn.is_multiple_of(4);
        caller.pass(Duration::from_millis(5));
        if pick.locality == Locality::Remote {
            remote += 1;
            assert!(
                matches!(pick.reason, Reason::Failure | Reason::Capacity | Reason::Load),
                "{:?}",
                pick.reason
            );
        }
        caller.balancer.answered(
            pick.ticket,
            if fails { Outcome::Failure } else { Outcome::Success },
            caller.now,
        );
        caller.pass(Duration::from_millis(5));
    }
    assert!(remote > 2400, "{remote} of 3000 crossed");
}

#[test]
fn the_last_endpoint_is_tried_even_when_all_are_ejected() {
    let mut caller = Caller::new(Config::default(), &three_zones(1));
    for _ in 0..100 {
        let answered = caller.request(Duration::from_millis(1), |_| Outcome::Failure);
        caller.finish(answered);
    }
    let pick = caller.balancer.pick(caller.now).unwrap();
    assert!(matches!(pick.reason, Reason::Panic | Reason::Trial));
    assert!(!caller.balancer.cancelled(pick.ticket, caller.now));
}

#[test]
fn a_caller_that_gives_up_early_blames_nobody_and_late_blames_the_endpoint() {
    let mut caller = Caller::new(Config::default(), &three_zones(3));
    caller.run(10, healthy);
    let pick = caller.balancer.pick(caller.now).unwrap();
    caller.pass(Duration::from_millis(200));
    assert!(!caller.balancer.cancelled(pick.ticket, caller.now));
    let pick = caller.balancer.pick(caller.now).unwrap();
    caller.pass(Duration::from_millis(300));
    assert!(caller.balancer.cancelled(pick.ticket, caller.now));
}

#[test]
fn late_answers_of_a_removed_endpoint_only_decrement() {
    let mut caller = Caller::new(Config::default(), &three_zones(1));
    let pick = caller.balancer.pick(caller.now).unwrap();
    caller.balancer.update(&[], caller.now);
    assert!(caller.balancer.pick(caller.now).is_none());
    caller.balancer.update(&three_zones(1), caller.now);
    let served = caller.balancer.answered(pick.ticket, Outcome::Failure, caller.now);
    caller.balancer.body_failed(served, caller.now);
    let snapshot = caller.balancer.snapshot(caller.now);
    assert!(
        snapshot
            .endpoints
            .iter()
            .all(|endpoint| endpoint.outstanding == 0 && endpoint.success_rate >= 1.0),
        "{snapshot:?}"
    );
}

#[test]
fn a_retry_goes_elsewhere_and_the_budget_ends() {
    let mut caller = Caller::new(Config::default(), &three_zones(3));
    let mut retried = 0;
    for _ in 0..60 {
        let pick = caller.balancer.pick(caller.now).unwrap();
        let endpoint = pick.endpoint;
        // Failures all over, none of them often enough in a row to eject.
        let served = caller.balancer.answered(pick.ticket, Outcome::Failure, caller.now);
        if let Ok(retry) = caller.balancer.pick_retry(served, caller.now) {
            assert_ne!(retry.endpoint, endpoint);
            assert_eq!(retry.reason, Reason::Retry);
            caller.balancer.answered(retry.ticket, Outcome::Success, caller.now);
            retried += 1;
        }
        caller.pass(Duration::from_secs(1));
    }
    assert!((10..=22).contains(&retried), "{retried}");
}

#[test]
fn a_retry_goes_elsewhere_also_when_the_endpoint_went_and_came_back_in_between() {
    let all = three_zones(1);
    for seed in 0..20 {
        let mut balancer = Balancer::new(Config::default(), seed, Timestamp::ZERO);
        balancer.update(&all, Timestamp::ZERO);
        let pick = balancer.pick(Timestamp::ZERO).unwrap();
        let failed = pick.endpoint;
        balancer.update(&[], Timestamp::ZERO);
        balancer.update(&all, Timestamp::ZERO);
        let served = balancer.answered(pick.ticket, Outcome::Failure, Timestamp::ZERO);
        let retry = balancer.pick_retry(served, Timestamp::ZERO).unwrap();
        assert_ne!(retry.endpoint, failed, "seed {seed}");
        assert!(!balancer.cancelled(retry.ticket, Timestamp::ZERO));
    }
}

#[test]
fn pinned_stays_in_the_zone_that_serves_and_falls_to_the_next_tier_when_nothing_does() {
    let mut caller =
        Caller::new(Config { mode: Mode::Pinned, ..Config::default() }, &three_zones(2));
    assert_eq!(caller.run(10, healthy).to_bits(), 0.0_f64.to_bits());
    assert!(caller.run(20, zone_a_fails) > 0.9);
    caller.run(30, healthy);
    assert_eq!(caller.run(10, healthy).to_bits(), 0.0_f64.to_bits());
}

#[test]
fn strict_pinning_never_leaves_the_zone() {
    let own_zone: Vec<EndpointSpec> =
        three_zones(3).into_iter().filter(|spec| spec.same_zone).collect();
    let mut caller = Caller::new(Config { mode: Mode::Pinned, ..Config::default() }, &own_zone);
    assert_eq!(caller.run(20, zone_a_fails).to_bits(), 0.0_f64.to_bits());
}

#[test]
fn two_local_endpoints_of_three_asked_spread_over_all_and_three_stay_local() {
    let skipper = Config {
        mode: Mode::Pinned,
        guard: Guard { local_min: 3, total_min: 0, healthy_min: 0.0 },
        fallback: balance::config::Fallback::Spread,
        ..Config::default()
    };
    let mut few = Caller::new(skipper.clone(), &three_zones(2));
    assert!((few.run(20, healthy) - 2.0 / 3.0).abs() < 0.05);
    let mut enough = Caller::new(skipper, &three_zones(3));
    assert_eq!(enough.run(20, healthy).to_bits(), 0.0_f64.to_bits());
}

#[test]
fn off_spreads_over_all() {
    let mut caller = Caller::new(Config { mode: Mode::Off, ..Config::default() }, &three_zones(2));
    assert!((caller.run(20, healthy) - 2.0 / 3.0).abs() < 0.05);
}

#[test]
fn envoy_keeps_the_share_of_callers_that_the_zone_can_serve() {
    // Clients 4/1, servers 1/4: zone a keeps 25 %.
    let mut endpoints = three_zones(4);
    endpoints.retain(|spec| spec.key.0 == 0 || (100..104).contains(&spec.key.0));
    let config = Config {
        mode: Mode::Proportional,
        callers: vec![(ZoneId(0), 4), (ZoneId(1), 1)],
        own_zone: Some(ZoneId(0)),
        ..Config::default()
    };
    let mut caller = Caller::new(config, &endpoints);
    assert!((caller.run(40, healthy) - 0.75).abs() < 0.03);
}

#[test]
fn dry_run_spreads_and_tells_what_the_policy_would_do() {
    let mut caller =
        Caller::new(Config { governed_share: 0.0, ..Config::default() }, &three_zones(2));
    caller.run(20, healthy);
    let mut would_stay = 0;
    let mut crossed = 0;
    for _ in 0..1000 {
        let pick = caller.balancer.pick(caller.now).unwrap();
        assert_eq!(pick.reason, Reason::Percent);
        would_stay += u32::from(matches!(pick.would, Some((Locality::Local, _))));
        crossed += u32::from(pick.locality == Locality::Remote);
        caller.pass(Duration::from_millis(5));
        caller.balancer.answered(pick.ticket, Outcome::Success, caller.now);
        caller.pass(Duration::from_millis(5));
    }
    assert!(would_stay > 990, "{would_stay}");
    assert!((600..730).contains(&crossed), "{crossed}");
}

#[test]
fn the_spill_budget_is_kept_whatever_happens() {
    let mut caller =
        Caller::new(Config { remote_share_max: 0.2, ..Config::default() }, &three_zones(3));
    caller.run(20, healthy);
    assert!(caller.run(60, zone_a_fails) <= 0.21);
}

#[test]
fn hazl_adds_one_remote_endpoint_a_second_above_its_band() {
    let config =
        Config { load: LoadBand::Outstanding { low: 0.8, high: 2.0 }, ..Config::default() };
    let mut caller = Caller::new(config, &three_zones(2));
    let reach = |caller: &Caller| caller.balancer.snapshot(caller.now).numbers.reach;
    // Ten requests of half a second on two endpoints: five each, far above the band.
    let mut reaches = Vec::new();
    for _ in 0..60 {
        let waiting: Vec<Pick> =
            (0..10).map(|_| caller.balancer.pick(caller.now).unwrap()).collect();
        caller.pass(Duration::from_millis(500));
        for pick in waiting {
            caller.balancer.answered(pick.ticket, Outcome::Success, caller.now);
        }
        reaches.push(reach(&caller));
    }
    assert!(reaches.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{reaches:?}");
    assert_eq!(reaches.last(), Some(&3), "ten over five endpoints are in the band: {reaches:?}");
    caller.pass(Duration::from_mins(1));
    assert_eq!(reach(&caller), 0);
}

#[test]
fn round_robin_takes_turns() {
    let config = Config { mode: Mode::Off, algorithm: Algorithm::RoundRobin, ..Config::default() };
    let mut caller = Caller::new(config, &three_zones(1));
    let mut seen = Vec::new();
    for _ in 0..9 {
        let answered = caller.request(Duration::from_millis(1), healthy);
        seen.push(caller.finish(answered).0);
    }
    let (first, rest) = seen.split_at(3);
    assert!(rest.chunks(3).all(|turn| turn == first), "{seen:?}");
}

#[test]
fn a_caller_without_zone_spreads_and_says_so() {
    let mut caller =
        Caller::new(Config { zone_known: false, ..Config::default() }, &three_zones(2));
    let answered = caller.request(Duration::from_millis(1), healthy);
    assert_eq!(caller.finish(answered).2, Reason::ZoneUnknown);
    assert_eq!(caller.balancer.snapshot(caller.now).reason, Reason::ZoneUnknown);
}

#[test]
fn the_same_seed_and_history_give_the_same_picks() {
    let picks = || {
        let mut caller = Caller::new(Config::default(), &three_zones(3));
        let mut keys = Vec::new();
        for turn in 0..2000_u64 {
            let answered = caller.request(Duration::from_millis(1 + turn % 7), |key| {
                if key.0 < 2 { Outcome::Failure } else { Outcome::Success }
            });
            keys.push(caller.finish(answered).0);
        }
        keys
    };
    assert_eq!(picks(), picks());
}

#[test]
fn connections_go_where_the_fewest_are_open_and_are_no_load() {
    let mut caller = Caller::new(Config::default(), &three_zones(3));
    let mut open = Vec::new();
    for _ in 0..30 {
        let pick = caller.balancer.pick_connection(caller.now).expect("endpoints are present");
        assert_eq!(pick.locality, Locality::Local, "nothing speaks for leaving the zone");
        caller.pass(Duration::from_millis(1));
        open.push(caller.balancer.connected(pick.ticket, caller.now));
    }
    let counts = |caller: &Caller| -> Vec<u32> {
        let snapshot = caller.balancer.snapshot(caller.now);
        snapshot.endpoints.iter().map(|endpoint| endpoint.connections).collect()
    };
    let local = counts(&caller);
    assert!(local.iter().take(3).all(|count| (7..=13).contains(count)), "{local:?}");
    caller.pass(Duration::from_mins(1));
    let numbers = caller.balancer.snapshot(caller.now).numbers;
    assert!(numbers.share >= 1.0, "long connections are no load: {numbers:?}");
    for connection in open {
        caller.balancer.disconnected(connection, Outcome::Success, caller.now);
    }
    assert_eq!(counts(&caller), [0; 9]);
}

#[test]
fn an_endpoint_that_cuts_connections_at_once_gets_hardly_any() {
    let mut caller = Caller::new(Config::default(), &three_zones(2));
    let mut cut = 0;
    for _ in 0..40 {
        let pick = caller.balancer.pick_connection(caller.now).expect("endpoints are present");
        let outcome =
            if pick.endpoint == EndpointKey(0) { Outcome::Failure } else { Outcome::Success };
        cut += u32::from(outcome == Outcome::Failure);
        let connection = caller.balancer.connected(pick.ticket, caller.now);
        caller.pass(Duration::from_millis(5));
        caller.balancer.disconnected(connection, outcome, caller.now);
    }
    let snapshot = caller.balancer.snapshot(caller.now);
    assert!((1..10).contains(&cut), "{cut}");
    assert!(snapshot.endpoints[1..].iter().all(|seen| seen.state == EndpointState::Serving));
}

#[test]
fn a_connection_outlives_its_endpoint_without_a_trace() {
    let mut caller = Caller::new(Config::default(), &three_zones(1));
    let pick = caller.balancer.pick_connection(caller.now).expect("endpoints are present");
    let connection = caller.balancer.connected(pick.ticket, caller.now);
    caller.balancer.update(&[], caller.now);
    caller.balancer.update(&three_zones(1), caller.now);
    caller.balancer.disconnected(connection, Outcome::Failure, caller.now);
    let snapshot = caller.balancer.snapshot(caller.now);
    assert!(snapshot.endpoints.iter().all(|seen| seen.connections == 0));
    assert!(snapshot.endpoints.iter().all(|seen| seen.success_rate >= 1.0));
}
