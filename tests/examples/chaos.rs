//! Faults under load, one after the other, and what callers see of them; prints a table. Run by `cargo xtask chaos`, as root in a
//! network namespace of its own.
#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a command line tool that stops at its first surprise, and measures real time"
)]

#[path = "chaos/endpoint.rs"]
mod endpoint;
#[path = "chaos/faults.rs"]
mod faults;
#[path = "chaos/lives.rs"]
mod lives;
#[path = "chaos/load.rs"]
mod load;
#[path = "chaos/silence.rs"]
mod silence;
#[path = "chaos/world.rs"]
mod world;

use load::Report;
use std::time::Duration;

/// What is not avoidable: the time to notice.
const WINDOW: Duration = Duration::from_secs(5);

/// Requests a second.
const RATE: u32 = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, address] = arguments.as_slice()
        && first == "endpoint"
    {
        return endpoint::serve(address);
    }
    let seconds = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(60);
    let only = arguments.get(1).map(String::as_str);
    println!(
        "| fault | requests | failed in the first 5 s | failed later | success later | p50 | p99 later | resident before, after | descriptors before, after |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let (mut failed, mut remarks) = (Vec::new(), Vec::new());
    for fault in faults::all() {
        if only.is_some_and(|only| !fault.name.contains(only)) {
            continue;
        }
        let report = faults::run(&fault, Duration::from_secs(seconds));
        println!("{}", report.row(fault.name));
        remarks.extend(report.remark.iter().map(|remark| format!("{}: {remark}", fault.name)));
        if !report.holds() {
            failed.push(fault.name);
        }
    }
    println!();
    for remark in remarks {
        println!("{remark}");
    }
    for (name, run) in lives::all() {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let (holds, said) = run();
        println!("{name}: {said}");
        if !holds {
            failed.push(name);
        }
    }
    assert!(
        failed.is_empty(),
        "below {} %, or something lost: {failed:?}",
        Report::SUCCESS_MIN * 100.0
    );
}
