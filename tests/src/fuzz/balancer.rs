//! The balancing core under actions that bytes choose.

use balance::balancer::{Balancer, Outcome, Served, Ticket};
use balance::config::{Config, Mode};
use balance::endpoint::{EndpointKey, EndpointSpec, ZoneId};
use balance::time::Timestamp;
use std::time::Duration;

/// Endpoints that may exist at the same time.
const ENDPOINTS_MAX: u8 = 12;

/// Each byte is an action. The core checks its invariants after each; here it is checked that what is outstanding is what
/// really is, and that an endpoint is found whenever there is one.
pub fn balancer(bytes: &[u8]) {
    let mut run = Run::new(bytes.first().copied().unwrap_or(0));
    for byte in bytes.iter().skip(1) {
        run.act(*byte);
    }
    run.check();
}

struct Run {
    balancer: Balancer,
    now: Timestamp,
    endpoints: Vec<EndpointSpec>,
    tickets: Vec<(EndpointKey, Ticket)>,
    served: Vec<Served>,
    next_key: u64,
}

impl Run {
    fn new(seed: u8) -> Self {
        let mode = match seed % 4 {
            0 | 1 => Mode::Adaptive,
            2 => Mode::Proportional,
            _ => Mode::Pinned,
        };
        let config = Config { mode, own_zone: Some(ZoneId(0)), ..Config::default() };
        let now = Timestamp::from_nanos(1);
        let balancer = Balancer::new(config, u64::from(seed), now);
        Self {
            balancer,
            now,
            endpoints: Vec::new(),
            tickets: Vec::new(),
            served: Vec::new(),
            next_key: 1,
        }
    }

    fn act(&mut self, byte: u8) {
        let (action, argument) = (byte >> 4, byte & 0xf);
        match action {
            0..=4 => self.pick(),
            5 => self.answer(argument, Outcome::Success),
            6 | 7 => self.answer(argument, Outcome::Failure),
            8 => self.cancel(argument),
            9 => self.retry(),
            10 => self.body_fails(),
            11 => self.pass(Duration::from_millis(1 << argument)),
            12 => self.add(argument),
            13 => self.remove(argument),
            14 => self.balancer.tick(self.now),
            _ => self.check(),
        }
    }

    fn pick(&mut self) {
        match self.balancer.pick(self.now) {
            Some(pick) => self.tickets.push((pick.endpoint, pick.ticket)),
            None => assert!(
                self.endpoints.is_empty(),
                "no endpoint found among {}",
                self.endpoints.len()
            ),
        }
    }

    fn take(&mut self, argument: u8) -> Option<Ticket> {
        let length = self.tickets.len();
        (length > 0).then(|| self.tickets.swap_remove(usize::from(argument) % length).1)
    }

    fn answer(&mut self, argument: u8, outcome: Outcome) {
        if let Some(ticket) = self.take(argument) {
            self.served.push(self.balancer.answered(ticket, outcome, self.now));
        }
    }

    fn cancel(&mut self, argument: u8) {
        if let Some(ticket) = self.take(argument) {
            self.balancer.cancelled(ticket, self.now);
        }
    }

    fn retry(&mut self) {
        if let Some(served) = self.served.pop()
            && let Ok(pick) = self.balancer.pick_retry(served, self.now)
        {
            self.tickets.push((pick.endpoint, pick.ticket));
        }
    }

    fn body_fails(&mut self) {
        if let Some(served) = self.served.pop() {
            self.balancer.body_failed(served, self.now);
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now.plus(time);
        while self.balancer.next_tick() <= end {
            let at = self.balancer.next_tick().max(self.now);
            self.balancer.tick(at);
            self.now = at;
            if self.balancer.next_tick() <= at {
                break;
            }
        }
        self.now = end.max(self.now);
        self.balancer.take_events();
    }

    fn add(&mut self, argument: u8) {
        if self.endpoints.len() < usize::from(ENDPOINTS_MAX) {
            let zone = u32::from(argument % 3);
            self.endpoints.push(EndpointSpec {
                key: EndpointKey(self.next_key),
                tier: u8::from(zone != 0),
                same_zone: zone == 0,
                same_region: zone < 2,
                zone: Some(ZoneId(zone)),
            });
            self.next_key += 1;
            self.update();
        }
    }

    fn remove(&mut self, argument: u8) {
        if !self.endpoints.is_empty() {
            let index = usize::from(argument) % self.endpoints.len();
            self.endpoints.remove(index);
            self.update();
        }
    }

    fn update(&mut self) {
        self.balancer.update(&self.endpoints, self.now);
    }

    fn check(&self) {
        let snapshot = self.balancer.snapshot(self.now);
        assert_eq!(snapshot.endpoints.len(), self.endpoints.len());
        for seen in &snapshot.endpoints {
            let real = self.tickets.iter().filter(|(key, _)| *key == seen.key).count();
            assert_eq!(usize::try_from(seen.outstanding), Ok(real), "{seen:?}");
            assert!(seen.success_rate.is_finite(), "{seen:?}");
        }
    }
}
