//! Random histories against the slow model. 256 seeds; `SEED=n` replays one, `HISTORIES=10000` soaks.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a history stops at its first surprise"
)]

mod model;

use balance::balancer::{Balancer, Outcome, RetryRefused, Served, Ticket};
use balance::config::Config;
use balance::endpoint::{EndpointKey, EndpointSpec, Locality, ZoneId};
use balance::reason::Reason;
use balance::snapshot::{EndpointState, Snapshot};
use balance::time::Timestamp;
use model::{End, Model};
use std::collections::{BTreeMap, VecDeque};

#[test]
fn random_histories_agree_with_the_slow_model() {
    #[expect(clippy::disallowed_methods, reason = "a test is configured from its environment")]
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HISTORIES").unwrap_or(256),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| History::new(seed).run());
        if let Err(panic) = outcome {
            eprintln!("failing history: replay with SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// What a zone is like for a while.
#[derive(Clone, Copy, Debug)]
struct Weather {
    failures: f64,
    slowness: f64,
    hangs: f64,
    body_failures: f64,
}

/// A request under way, and what will become of it.
struct Flight {
    ticket: Ticket,
    number: usize,
    key: EndpointKey,
    end: End,
    body_fails: bool,
    trial: bool,
    first: bool,
}

struct History {
    random: u64,
    balancer: Balancer,
    model: Model,
    nanos: u64,
    present: Vec<EndpointSpec>,
    absent: Vec<EndpointSpec>,
    weather: [Weather; 3],
    flights: BTreeMap<(u64, usize), Flight>,
    bodies: VecDeque<(u64, Served, usize, u32, bool)>,
    latency: f64,
    rate: f64,
    /// Endpoints below this key stand still until then.
    still: (u64, u64),
    /// The caller stands still until then.
    caller_still: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut history = Self {
            random: seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x1234_5678,
            balancer: Balancer::new(Config::default(), seed, Timestamp::ZERO),
            model: Model::new(),
            nanos: 0,
            present: Vec::new(),
            absent: Vec::new(),
            weather: [Weather { failures: 0.0, slowness: 1.0, hangs: 0.0, body_failures: 0.0 }; 3],
            flights: BTreeMap::new(),
            bodies: VecDeque::new(),
            latency: 0.0,
            rate: 0.0,
            still: (0, 0),
            caller_still: 0,
        };
        history.latency = history.one_of(&[0.005, 0.02, 0.1, 0.4]);
        history.rate = history.one_of(&[1.0, 5.0, 15.0, 30.0]);
        for zone in 0..3_u32 {
            // up to eight local endpoints: beyond, the breadth of failures is counted less often than the model does
            for number in 0..=history.below(7) {
                let key = EndpointKey(u64::from(zone) * 100 + number);
                let zone_id = Some(ZoneId(zone));
                let own = zone == 0;
                history.present.push(EndpointSpec {
                    key,
                    tier: u8::from(!own),
                    same_zone: own,
                    same_region: true,
                    zone: zone_id,
                });
            }
        }
        history.update();
        history
    }

    fn run(mut self) {
        let mut next_change = 5_000_000_000;
        let mut next_request = 0;
        while self.nanos < 40_000_000_000 {
            let tick = self.balancer.next_tick().as_nanos();
            let end = self.flights.keys().next().map_or(u64::MAX, |(end, _)| *end);
            let body = self.bodies.front().map_or(u64::MAX, |(end, ..)| *end);
            let request = next_request.max(self.caller_still);
            self.nanos = tick.min(end).min(body).min(next_change).min(request);
            if self.nanos == tick {
                self.tick();
            } else if self.nanos == end {
                self.finish();
            } else if self.nanos == body {
                self.fail_body();
            } else if self.nanos == next_change {
                self.change();
                next_change += 1_000_000 * (1_000 + self.below(9_000));
            } else {
                self.request();
                next_request += nanos(self.exponential(1.0 / self.rate)) + 1;
            }
        }
        self.drain();
    }

    fn request(&mut self) {
        let now = self.now();
        self.model.age(self.seconds());
        let doubts_remote = self.model.doubts_remote(self.seconds());
        let Some(pick) = self.balancer.pick(now) else {
            assert!(self.model.members.is_empty(), "nothing picked though endpoints are present");
            return;
        };
        let trial = pick.reason == Reason::Trial;
        let member =
            self.model.members.get(&pick.endpoint).expect("only present endpoints are picked");
        let is_open = member.breaker.is_open();
        let any = self.model.available(true) + self.model.available(false) > 0;
        assert_eq!(member.local, pick.locality == Locality::Local);
        assert_eq!(pick.reason == Reason::Panic, !any && !trial);
        assert!(!is_open || trial || !any, "an ejected endpoint without need");
        let stays = pick.locality == Locality::Local;
        assert!(stays || trial || !doubts_remote, "crossed though no other zone answers");
        let active = self.balancer.snapshot(now).endpoints;
        let entry = active.iter().find(|entry| entry.key == pick.endpoint).expect("known");
        // a surge at this very request can only have let more take part
        assert!(
            trial || !any || entry.active,
            "{:?} takes no part: {:?}",
            pick.endpoint,
            pick.reason
        );
        self.depart(pick.ticket, pick.endpoint, trial, true);
    }

    fn depart(&mut self, ticket: Ticket, key: EndpointKey, trial: bool, first: bool) {
        let number = self.model.sent(key, trial, self.seconds());
        let zone = usize::try_from(key.0 / 100).expect("three zones");
        let weather = self.weather[zone];
        let mut latency = self.exponential(self.latency * weather.slowness);
        let mut end = End::Ok;
        if self.unit() < weather.hangs {
            (latency, end) = (3.0, if self.unit() < 0.5 { End::Cancelled } else { End::Failed });
        } else if self.unit() < weather.failures {
            (latency, end) = (latency * self.unit(), End::Failed);
        } else if self.unit() < 0.02 {
            (latency, end) = (latency * self.unit(), End::Cancelled);
        }
        let body_fails = end == End::Ok && self.unit() < weather.body_failures;
        let flight = Flight { ticket, number, key, end, body_fails, trial, first };
        let answer = self.put_off(key, self.nanos + nanos(latency) + 1);
        self.flights.insert((answer, number), flight);
        self.check_light();
    }

    fn finish(&mut self) {
        let Some((_, flight)) = self.flights.pop_first() else { return };
        let Flight { ticket, number, key, end, body_fails, trial, first } = flight;
        let (now, run) = (self.now(), self.model.run(key));
        let served = match end {
            End::Cancelled => {
                self.balancer.cancelled(ticket, now);
                None
            }
            End::Ok => Some(self.balancer.answered(ticket, Outcome::Success, now)),
            End::Failed => Some(self.balancer.answered(ticket, Outcome::Failure, now)),
        };
        // what had aged as a probe ended as an ordinary request
        let trial = trial && self.model.is_trial(number);
        self.model.ended(number, end, self.seconds());
        self.check_light();
        let Some(served) = served else { return };
        if end == End::Failed && first {
            self.retry(served, key);
        } else if body_fails {
            let at = self.nanos + nanos(self.unit() * 0.2) + 1;
            let index = self.bodies.partition_point(|(other, ..)| *other < at);
            self.bodies.insert(index, (at, served, number, run, trial));
        }
    }

    fn retry(&mut self, served: Served, failed: EndpointKey) {
        self.model.age(self.seconds());
        let present = self.model.members.len();
        let available = self.model.available(true) + self.model.available(false);
        match self.balancer.pick_retry(served, self.now()) {
            Ok(pick) => {
                assert!(2 * available >= present, "a retry into an overload");
                assert!(self.model.members.contains_key(&pick.endpoint));
                assert!(pick.endpoint != failed || !self.model.members.contains_key(&failed));
                assert_eq!(pick.reason, Reason::Retry);
                self.depart(pick.ticket, pick.endpoint, false, false);
            }
            Err(RetryRefused::NoOther) => {
                assert!(present < 2 || available < 2, "{available} of {present}");
            }
            Err(RetryRefused::Budget) => {}
        }
    }

    fn fail_body(&mut self) {
        let Some((_, served, number, run, trial)) = self.bodies.pop_front() else { return };
        self.balancer.body_failed(served, self.now());
        self.model.body_failed(number, run, trial, self.seconds());
        self.check_light();
    }

    fn tick(&mut self) {
        self.balancer.tick(self.now());
        self.model.tick(self.seconds());
        self.check_light();
        self.check_numbers();
    }

    /// When an endpoint answers that may stand still.
    fn put_off(&mut self, key: EndpointKey, answer: u64) -> u64 {
        let (below, until) = self.still;
        let hurry = nanos(self.unit() * 0.02);
        if key.0 < below && answer < until { until + hurry } else { answer }
    }

    /// The caller, the local endpoints or all of them stand still for a while.
    fn stand_still(&mut self) {
        let until = self.nanos + 1_000_000 * (200 + self.below(1_500));
        let below = self.one_of(&[0, 100, 1_000]);
        if below == 0 {
            self.caller_still = until;
            return;
        }
        self.still = (below, until);
        for ((answer, number), flight) in std::mem::take(&mut self.flights) {
            let answer = self.put_off(flight.key, answer);
            self.flights.insert((answer, number), flight);
        }
    }

    /// The weather or the set of endpoints changes.
    fn change(&mut self) {
        match self.below(8) {
            0 | 1 => {
                let zone = self.one_of(&[0_usize, 0, 1, 2]);
                self.weather[zone] = Weather {
                    failures: self.one_of(&[0.0, 0.0, 0.02, 0.3, 1.0]),
                    slowness: self.one_of(&[1.0, 1.0, 2.0, 10.0]),
                    hangs: self.one_of(&[0.0, 0.0, 0.0, 0.1, 1.0]),
                    body_failures: self.one_of(&[0.0, 0.0, 0.0, 0.2, 1.0]),
                };
            }
            2 => {
                for _ in 0..=self.below(3) {
                    let index = usize::try_from(self.below(self.present.len() as u64)).unwrap_or(0);
                    if index < self.present.len() {
                        self.absent.push(self.present.swap_remove(index));
                    }
                }
                self.update();
            }
            3 => {
                self.present.append(&mut self.absent);
                self.update();
            }
            4 => {
                // the own zone is lost, and comes back as below
                let (lost, kept) = self.present.drain(..).partition(|spec| spec.tier == 0);
                self.present = kept;
                self.absent.extend::<Vec<EndpointSpec>>(lost);
                self.update();
            }
            5 | 6 => self.stand_still(),
            _ => {
                self.present.extend(self.absent.pop());
                self.update();
            }
        }
    }

    fn update(&mut self) {
        self.balancer.update(&self.present, self.now());
        self.model.update(&self.present, self.seconds());
        self.check_light();
    }

    /// Everything ends: nothing may be left.
    fn drain(&mut self) {
        while let Some(((end, _), flight)) = self.flights.pop_first() {
            self.balancer.answered(
                flight.ticket,
                Outcome::Success,
                Timestamp::from_nanos(end.max(self.nanos)),
            );
        }
        let left: u32 = self.snapshot().endpoints.iter().map(|entry| entry.outstanding).sum();
        assert_eq!(left, 0);
    }

    fn check_light(&self) {
        let snapshot = self.snapshot();
        let numbers = snapshot.numbers;
        let (model, valve) = (&self.model, &self.model.valve);
        same("valve", numbers.valve, valve.share);
        same("cap", numbers.failure_cap, valve.cap);
        same("capacity", numbers.capacity, model.capacity());
        same("share", numbers.share, model.share());
        assert_eq!(numbers.reach as usize, model.reach(), "reach at share {}", numbers.share);
        assert_eq!(snapshot.endpoints.len(), model.members.len());
        for entry in &snapshot.endpoints {
            let member = &model.members[&entry.key];
            assert_eq!(
                entry.state != EndpointState::Serving,
                member.breaker.is_open(),
                "{:?}",
                entry.key
            );
            assert_eq!(entry.outstanding as usize, model.outstanding(entry.key), "{:?}", entry.key);
            assert_eq!(entry.locality == Locality::Local, member.local);
        }
        let active = snapshot
            .endpoints
            .iter()
            .filter(|entry| entry.active && entry.locality == Locality::Remote);
        let any = model.available(true) + model.available(false) > 0;
        assert!(!any || active.count() == model.reach(), "active and reach");
    }

    fn check_numbers(&self) {
        let Snapshot { numbers, endpoints, hold, .. } = self.snapshot();
        let (model, now) = (&self.model, self.seconds());
        same("baseline", numbers.baseline_seconds, model.valve.baseline.unwrap_or(0.0));
        let (load, lower, _) = model.valve.load(&model.sums(true, now));
        same("load", numbers.load, load);
        same("load, lower bound", numbers.load_lower, lower);
        same("hold", hold.as_secs_f64(), (model.valve.hold_until - now).max(0.0));
        for entry in &endpoints {
            same("endpoint load", entry.load, model.load(entry.key, now));
            let (ok, bad) = model.counts(entry.key, now);
            // far below one answer, the rate is a quotient of rests
            if ok + bad > 1e-6 {
                same("success rate", entry.success_rate, ok / (ok + bad));
            }
        }
        let (trials, good) = (f64::from(model.trials), f64::from(model.good_trials));
        assert!(trials <= 1.5 + 0.01 * model.history.len() as f64 + 1.5 * good, "{trials} probes");
    }

    fn snapshot(&self) -> Snapshot {
        self.balancer.snapshot(self.now())
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos)
    }

    fn seconds(&self) -> f64 {
        self.nanos as f64 * 1e-9
    }

    fn unit(&mut self) -> f64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.unit();
        (self.random >> 33) % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let index = self.below(choices.len() as u64);
        choices[usize::try_from(index).unwrap_or(0)]
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn same(what: &str, real: f64, model: f64) {
    let tolerance = 1e-6 * real.abs().max(model.abs()).max(1e-3);
    assert!((real - model).abs() <= tolerance, "{what}: {real}, the model says {model}");
}
