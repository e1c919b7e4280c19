//! A small world around one balancer: three zones with a few endpoints each, 20 ms answers, 100 requests a second.
#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses its part of it")]

use balance::balancer::{Balancer, Outcome, Pick, Ticket};
use balance::config::Config;
use balance::endpoint::{EndpointKey, EndpointSpec, Locality, ZoneId};
use balance::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is wrong with zone 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Fails,
    Slow,
    Hangs,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) balancer: Balancer,
    pub(crate) now: Timestamp,
    pub(crate) fault: Fault,
    pub(crate) retries: bool,
    pub(crate) rate: f64,
    pub(crate) latency: f64,
    /// An endpoint that always fails.
    pub(crate) bad: Option<EndpointKey>,
    /// Part of all requests, to any zone, that fails.
    pub(crate) everywhere: f64,
    specs: Vec<EndpointSpec>,
    next_request: Timestamp,
    /// Ends of requests, by time and number.
    ends: BTreeMap<(Timestamp, u64), (Ticket, bool, bool)>,
    number: u64,
    random: u64,
    ok: u64,
    failed: u64,
    local: u64,
    remote: u64,
}

/// Endpoint `index` of zone `zone`, where zone 0 is the caller's and the tiers are `[zone, any]`.
pub(crate) fn spec(zone: u32, index: u32) -> EndpointSpec {
    EndpointSpec {
        key: EndpointKey(u64::from(zone * 1_000 + index)),
        tier: u8::from(zone != 0),
        same_zone: zone == 0,
        same_region: true,
        zone: Some(ZoneId(zone)),
    }
}

pub(crate) fn zones(counts: &[u32]) -> Vec<EndpointSpec> {
    (0..)
        .zip(counts)
        .flat_map(|(zone, &count)| (0..count).map(move |index| spec(zone, index)))
        .collect()
}

impl World {
    /// Three zones with `per_zone` endpoints each.
    pub(crate) fn new(per_zone: u32, config: Config, seed: u64) -> Self {
        Self::of(zones(&[per_zone; 3]), config, seed)
    }

    pub(crate) fn of(specs: Vec<EndpointSpec>, config: Config, seed: u64) -> Self {
        let mut balancer = Balancer::new(config, seed, Timestamp::ZERO);
        balancer.update(&specs, Timestamp::ZERO);
        Self {
            balancer,
            now: Timestamp::ZERO,
            fault: Fault::None,
            retries: false,
            rate: 100.0,
            latency: 0.02,
            bad: None,
            everywhere: 0.0,
            specs,
            next_request: Timestamp::ZERO,
            ends: BTreeMap::new(),
            number: 0,
            random: seed,
            ok: 0,
            failed: 0,
            local: 0,
            remote: 0,
        }
    }

    pub(crate) fn keep_only_zone(&mut self, zone: u32) {
        self.specs.retain(|spec| spec.zone == Some(ZoneId(zone)));
        self.balancer.update(&self.specs, self.now);
    }

    /// Forgets what was counted.
    pub(crate) fn forget(&mut self) {
        (self.ok, self.failed, self.local, self.remote) = (0, 0, 0, 0);
    }

    pub(crate) fn success(&self) -> f64 {
        self.ok as f64 / (self.ok + self.failed) as f64
    }

    pub(crate) fn cross_share(&self) -> f64 {
        self.remote as f64 / (self.local + self.remote) as f64
    }

    pub(crate) fn run(&mut self, seconds: f64) {
        let end = self.now.plus(Duration::from_secs_f64(seconds));
        loop {
            let answer = self.ends.keys().next().map(|&(at, _)| at);
            let tick = self.balancer.next_tick();
            let next = answer.unwrap_or(tick).min(tick).min(self.next_request);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            if answer == Some(next) {
                if let Some((_, (ticket, ok, first))) = self.ends.pop_first() {
                    self.finish(ticket, ok, first);
                }
            } else if tick == next {
                self.balancer.tick(next);
            } else {
                let gap = self.exponential(1.0 / self.rate);
                self.next_request = next.plus(gap);
                if let Some(pick) = self.balancer.pick(next) {
                    self.send(pick, true);
                }
            }
        }
    }

    fn send(&mut self, pick: Pick, first: bool) {
        let faulty = pick.locality == Locality::Local && self.fault != Fault::None;
        match pick.locality {
            Locality::Local => self.local += 1,
            Locality::Remote => self.remote += 1,
        }
        let (mut seconds, mut ok) = (self.exponential(self.latency).as_secs_f64(), true);
        if faulty {
            (seconds, ok) = match self.fault {
                Fault::None => (seconds, true),
                Fault::Fails => (0.001, false),
                Fault::Slow => (seconds * 20.0, true),
                Fault::Hangs => (1.0, false),
            };
        }
        ok &= self.bad != Some(pick.endpoint)
            && (self.everywhere <= 0.0 || self.unit() >= self.everywhere);
        self.number += 1;
        let end = self.now.plus(Duration::from_secs_f64(seconds));
        self.ends.insert((end, self.number), (pick.ticket, ok, first));
    }

    fn finish(&mut self, ticket: Ticket, ok: bool, first: bool) {
        let outcome = if ok { Outcome::Success } else { Outcome::Failure };
        let served = self.balancer.answered(ticket, outcome, self.now);
        let retry = !ok && first && self.retries;
        if retry && let Ok(pick) = self.balancer.pick_retry(served, self.now) {
            self.send(pick, false);
            return;
        }
        if ok { self.ok += 1 } else { self.failed += 1 }
    }

    /// Ends whatever is under way.
    pub(crate) fn drain(&mut self) {
        while let Some(((at, _), (ticket, ok, _))) = self.ends.pop_first() {
            self.now = self.now.max(at);
            let outcome = if ok { Outcome::Success } else { Outcome::Failure };
            self.balancer.answered(ticket, outcome, self.now);
        }
    }

    /// Ok, failed, local, remote.
    pub(crate) fn counts(&self) -> [u64; 4] {
        [self.ok, self.failed, self.local, self.remote]
    }

    fn unit(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        Duration::from_secs_f64(-mean * self.unit().ln())
    }
}
