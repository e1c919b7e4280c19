//! A server: some slots, a queue without limit in front of them, and what is wrong with it.

use crate::fault::Ailment;
use crate::scenario::{Service, Shape};
use crate::time::{Nanos, nanos};
use crate::world::chance::{Stream, exponential, log_normal, stream_of};
use crate::world::event::RequestId;
use fastrand::Rng;
use std::collections::VecDeque;

/// One server.
#[derive(Debug)]
pub struct Server {
    /// Its zone.
    pub zone: u8,
    /// Whether it accepts connections.
    pub up: bool,
    /// Whether discovery lists it.
    pub listed: bool,
    /// How often it came up: a restarted server is another endpoint.
    pub incarnation: u32,
    /// What is wrong with it.
    pub ailment: Ailment,
    slots: u32,
    busy: u32,
    queue: VecDeque<RequestId>,
    service: Service,
    rng: Rng,
}

/// What becomes of a request that reaches a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Acceptance {
    /// It is served at once.
    Started(Work),
    /// It waits for a slot.
    Queued,
    /// It is never answered.
    Swallowed,
}

/// The service of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How long it occupies a slot.
    pub length: Nanos,
    /// Whether it ends in a 5xx.
    pub fails: bool,
}

impl Server {
    /// A healthy server.
    pub fn new(zone: u8, slots: u32, service: Service, (run, index): (u64, u64)) -> Self {
        Self {
            zone,
            up: true,
            listed: true,
            incarnation: 0,
            ailment: Ailment::None,
            slots,
            busy: 0,
            queue: VecDeque::new(),
            service,
            rng: stream_of(run, Stream::Service, index),
        }
    }

    /// A request arrives.
    pub fn accept(&mut self, request: RequestId) -> Acceptance {
        if matches!(self.ailment, Ailment::Hang) {
            return Acceptance::Swallowed;
        }
        if self.busy < self.slots {
            return Acceptance::Started(self.start());
        }
        self.queue.push_back(request);
        Acceptance::Queued
    }

    /// A slot becomes free: the next request that is still wanted is served.
    pub fn finish(&mut self, wanted: impl Fn(RequestId) -> bool) -> Option<(RequestId, Work)> {
        self.busy -= 1;
        while let Some(next) = self.queue.pop_front() {
            if wanted(next) {
                return Some((next, self.start()));
            }
        }
        None
    }

    fn start(&mut self) -> Work {
        self.busy += 1;
        let healthy = self.service.mean
            * match self.service.shape {
                Shape::Exponential => exponential(&mut self.rng),
                Shape::LogNormal(sigma) => log_normal(&mut self.rng, sigma),
            };
        match self.ailment {
            Ailment::Fail { probability, after } if self.rng.f64() < probability => {
                Work { length: nanos(after), fails: true }
            }
            Ailment::Slow(factor) => Work { length: nanos(healthy * factor), fails: false },
            _ => Work { length: nanos(healthy), fails: false },
        }
    }
}
