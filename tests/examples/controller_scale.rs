//! What a controller costs and how soon proxies hear of a change: `cargo xtask bench controller`.
//!
//! A writer replaces one endpoint after the other at a steady rate. The latency of a change runs from the API server's answer
//! to each reader; a reader is a real proxy, or a listener that stands in for one.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement stops at its first surprise and prints what it found"
)]

#[path = "controller_scale/figures.rs"]
mod figures;
#[path = "controller_scale/listeners.rs"]
mod listeners;
#[path = "controller_scale/plan.rs"]
mod plan;
#[path = "controller_scale/proxies.rs"]
mod proxies;
#[path = "controller_scale/simulated.rs"]
mod simulated;

use figures::Goal;
use listeners::Scale;
use plan::Source;
use std::time::Duration;
use tests::kubernetes::Programs;

const MANY_ENDPOINTS: Scale = Scale {
    services: 1,
    endpoints_each: 500,
    listeners: 50,
    subscriptions: 1,
    changes_per_second: 10,
    seconds: 20,
};

const LARGE: Scale = Scale {
    services: 5_000,
    endpoints_each: 10,
    listeners: 1_000,
    subscriptions: 20,
    changes_per_second: 100,
    seconds: 60,
};

/// Arguments: by how much to divide the numbers of services and readers, and a file for the tables.
fn main() {
    let mut arguments = std::env::args().skip(1);
    let divisor = arguments.next().map_or(1, |text| text.parse().unwrap());
    let Ok(programs) = Programs::find() else { panic!("`cargo xtask test` builds the API server") };
    let soon = || Goal {
        p50: Some(Duration::from_millis(100)),
        p99: Duration::from_secs(1),
        resident_mib: None,
        cores: None,
    };
    let large =
        Goal { p50: None, p99: Duration::from_secs(2), resident_mib: Some(400), cores: Some(1.0) };
    let outcomes = [
        (proxies::measure(&programs, divisor), soon()),
        (listeners::measure(Source::real(&programs), &MANY_ENDPOINTS.divided(divisor)), soon()),
        (listeners::measure(Source::simulated(), &LARGE.divided(divisor)), large),
    ];
    let tables = figures::tables(&outcomes);
    println!("{tables}");
    if let Some(file) = arguments.next() {
        std::fs::write(file, tables).unwrap();
    }
}
