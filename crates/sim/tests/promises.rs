//! The fast part of `sim verify`: a few scenarios on one seed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, its helpers too")]

use sim::jobs::Results;
use sim::verify::{Selection, table, verify};

/// Runs all checks of the scenarios whose name contains `pattern`, on seed 1.
fn check(pattern: &str) {
    let selection = Selection { seeds: vec![1], pattern: Some(pattern.to_owned()) };
    let verdicts = verify(&selection, &mut Results::new(Some(1)).silent()).unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.holds), "seed 1:\n{}", table(&verdicts));
}

#[test]
fn a_zone_that_fails_fast_is_left_and_taken_back() {
    check("demo.ff");
}

#[test]
fn a_zone_that_hangs_is_left_and_taken_back() {
    check("hang.c3.cancel");
}

#[test]
fn a_slow_zone_is_left_and_taken_back() {
    check("slow10.c3");
}

#[test]
fn a_healthy_cluster_stays_local() {
    check("steady.gw");
    check("steady.c3");
}

#[test]
fn a_machine_that_stands_still_for_a_moment_stays_local() {
    check("steady.still40.demo");
    check("steady.stuck40.demo");
}

#[test]
fn an_overloaded_zone_spills_what_it_cannot_serve() {
    check("heavyz.c3");
}

#[test]
fn one_bad_server_does_not_open_the_zone() {
    check("one.part50");
}

#[test]
fn crossing_is_given_up_where_it_does_not_help() {
    check("app5");
}
