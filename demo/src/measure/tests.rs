//! Figures of made-up records.

use super::*;
use crate::load::record::Answer;
use crate::observe::{Counters, Sample};
use crate::policy::ZONES;

/// What one made-up second is like: success of the callers, and share that crosses.
pub(crate) type Second = (f64, f64);

const RATE: u32 = 100;

/// A record in which each zone's second is what `second(zone, second)` says.
pub(crate) fn record(
    policy: Policy,
    timeline: &Timeline,
    second: impl Fn(&str, u32) -> Second,
) -> Record {
    let zones = ZONES
        .iter()
        .map(|zone| zone_record(policy, zone, timeline, |at| second(zone, at)))
        .collect();
    Record { policy, zones }
}

fn zone_record(
    policy: Policy,
    zone: &'static str,
    timeline: &Timeline,
    second: impl Fn(u32) -> Second,
) -> ZoneRecord {
    let mut observed = Observed::new(policy, zone, ([127, 0, 0, 1], 1).into());
    let mut counters = Counters::default();
    let mut offered = Vec::new();
    let local = ZONES.iter().position(|name| *name == zone).unwrap();
    let remote = (local + 1) % 3;
    for at in 0..=timeline.end {
        observed.samples.push(Sample { at: f64::from(at) + 0.01, counters, ..Sample::default() });
        let (success, crossed) = second(at);
        let good = success * f64::from(RATE);
        counters.requests += f64::from(RATE);
        counters.successes += good;
        counters.by_zone[local] += f64::from(RATE) * (1.0 - crossed);
        counters.by_zone[remote] += f64::from(RATE) * crossed;
        counters.cross_bytes += f64::from(RATE) * crossed * 1000.0;
        offered.extend((0..RATE).filter(|_| at < timeline.end).map(|index| {
            let answer = Answer {
                latency_ms: 20.0,
                status: if f64::from(index) < good { 200 } else { 503 },
            };
            Offered {
                due: f64::from(at) + f64::from(index) / f64::from(RATE),
                answer: Some(answer),
            }
        }));
    }
    ZoneRecord { zone, offered, observed }
}

#[test]
fn phases_are_measured_apart_and_without_the_warm_up() {
    let timeline = Timeline::QUICK;
    let record = record(Policy::Pinned, &timeline, |zone, at| match at {
        _ if at < timeline.baseline => (0.0, 1.0),
        _ if zone == "a" && (timeline.fault..timeline.heal).contains(&at) => (0.25, 0.5),
        _ => (1.0, 0.0),
    });
    let figures = figures(&record, &timeline);
    let success: Vec<_> = figures.phases.iter().map(|phase| phase.zones["a"].success).collect();
    assert_eq!(success, [Some(1.0), Some(0.25), Some(1.0)]);
    let [baseline, fault, _] = figures.phases.as_slice() else { panic!("three phases") };
    assert_eq!(
        (baseline.cross_zone, baseline.seconds, baseline.zones["a"].requests),
        (Some(0.0), 8, 800)
    );
    assert!((fault.zones["a"].cross_zone.unwrap() - 0.5).abs() < 1e-9);
    assert!((fault.cross_zone.unwrap() - 0.5 / 3.0).abs() < 1e-9);
    assert!((fault.cross_zone_bytes - 20.0 * 100.0 * 0.5 * 1000.0).abs() < 1e-3);
    assert_eq!(fault.zones["a"].attempt_success, Some(0.25));
    assert_eq!(fault.zones["b"].success, Some(1.0));
    assert_eq!((figures.seconds_to_local, figures.flaps), (Some(0), 0));
}

#[test]
fn parts_of_a_phase_have_their_own_success() {
    let timeline = Timeline::FULL;
    let record = record(Policy::Adaptive, &timeline, |_, at| match at {
        30..35 => (0.5, 0.0),
        35..40 => (0.75, 0.0),
        _ => (1.0, 0.0),
    });
    let fault = figures(&record, &timeline).phases[1].zones["a"];
    assert_eq!((fault.success_first_5s, fault.success_after_10s), (Some(0.5), Some(1.0)));
    assert!((fault.success.unwrap() - (5.0 * 0.5 + 5.0 * 0.75 + 50.0) / 60.0).abs() < 1e-9);
}

#[test]
fn a_request_without_answer_is_incomplete_and_as_slow_as_the_timeout() {
    let phase = Phase { name: "fault", from: 0, to: 10 };
    let answer = |latency_ms| Some(Answer { latency_ms, status: 200 });
    let offered: Vec<Offered> = (0..10)
        .map(|index| Offered {
            due: f64::from(index),
            answer: if index < 8 { answer(20.0) } else { None },
        })
        .collect();
    assert_eq!(share(&offered, &phase, |request| request.answer.is_some()), Some(0.8));
    let quantile = |quantile| quantile_ms(latencies(&offered, &phase).as_ref(), quantile).unwrap();
    assert!((quantile(0.5) - 20.0).abs() < 0.1 && (quantile(0.99) - 2000.0).abs() < 2.0);
    assert_eq!(share(&offered, &phase.part(10, 5), Offered::succeeded), None);
}

#[test]
fn locality_returns_when_the_zone_that_failed_keeps_its_requests_for_good() {
    let timeline = Timeline::FULL;
    let heal = timeline.heal;
    let check = |crossed: &dyn Fn(u32) -> f64, wanted: (Option<u32>, u32)| {
        let record = record(Policy::Adaptive, &timeline, |zone, at| {
            let crosses = match zone {
                "a" if at >= heal => crossed(at - heal),
                // A surge of another zone at the end is not about this one.
                "b" if at >= timeline.end - 3 => 0.5,
                _ => 0.0,
            };
            (1.0, crosses)
        });
        let figures = figures(&record, &timeline);
        assert_eq!((figures.seconds_to_local, figures.flaps), wanted);
    };
    check(&|_| 0.0, (Some(0), 0));
    check(&|second| if second < 12 { 0.3 } else { 0.0 }, (Some(12), 0));
    check(&|_| 0.02, (None, 0));
    // One stray request is no crossing; a second that crosses again is a flap.
    check(&|second| if second == 20 { 0.01 } else { 0.0 }, (Some(0), 0));
    check(&|second| if second < 6 || second == 20 { 0.3 } else { 0.0 }, (Some(21), 1));
}
