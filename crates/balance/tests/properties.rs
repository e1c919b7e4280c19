//! The invariants of the specification, one test each, over random lives. What needs the inside of a part is tested there.

mod world;

use balance::balancer::{Balancer, Outcome};
use balance::config::Config;
use balance::endpoint::{EndpointKey, Locality};
use balance::event::Change;
use balance::reason::Reason;
use balance::snapshot::{EndpointState, Snapshot};
use balance::time::Timestamp;
use proptest::prelude::*;
use std::time::Duration;
use world::{Fault, World, zones};

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![Just(Fault::None), Just(Fault::Fails), Just(Fault::Slow), Just(Fault::Hangs)]
}

fn world() -> impl Strategy<Value = World> {
    (0_u32..6, 0_u32..6, 0_u32..6, any::<u64>(), 5.0..200.0_f64).prop_map(
        |(own, one, other, seed, rate)| {
            let mut world = World::of(zones(&[own, one, other]), Config::default(), seed);
            world.rate = rate;
            world
        },
    )
}

/// A life: phases with a fault and a set of endpoints each. Looks ten times a second.
fn live(
    world: &mut World,
    phases: &[(Fault, [u32; 3])],
    mut look: impl FnMut(&mut World, &Snapshot),
) {
    for &(fault, counts) in phases {
        world.fault = fault;
        world.balancer.update(&zones(&counts), world.now);
        for _ in 0..80 {
            world.run(0.1);
            let snapshot = world.balancer.snapshot(world.now);
            look(world, &snapshot);
        }
    }
}

fn phases() -> impl Strategy<Value = Vec<(Fault, [u32; 3])>> {
    prop::collection::vec((fault(), prop::array::uniform3(0_u32..6)), 1..5)
}

fn available(snapshot: &Snapshot, locality: Locality) -> usize {
    let serves = |entry: &&balance::snapshot::EndpointSnapshot| {
        entry.locality == locality && entry.state == EndpointState::Serving
    };
    snapshot.endpoints.iter().filter(serves).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// 1: bounds of shares, and what they are when a side has nothing.
    #[test]
    fn shares_keep_their_bounds(mut world in world(), phases in phases()) {
        live(&mut world, &phases, |_, snapshot| {
            let numbers = snapshot.numbers;
            let (local, remote) = (available(snapshot, Locality::Local), available(snapshot, Locality::Remote));
            assert!((0.0..=1.0).contains(&numbers.share));
            assert!((0.01..=1.0).contains(&numbers.valve) && (0.01..=1.0).contains(&numbers.failure_cap));
            assert_eq!(numbers.reach == 0, numbers.share >= 1.0 || remote == 0);
            match (local, remote) {
                (_, 0) => assert!(numbers.share >= 1.0),
                (0, _) => assert!(numbers.share <= 0.0),
                _ => assert!(numbers.share <= numbers.capacity),
            }
        });
    }

    /// 1: while nothing is ejected, a share that rises takes no endpoint in, and one that falls takes none out.
    #[test]
    fn the_active_ones_are_a_prefix(seed in any::<u64>(), rate in 50.0..400.0_f64) {
        let mut world = World::new(4, Config::default(), seed);
        world.rate = rate;
        let mut last: Vec<EndpointKey> = Vec::new();
        for fault in [Fault::None, Fault::Slow, Fault::None] {
            live(&mut world, &[(fault, [4, 4, 4])], |_, snapshot| {
                let remotes = snapshot.endpoints.iter().filter(|entry| entry.locality == Locality::Remote);
                let active: Vec<_> = remotes.filter(|entry| entry.active).map(|entry| entry.key).collect();
                let (few, many) = if active.len() < last.len() { (&active, &last) } else { (&last, &active) };
                assert!(few.iter().all(|key| many.contains(key)), "{last:?} and then {active:?}");
                last = active;
            });
        }
    }

    /// 2: a present endpoint is picked whenever there is one; an ejected or idle one only with a reason for it.
    #[test]
    fn picks_are_present_and_take_part(mut world in world(), phases in phases()) {
        live(&mut world, &phases, |world, snapshot| {
            let any = snapshot.endpoints.iter().any(|entry| entry.state == EndpointState::Serving);
            let before = snapshot.clone();
            let pick = world.balancer.pick(world.now);
            assert_eq!(pick.is_some(), !before.endpoints.is_empty());
            let Some(pick) = pick else { return };
            let after = world.balancer.snapshot(world.now);
            let of = |snapshot: &Snapshot| snapshot.endpoints.iter().find(|entry| entry.key == pick.endpoint).copied();
            let (Some(was), Some(is)) = (of(&before), of(&after)) else { panic!("not present: {:?}", pick.endpoint) };
            match pick.reason {
                Reason::Trial => assert!(was.state != EndpointState::Serving),
                Reason::Panic => assert!(!any),
                _ => assert!(was.state == EndpointState::Serving && (was.active || is.active)),
            }
            world.balancer.cancelled(pick.ticket, world.now);
        });
    }

    /// 3: what is outstanding is what was handed out, and nothing is left in the end.
    #[test]
    fn nothing_is_left_after_the_drain(mut world in world(), phases in phases()) {
        live(&mut world, &phases, |_, _| {});
        world.drain();
        let snapshot = world.balancer.snapshot(world.now);
        prop_assert!(snapshot.endpoints.iter().all(|entry| entry.outstanding == 0));
    }

    /// 6: failures teach nothing about latency.
    #[test]
    fn failures_change_no_latency(seed in any::<u64>(), millis in prop::collection::vec(0_u64..5_000, 1..60)) {
        let mut world = World::new(3, Config::default(), seed);
        world.run(30.0);
        world.drain();
        let latencies = |world: &World| {
            let snapshot = world.balancer.snapshot(world.now);
            (snapshot.numbers.baseline_seconds.to_bits(),
             snapshot.endpoints.iter().map(|entry| entry.latency_seconds.to_bits()).collect::<Vec<_>>())
        };
        let before = latencies(&world);
        for millis in millis {
            let Some(pick) = world.balancer.pick(world.now) else { continue };
            let end = world.now.plus(Duration::from_millis(millis));
            world.balancer.answered(pick.ticket, Outcome::Failure, end);
            world.now = end;
        }
        prop_assert_eq!(before, latencies(&world));
    }

    /// 7: one bad endpoint of four or more is its breaker's business.
    #[test]
    fn one_bad_endpoint_leaves_the_cap_open(seed in any::<u64>(), count in 4_u32..12, rate in 100.0..300.0_f64) {
        let mut world = World::of(zones(&[count, 4, 4]), Config::default(), seed);
        world.rate = rate;
        world.run(20.0);
        world.bad = Some(EndpointKey(0));
        for _ in 0..200 {
            world.run(0.1);
            let cap = world.balancer.snapshot(world.now).numbers.failure_cap;
            prop_assert!(cap >= 1.0, "one of {} fails, and the cap is {}", count, cap);
        }
    }

    /// 8: drops keep their distance; there is none while held, without a baseline, or while failures rule.
    #[test]
    fn drops_keep_their_distance(seed in any::<u64>(), rate in 20.0..300.0_f64, slow in 0.02..0.4_f64) {
        let mut world = World::new(4, Config::default(), seed);
        world.rate = rate;
        let (mut last, mut last_drop) = (world.balancer.snapshot(world.now), None);
        for step in 0..1_200_u32 {
            world.latency = if (300..700).contains(&step) { slow } else { 0.02 };
            world.run(0.05);
            let now = world.balancer.snapshot(world.now);
            if now.numbers.valve < last.numbers.valve {
                prop_assert!(last.hold.is_zero() || now.hold.is_zero());
                prop_assert!(now.numbers.baseline_seconds > 0.0 && last.numbers.failure_cap > 0.95);
                let apart = last_drop.map_or(Duration::MAX, |drop| world.now.since(drop));
                prop_assert!(apart >= Duration::from_millis(1_950), "drops {apart:?} apart");
                last_drop = Some(world.now);
            }
            last = now;
        }
    }

    /// 10: hours of nothing, no time at all and a clock that goes back leave numbers that make sense.
    #[test]
    fn odd_clocks_break_nothing(seed in any::<u64>(), hours in 1_u64..100, back in 0_u64..50_000_000) {
        let mut world = World::new(3, Config::default(), seed);
        world.run(30.0);
        world.drain();
        let before = world.balancer.snapshot(world.now).numbers;
        let later = world.now.plus(Duration::from_secs(hours * 3_600));
        for _ in 0..3 {
            world.balancer.tick(later);
            world.balancer.tick(later);
            world.balancer.tick(Timestamp::from_nanos(later.as_nanos() - back));
        }
        let past = Timestamp::from_nanos(later.as_nanos() - back);
        let Some(pick) = world.balancer.pick(later) else { return Err(TestCaseError::fail("no pick")) };
        world.balancer.answered(pick.ticket, Outcome::Success, past);
        let after = world.balancer.snapshot(past).numbers;
        prop_assert!(after.share >= before.share && after.valve >= before.valve, "{before:?} {after:?}");
        for number in [after.share, after.load, after.load_lower, after.baseline_seconds, after.local_failure] {
            prop_assert!(number.is_finite(), "{after:?}");
        }
    }

    /// 11: probes are bounded by the traffic there is.
    #[test]
    fn probes_are_bounded(seed in any::<u64>(), count in 1_u32..40, failing in 0_u32..100) {
        let mut balancer = Balancer::new(Config::default(), seed, Timestamp::ZERO);
        balancer.update(&zones(&[count, count]), Timestamp::ZERO);
        let (mut probes, mut good) = (0.0, 0.0);
        for request in 0..4_000_u32 {
            let now = Timestamp::from_nanos(u64::from(request) * 10_000_000);
            if balancer.next_tick() <= now {
                balancer.tick(now);
            }
            let Some(pick) = balancer.pick(now) else { continue };
            let ok = (request.wrapping_mul(2_654_435_761) >> 16) % 100 >= failing;
            if pick.reason == Reason::Trial {
                probes += 1.0;
                good += f64::from(u8::from(ok));
            }
            let outcome = if ok { Outcome::Success } else { Outcome::Failure };
            balancer.answered(pick.ticket, outcome, now);
            prop_assert!(probes <= 1.5 + 0.01 * f64::from(request + 1) + 1.5 * good);
        }
    }

    /// 12: the same seed and the same story give the same picks and the same numbers.
    #[test]
    fn a_story_can_be_replayed(seed in any::<u64>(), phases in phases()) {
        let tell = || {
            let mut world = World::new(3, Config::default(), seed);
            live(&mut world, &phases, |_, _| {});
            (world.counts(), format!("{:?}", world.balancer.snapshot(world.now)))
        };
        prop_assert_eq!(tell(), tell());
    }
}

/// 9: where remote fails as much for ever, holds double to five minutes, and hardly anything crosses in the end.
#[test]
fn crossing_in_vain_is_given_up_ever_longer() {
    // A hold only grows if the next one begins within a minute of its end: not every story comes to the longest.
    let longest = (1..=3).map(longest_hold_in_vain).max();
    assert_eq!(longest, Some(Duration::from_mins(5)));
}

fn longest_hold_in_vain(seed: u64) -> Duration {
    let mut world = World::new(4, Config::default(), seed);
    world.everywhere = 0.25;
    let (mut open, mut looks, mut longest) = (0, 0, Duration::ZERO);
    for second in 0..5_400 {
        world.run(1.0);
        for event in world.balancer.take_events() {
            if let Change::Hold { length } = event.change {
                assert!(length <= Duration::from_mins(5), "seed {seed}");
                longest = longest.max(length);
            }
        }
        if second >= 1_800 {
            looks += 1;
            open += u32::from(world.balancer.snapshot(world.now).numbers.failure_cap < 1.0);
        }
    }
    assert!(f64::from(open) / f64::from(looks) <= 0.10, "seed {seed}: open {open} of {looks} s");
    longest
}
