//! Ends that are wanted: endpoints are replaced, a proxy is told to go. Nothing may be lost.

use crate::load::{Load, Plan};
use crate::world::{ALL, Endpoint, World};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Requests a second.
const RATE: u32 = 500;
/// Rounds of each.
const ROUNDS: u64 = 10;
/// Between the end of one endpoint and that of the next.
const STEP: Duration = Duration::from_millis(300);
/// How late the proxy hears that an endpoint is gone.
const LATE: Duration = Duration::from_secs(2);
/// How long the callers go on after the proxy was told to go.
const AFTER: Duration = Duration::from_secs(4);
const GRACE: Duration = Duration::from_secs(20);

/// Runs one; whether it held, and what is to be said.
type Run = fn() -> (bool, String);

/// All of them, by name.
pub(crate) fn all() -> [(&'static str, Run); 3] {
    [
        ("rolling replacement of all endpoints, known 2 s late", rolling),
        ("SIGTERM of the proxy, callers go 4 s later", sigterm),
        ("SIGTERM of the proxy, callers never go", sigterm_of_callers_that_stay),
    ]
}

/// Replaces one endpoint after the other: the new one is known when it serves, the old one dies, and is known for dead later.
fn rolling() -> (bool, String) {
    let mut world = World::start(&[], &[]);
    let time = (STEP * u32::try_from(ALL).unwrap() + LATE * 2) * u32::try_from(ROUNDS).unwrap();
    let load = Load::start(Plan { target: world.target, time, rate: RATE, lenient: true });
    let mut dead: Vec<(usize, SocketAddr, Instant)> = Vec::new();
    for _ in 0..ROUNDS {
        for number in 0..ALL {
            let old = std::mem::replace(&mut world.endpoints[number], Endpoint::start(number));
            dead.push((number, old.address, Instant::now() + STEP));
            tell(&world, &mut dead);
            std::thread::sleep(STEP);
            drop(old);
        }
        while !dead.is_empty() {
            std::thread::sleep(STEP);
            tell(&world, &mut dead);
        }
    }
    let [good, bad, lost, refused] = load.report(Duration::ZERO).ends();
    let replaced = ROUNDS * ALL as u64;
    (
        bad + lost + refused == 0,
        format!(
            "{replaced} endpoints replaced: {good} good answers, {} failed",
            bad + lost + refused
        ),
    )
}

fn tell(world: &World, dead: &mut Vec<(usize, SocketAddr, Instant)>) {
    dead.retain(|(_, _, since)| since.elapsed() < LATE);
    let living = world.endpoints.iter().enumerate();
    let living = living.map(|(number, endpoint)| (number, endpoint.address));
    world.tell(living.chain(dead.iter().map(|(number, address, _)| (*number, *address))));
}

fn sigterm() -> (bool, String) {
    end(AFTER)
}

fn sigterm_of_callers_that_stay() -> (bool, String) {
    end(GRACE + Duration::from_secs(2))
}

/// Tells a proxy to go while it is called. A request that finds nobody listening was not lost by the proxy, as long as the proxy
/// had served until its callers were gone, or for as long as it was allowed to.
fn end(after: Duration) -> (bool, String) {
    let before = Duration::from_secs(3);
    let (mut holds, mut sum, mut longest) = (true, [0; 4], Duration::ZERO);
    let rounds = if after < GRACE { ROUNDS } else { 2 };
    for _ in 0..rounds {
        let mut world = World::start(&[], &["--grace", "20s", "--workers", "2"]);
        let plan = Plan { target: world.target, time: before + after, rate: RATE, lenient: false };
        let load = Load::start(plan);
        std::thread::sleep(before);
        world.proxy.process.signal("TERM");
        let told = Instant::now();
        let status = world.proxy.process.exit_status(GRACE + Duration::from_secs(5));
        longest = longest.max(told.elapsed());
        let ends = load.report(Duration::ZERO).ends();
        let [_, bad, lost, refused] = ends;
        holds &= status.code() == Some(0) && told.elapsed() > after.min(GRACE / 2);
        holds &= bad + lost == 0 && (after >= GRACE || refused == 0);
        for (sum, end) in sum.iter_mut().zip(ends) {
            *sum += end;
        }
    }
    let [good, bad, lost, refused] = sum;
    (
        holds && longest <= GRACE,
        format!(
            "{rounds} times: {good} good answers, {bad} bad, {lost} lost, {refused} found nobody; gone within {longest:.1?}"
        ),
    )
}
