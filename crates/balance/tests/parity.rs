//! What users of other systems expect, as settings of this one.

mod world;

use balance::balancer::{Balancer, Outcome};
use balance::config::{Algorithm, Config, Fallback, Guard, LoadBand, Mode};
use balance::endpoint::{EndpointKey, EndpointSpec, Locality, ZoneId};
use balance::event::Change;
use balance::reason::Reason;
use balance::time::Timestamp;
use std::collections::BTreeMap;
use world::{World, spec, zones};

const PICKS: u32 = 4_000;

fn balancer(config: Config, endpoints: &[EndpointSpec]) -> Balancer {
    let mut balancer = Balancer::new(config, 11, Timestamp::ZERO);
    balancer.update(endpoints, Timestamp::ZERO);
    balancer
}

/// Share of picks per zone, and the reasons seen.
fn spread(balancer: &mut Balancer) -> (BTreeMap<u64, f64>, BTreeMap<Reason, u32>) {
    let (mut shares, mut reasons) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..PICKS {
        let Some(pick) = balancer.pick(Timestamp::ZERO) else { return (shares, reasons) };
        *shares.entry(pick.endpoint.0 / 1_000).or_default() += 1.0 / f64::from(PICKS);
        *reasons.entry(pick.reason).or_default() += 1;
        balancer.answered(pick.ticket, Outcome::Success, Timestamp::ZERO);
    }
    (shares, reasons)
}

fn share_of(balancer: &mut Balancer, zone: u64) -> f64 {
    spread(balancer).0.get(&zone).copied().unwrap_or(0.0)
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 0.03
}

/// Five failures in a row for each endpoint that `bad` names.
fn eject(balancer: &mut Balancer, bad: impl Fn(EndpointKey) -> bool) {
    for _ in 0..400 {
        let Some(pick) = balancer.pick(Timestamp::ZERO) else { return };
        let outcome = if bad(pick.endpoint) { Outcome::Failure } else { Outcome::Success };
        balancer.answered(pick.ticket, outcome, Timestamp::ZERO);
    }
}

fn skipper() -> Config {
    let guard = Guard { local_min: 3, ..Config::default().guard };
    Config { mode: Mode::Pinned, fallback: Fallback::Spread, guard, ..Config::default() }
}

#[test]
fn skipper_keeps_three_local_endpoints_and_spreads_over_all_with_two() {
    for (local, all_local) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
        let share = share_of(&mut balancer(skipper(), &zones(&[local, 5, 5])), 0);
        let expected = if all_local { 1.0 } else { f64::from(local) / f64::from(local + 10) };
        assert!(near(share, expected), "{local} local: {share}");
    }
}

#[test]
fn skipper_never_drops_a_service() {
    for local in 0..4 {
        for remote in [0, 1, 10] {
            let pick = balancer(skipper(), &zones(&[local, remote])).pick(Timestamp::ZERO);
            assert_eq!(pick.is_some(), local + remote > 0, "{local} local, {remote} remote");
            if let Some(pick) = pick {
                balancer(skipper(), &zones(&[local, remote]))
                    .cancelled(pick.ticket, Timestamp::ZERO);
            }
        }
    }
}

#[test]
fn skipper_changes_once_each_way_at_the_boundary() {
    let mut balancer = balancer(skipper(), &zones(&[3, 5]));
    balancer.take_events();
    for (local, expected) in [(2, 2.0 / 7.0), (3, 1.0)] {
        balancer.update(&zones(&[local, 5]), Timestamp::ZERO);
        assert!(near(share_of(&mut balancer, 0), expected), "{local} local");
        let is_reason = |change: &Change| matches!(change, Change::Reason { .. });
        let changes = balancer.take_events().into_iter().filter(|event| is_reason(&event.change));
        assert_eq!(changes.count(), 1, "{local} local");
    }
}

/// kgateway's `preferLocal`: six endpoints at least, and this many callers in each zone.
fn kgateway(callers: &[u32]) -> Config {
    Config {
        mode: Mode::Proportional,
        fallback: Fallback::Spread,
        guard: Guard { total_min: 6, ..Config::default().guard },
        callers: (0..).map(ZoneId).zip(callers.iter().copied()).collect(),
        own_zone: Some(ZoneId(0)),
        ..Config::default()
    }
}

#[test]
fn envoys_documented_percentages_hold_for_uneven_zones() {
    for (callers, endpoints, local) in [
        (&[4, 1][..], &[2, 8][..], 0.25),
        (&[1, 1, 0], &[2, 2, 2], 2.0 / 3.0),
        (&[3, 3, 3], &[4, 4, 3], 1.0),
        (&[3, 3, 3], &[3, 4, 4], 9.0 / 11.0),
        (&[1, 4], &[3, 3], 1.0),
    ] {
        let share = share_of(&mut balancer(kgateway(callers), &zones(endpoints)), 0);
        assert!(
            near(share, local),
            "callers {callers:?}, endpoints {endpoints:?}: {share}, not {local}"
        );
    }
}

#[test]
fn envoy_sends_the_rest_where_capacity_is_left() {
    let (shares, _) = spread(&mut balancer(kgateway(&[1, 1, 0]), &zones(&[2, 2, 2])));
    assert!(!shares.contains_key(&1), "zone 1 has none to spare: {shares:?}");
}

#[test]
fn kgateway_asks_total_guard_then_percent_then_local_guard() {
    let small = Config { governed_share: 0.0, ..kgateway(&[1, 1]) };
    let (shares, reasons) = spread(&mut balancer(small, &zones(&[1, 4])));
    assert_eq!(reasons.keys().collect::<Vec<_>>(), [&Reason::Guard], "too few before any sample");
    assert!(near(shares[&0], 0.2));

    let force = Config {
        mode: Mode::Pinned,
        fallback: Fallback::Proportional,
        guard: Guard { local_min: 2, total_min: 6, healthy_min: 0.0 },
        governed_share: 0.5,
        ..kgateway(&[1, 1])
    };
    let (_, reasons) = spread(&mut balancer(force.clone(), &zones(&[3, 3])));
    assert!((0.45..0.55).contains(&(f64::from(reasons[&Reason::Percent]) / f64::from(PICKS))));
    assert_eq!(reasons.len(), 2, "sampled out, or pinned: {reasons:?}");

    let one_local = Config { governed_share: 1.0, ..force };
    let share = share_of(&mut balancer(one_local, &zones(&[1, 5])), 0);
    assert!(near(share, 1.0 / 3.0), "one of two asked: proportional, {share}");
}

#[test]
fn one_zone_only_is_plain_balancing_in_every_mode() {
    for mode in [Mode::Adaptive, Mode::Proportional, Mode::Pinned, Mode::Off] {
        let config = Config { mode, algorithm: Algorithm::RoundRobin, ..kgateway(&[1]) };
        let mut balancer = balancer(config, &zones(&[6]));
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        for _ in 0..600 {
            let Some(pick) = balancer.pick(Timestamp::ZERO) else { continue };
            *counts.entry(pick.endpoint.0).or_default() += 1;
            balancer.answered(pick.ticket, Outcome::Success, Timestamp::ZERO);
        }
        assert!(
            counts.len() == 6 && counts.values().all(|&count| count == 100),
            "{mode:?} {counts:?}"
        );
    }
}

/// Zone 0 is ours, zone 1 lies in our region, zone 2 elsewhere.
fn three_tiers(counts: [u32; 3]) -> Vec<EndpointSpec> {
    let tier = |zone: Option<ZoneId>| zone.and_then(|zone| u8::try_from(zone.0).ok()).unwrap_or(2);
    let placed = |spec: EndpointSpec| {
        let tier = tier(spec.zone);
        EndpointSpec { tier, same_region: tier < 2, ..spec }
    };
    zones(&counts).into_iter().map(placed).collect()
}

#[test]
fn consul_goes_from_zone_to_region_to_any_only_when_nothing_serves_nearer_and_comes_back() {
    let mut balancer =
        balancer(Config { mode: Mode::Pinned, ..Config::default() }, &three_tiers([2, 2, 2]));
    for (counts, serving) in [
        ([2, 2, 2], 0),
        ([1, 2, 2], 0),
        ([0, 2, 2], 1),
        ([0, 0, 2], 2),
        ([0, 1, 2], 1),
        ([2, 2, 2], 0),
    ] {
        balancer.update(&three_tiers(counts), Timestamp::ZERO);
        let (shares, _) = spread(&mut balancer);
        assert_eq!(shares.keys().collect::<Vec<_>>(), [&serving], "{counts:?}");
    }
}

#[test]
fn consul_also_fails_over_when_the_nearer_endpoints_are_ejected() {
    let config = Config { mode: Mode::Pinned, ..Config::default() };
    let mut balancer = balancer(config, &three_tiers([2, 2, 2]));
    eject(&mut balancer, |key| key.0 < 1_000);
    let (shares, reasons) = spread(&mut balancer);
    assert!(shares[&1] > 0.98, "{shares:?}");
    assert!(reasons.contains_key(&Reason::NoLocal));
}

#[test]
fn istios_minimum_of_healthy_endpoints_hands_a_tier_over() {
    let guard = Guard { healthy_min: 0.7, ..Config::default().guard };
    // at random, so that failing endpoints are asked until they are ejected
    let config =
        Config { mode: Mode::Pinned, guard, algorithm: Algorithm::Random, ..Config::default() };
    let mut balancer = balancer(config, &three_tiers([4, 4, 4]));
    eject(&mut balancer, |key| key.0 == 0);
    assert!(share_of(&mut balancer, 0) > 0.98, "three of four are enough");
    eject(&mut balancer, |key| key.0 < 2);
    assert!(share_of(&mut balancer, 1) > 0.98, "two of four are not");
}

#[test]
fn kubernetes_spread_of_four_four_three_stays_local() {
    for own in [4, 3] {
        let others = if own == 4 { [4, 3] } else { [4, 4] };
        let mut world = World::of(zones(&[own, others[0], others[1]]), Config::default(), 1);
        world.run(30.0);
        world.forget();
        world.run(30.0);
        assert!(world.cross_share() < 0.01, "{own} own endpoints: {}", world.cross_share());
    }
}

#[test]
fn an_endpoint_without_zone_affects_only_itself() {
    let mut endpoints = zones(&[3, 3]);
    endpoints.push(EndpointSpec { zone: None, same_region: false, ..spec(1, 500) });
    let mut world = World::of(endpoints, Config::default(), 1);
    world.run(30.0);
    world.forget();
    world.run(30.0);
    assert!(world.cross_share() < 0.01, "{}", world.cross_share());
    let endpoints = world.balancer.snapshot(world.now).endpoints;
    let local = endpoints.iter().filter(|endpoint| endpoint.locality == Locality::Local).count();
    assert_eq!(local, 3);
}

#[test]
fn a_client_without_zone_spreads_over_all() {
    let config = Config { zone_known: false, ..Config::default() };
    let (shares, reasons) = spread(&mut balancer(config, &zones(&[2, 2, 2])));
    assert!(shares.values().all(|&share| near(share, 1.0 / 3.0)), "{shares:?}");
    assert_eq!(reasons.keys().collect::<Vec<_>>(), [&Reason::ZoneUnknown]);
}

/// The list ends with our region, so the caller of the core leaves everything else out; nothing brings it back.
#[test]
fn a_policy_that_ends_with_the_region_never_leaves_it_in_trials_panic_and_retries() {
    let region: Vec<_> = three_tiers([2, 2, 2]).into_iter().filter(|spec| spec.tier < 2).collect();
    for mode in [Mode::Adaptive, Mode::Pinned, Mode::Off] {
        let mut balancer = balancer(Config { mode, ..Config::default() }, &region);
        for request in 0..3_000_u64 {
            let now = Timestamp::from_nanos(request * 10_000_000);
            if balancer.next_tick() <= now {
                balancer.tick(now);
            }
            let Some(pick) = balancer.pick(now) else { continue };
            assert!(pick.endpoint.0 < 2_000);
            let served = balancer.answered(pick.ticket, Outcome::Failure, now);
            if let Ok(second) = balancer.pick_retry(served, now) {
                assert!(second.endpoint.0 < 2_000);
                balancer.answered(second.ticket, Outcome::Failure, now);
            }
        }
    }
}

#[test]
fn strict_zone_pinning_refuses_when_the_zone_is_empty() {
    let mut balancer = balancer(Config { mode: Mode::Pinned, ..Config::default() }, &[]);
    assert!(balancer.pick(Timestamp::ZERO).is_none());
}

/// HAZL: one endpoint a step, local ones first, none while the load is inside the band, all of them back when it falls.
#[test]
fn hazl_adds_and_removes_one_endpoint_a_second() {
    let load = LoadBand::Outstanding { low: 0.8, high: 2.0 };
    let mut world = World::of(zones(&[3, 3, 3]), Config { load, ..Config::default() }, 1);
    world.rate = 100.0;
    world.run(20.0);
    let reach = |world: &World| world.balancer.snapshot(world.now).numbers.reach;
    assert_eq!(reach(&world), 0, "0.7 outstanding an endpoint");
    world.rate = 400.0;
    let mut last = 0;
    for _ in 0..40 {
        world.run(0.7);
        assert!(reach(&world) <= last + 1, "more than one endpoint at once");
        last = reach(&world);
    }
    assert!((1..=3).contains(&last), "8 outstanding in a band up to 2: {last}");
    world.rate = 100.0;
    world.run(40.0);
    assert_eq!(reach(&world), 0);
}

#[test]
fn a_new_endpoint_gets_twice_its_fair_share_at_most() {
    for algorithm in
        [Algorithm::PeakEwma, Algorithm::LeastRequest, Algorithm::RoundRobin, Algorithm::Random]
    {
        let config = Config { algorithm, ..Config::default() };
        let mut balancer = balancer(config, &zones(&[4]));
        for request in 0..2_000_u64 {
            let now = Timestamp::from_nanos(request * 1_000_000);
            let Some(pick) = balancer.pick(now) else { continue };
            balancer.answered(
                pick.ticket,
                Outcome::Success,
                Timestamp::from_nanos(request * 1_000_000 + 900_000),
            );
        }
        balancer.update(&zones(&[5]), Timestamp::from_nanos(2_000_000_000));
        let mut fresh = 0_u32;
        for request in 2_000..12_000_u64 {
            let Some(pick) = balancer.pick(Timestamp::from_nanos(request * 1_000_000)) else {
                continue;
            };
            fresh += u32::from(pick.endpoint == EndpointKey(4));
            balancer.answered(
                pick.ticket,
                Outcome::Success,
                Timestamp::from_nanos(request * 1_000_000 + 900_000),
            );
        }
        let share = f64::from(fresh) / 10_000.0;
        assert!(share <= 2.0 / 5.0 + 0.02, "{algorithm:?}: {share}");
    }
}

#[test]
fn a_zone_that_returns_starts_at_its_fair_share() {
    let mut world = World::of(zones(&[3, 3, 3]), Config::default(), 1);
    world.run(60.0);
    world.balancer.update(&zones(&[0, 3, 3]), world.now);
    world.run(5.0);
    world.balancer.update(&zones(&[3, 3, 3]), world.now);
    let share = world.balancer.snapshot(world.now).numbers.share;
    assert!(share <= 1.0 / 3.0 + 1e-9, "{share}");
    world.run(15.0);
    assert!(world.balancer.snapshot(world.now).numbers.share >= 1.0);
}
