//! Does picks and answers, for counting their instructions:
//!
//! ```text
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/pick_cost 300 healthy 20000
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/pick_cost 300 healthy 120000
//! ```
//!
//! The difference of both totals, divided by 100,000, is the cost of one request: pick, answer, their part of the ticks.
#![expect(clippy::print_stdout, reason = "an example talks to its user")]

use balance::balancer::{Balancer, Outcome};
use balance::config::Config;
use balance::endpoint::{EndpointKey, EndpointSpec, ZoneId};
use balance::time::Timestamp;
use std::collections::VecDeque;

/// Requests that are under way at any time.
const UNDER_WAY: usize = 20;
const NANOS_A_REQUEST: u64 = 5_000_000;

fn endpoints(count: u32) -> Vec<EndpointSpec> {
    let endpoint = |number: u32| EndpointSpec {
        key: EndpointKey(u64::from(number)),
        tier: u8::from(!number.is_multiple_of(3)),
        same_zone: number.is_multiple_of(3),
        same_region: true,
        zone: Some(ZoneId(number % 3)),
    };
    (0..count).map(endpoint).collect()
}

/// Whether request `number` to `endpoint` fails.
fn fails(scenario: &str, endpoint: EndpointKey, number: u64) -> bool {
    match scenario {
        // one request in ten of one zone: the gate is open, and local failures go on
        "partial" => endpoint.0.is_multiple_of(3) && number.is_multiple_of(10),
        // a third of all endpoints is ejected and stays so
        "ejected" => endpoint.0 % 9 < 3,
        _ => false,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| {
        arguments.get(index).map_or(default, String::as_str).to_owned()
    };
    let count = argument(0, "30").parse().unwrap_or(30);
    let scenario = argument(1, "healthy");
    let requests: u64 = argument(2, "100000").parse().unwrap_or(100_000);
    let mut balancer = Balancer::new(Config::default(), 1, Timestamp::ZERO);
    balancer.update(&endpoints(count), Timestamp::ZERO);
    let mut waiting = VecDeque::new();
    let mut local = 0_u64;
    for number in 0..requests {
        let now = Timestamp::from_nanos(number * NANOS_A_REQUEST);
        if balancer.next_tick() <= now {
            balancer.tick(now);
            drop(balancer.take_events());
        }
        let Some(pick) = balancer.pick(now) else { return };
        local += u64::from(pick.locality == balance::endpoint::Locality::Local);
        waiting.push_back((pick.ticket, fails(&scenario, pick.endpoint, number)));
        if waiting.len() > UNDER_WAY
            && let Some((ticket, failed)) = waiting.pop_front()
        {
            let outcome = if failed { Outcome::Failure } else { Outcome::Success };
            balancer.answered(ticket, outcome, now);
        }
    }
    println!("{count} endpoints, {scenario}: {local} of {requests} requests stayed local");
}
