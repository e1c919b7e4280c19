//! The simulated cluster: callers with a balancer each, a network, servers, and the scenario that befalls them. Open loop:
//! requests arrive whatever becomes of the ones before.
//!
//! ```text
//! Arrival → pick ─ delay → Delivery → slot or queue → Done ─ delay → Reply → success, or failure and retry
//!             └ refused after 0.3 ms ──────────────────────────────────┘
//!             └ Timeout: failure and retry, or a cancel
//! ```

use crate::fault::{Ailment, Effect, Target};
use crate::measure::{End, Measured, Recorder, Sample};
use crate::policy::{Listed, Outcome, Place, PolicyKind, Sent};
use crate::scenario::{Extra, Scenario};
use crate::time::{Nanos, nanos, seconds};
use crate::world::caller::Caller;
use crate::world::chance::{Stream, seed_of};
use crate::world::event::{EventQueue, RequestId, What};
use crate::world::network::{DISCOVERY, Network, REFUSAL};
use crate::world::requests::{Kind, Request, Requests};
use crate::world::server::{Acceptance, Server, Work};
use crate::world::standstill::Process;

pub mod caller;
pub mod chance;
pub mod event;
pub mod network;
pub mod requests;
pub mod server;
pub mod standstill;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The policy of all callers.
    pub policy: PolicyKind,
    /// Seed of all chance.
    pub seed: u64,
    /// How often to look into the balancers, if at all.
    pub sample_every: Option<Nanos>,
}

impl Run<'_> {
    /// Runs it. The same run gives the same result, whatever else the process does.
    pub fn measured(&self) -> Measured {
        let mut world = World::new(self);
        while let Some((at, what)) = world.events.pop() {
            world.now = at;
            if !world.put_off(what) {
                world.happen(what);
            }
        }
        world.recorder.measured()
    }
}

/// The server behind an endpoint key.
pub fn server_of(key: u64) -> u16 {
    (key & 0xffff) as u16
}

/// The key of a server's endpoint: a server that came up again is another endpoint.
fn key_of(server: u16, incarnation: u32) -> u64 {
    (u64::from(incarnation) << 16) | u64::from(server)
}

#[derive(Debug)]
struct World<'a> {
    run: &'a Run<'a>,
    now: Nanos,
    events: EventQueue,
    servers: Vec<Server>,
    callers: Vec<Caller>,
    requests: Requests,
    network: Network,
    changes: Vec<Change>,
    recorder: Recorder,
}

/// A step of the scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    at: Nanos,
    target: Target,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Ail(Ailment),
    Up(bool),
    Listed(bool),
}

impl<'a> World<'a> {
    fn new(run: &'a Run<'a>) -> Self {
        let base = &run.scenario.base;
        let zones = || 0..3_u8;
        let servers = zones()
            .flat_map(|zone| (0..base.servers[usize::from(zone)]).map(move |_| zone))
            .zip(0..)
            .map(|(zone, index)| Server::new(zone, base.slots, base.service, (run.seed, index)));
        let rates = (run.scenario.rate_per_caller(), run.scenario.rate_factor_peak());
        let callers = zones().flat_map(|zone| (0..base.callers).map(move |_| zone)).zip(0..).map(
            |(zone, index)| {
                let place = Place { zone, seed: seed_of(run.seed, Stream::Balancer, index) };
                Caller::new(zone, run.policy.balancer(place, 0), rates, (run.seed, index))
            },
        );
        let mut world = Self {
            run,
            now: 0,
            events: EventQueue::default(),
            servers: servers.collect(),
            callers: callers.collect(),
            requests: Requests::default(),
            network: Network::new(run.seed),
            changes: changes(run.scenario),
            recorder: Recorder::new(run.scenario),
        };
        world.announce();
        world.plan_first();
        world
    }

    fn plan_first(&mut self) {
        for (index, change) in self.changes.iter().enumerate() {
            self.events.plan(change.at, What::Change(index as u16));
        }
        for (index, caller) in self.callers.iter_mut().enumerate() {
            let index = index as u16;
            self.events.plan(caller.gap(), What::Arrival(index));
            if let Some(at) = caller.policy.next_tick() {
                self.events.plan(at, What::Tick(index));
            }
            if let Extra::Streams(count) | Extra::Polls(count) = self.run.scenario.extra {
                for _ in 0..count {
                    self.events.plan(caller.moment(60.0, 80.0), What::Extra(index));
                }
            }
        }
        if let Some(every) = self.run.sample_every {
            self.events.plan(every, What::Sample);
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Arrival(caller) => self.arrival(caller),
            What::Backlog(caller) => self.backlog(caller),
            What::Extra(caller) => self.extra(caller),
            What::Delivery(request) => self.delivery(request),
            What::Done { server, request } => self.done(server, request),
            What::Reply(request) => self.reply(request),
            What::Timeout(request) => self.timeout(request),
            What::Tick(caller) => self.tick(caller),
            What::Change(index) => self.change(index),
            What::Sample => self.sample(),
        }
    }

    /// Whether callers still have new requests.
    fn open(&self) -> bool {
        self.now < nanos(self.run.scenario.end)
    }

    /// Plans anew what would happen to a process that stands still.
    fn put_off(&mut self, what: What) -> bool {
        let process = match what {
            What::Tick(caller) | What::Backlog(caller) => Some(Process::Caller(caller)),
            What::Delivery(id) => self.requests.find(id).map(|r| Process::Server(r.sent.server)),
            What::Reply(id) | What::Timeout(id) => {
                self.requests.find(id).map(|request| Process::Caller(request.caller))
            }
            // Requests come all the same, and a server's end of work knows of its standstills.
            What::Arrival(_)
            | What::Extra(_)
            | What::Done { .. }
            | What::Change(_)
            | What::Sample => None,
        };
        let Some(at) = process.and_then(|process| self.still_until(process)) else { return false };
        self.events.plan(at, what);
        true
    }

    /// When a process goes on that stands still now.
    fn still_until(&self, process: Process) -> Option<Nanos> {
        let standstill = self.run.scenario.standstill?;
        standstill.until(process, (self.run.seed, self.now))
    }

    fn arrival(&mut self, index: u16) {
        if !self.open() {
            return;
        }
        let caller = &mut self.callers[usize::from(index)];
        self.events.plan(self.now + caller.gap(), What::Arrival(index));
        if caller.arrives(self.run.scenario.rate_factor(caller.zone, seconds(self.now))) {
            match self.still_until(Process::Caller(index)) {
                Some(at) => self.events.plan(at, What::Backlog(index)),
                None => self.request(index, Kind::Plain),
            }
        }
    }

    fn backlog(&mut self, caller: u16) {
        if self.open() {
            self.request(caller, Kind::Plain);
        }
    }

    fn extra(&mut self, caller: u16) {
        if self.open() {
            let poll = matches!(self.run.scenario.extra, Extra::Polls(_));
            self.request(caller, if poll { Kind::Poll } else { Kind::Plain });
        }
    }

    fn request(&mut self, index: u16, kind: Kind) {
        let caller = &mut self.callers[usize::from(index)];
        self.recorder.arrived(self.now, caller.zone);
        match caller.policy.pick(self.now) {
            Some(sent) => self.send(index, sent, kind, None),
            None => self.recorder.ended(self.now, caller.zone, End::Failed, self.now),
        }
    }

    /// Sends an attempt; `first_arrived` is the arrival of the request if it is the second one.
    fn send(&mut self, caller: u16, sent: Sent, kind: Kind, first_arrived: Option<Nanos>) {
        let zone = self.callers[usize::from(caller)].zone;
        let server = &self.servers[usize::from(sent.server)];
        let (up, across) = (server.up, server.zone != zone);
        let arrived = first_arrived.unwrap_or(self.now);
        self.recorder.sent(arrived, zone, (across, first_arrived.is_some()));
        let request = Request {
            caller,
            arrived,
            kind,
            across,
            retry: first_arrived.is_some(),
            fails: !up,
            sent,
        };
        let id = self.requests.add(request);
        if up {
            self.events.plan(self.now + self.network.delay(across), What::Delivery(id));
        } else {
            self.events.plan(self.now + REFUSAL, What::Reply(id));
        }
        if kind == Kind::Plain {
            self.events.plan(self.now + nanos(self.run.scenario.timeout), What::Timeout(id));
        }
    }

    fn delivery(&mut self, id: RequestId) {
        let Some(request) = self.requests.find(id) else { return };
        if request.kind == Kind::Poll {
            let length = self.callers[usize::from(request.caller)].moment(15.0, 30.0);
            self.events.plan(self.now + length, What::Reply(id));
            return;
        }
        let index = request.sent.server;
        match self.servers[usize::from(index)].accept(id) {
            Acceptance::Started(work) => self.start(index, id, work),
            Acceptance::Queued | Acceptance::Swallowed => {}
        }
    }

    fn start(&mut self, server: u16, request: RequestId, work: Work) {
        if let Some(request) = self.requests.find(request) {
            request.fails = work.fails;
        }
        let at = match self.run.scenario.standstill {
            Some(still) => still.finish(server, (self.run.seed, self.now), work.length),
            None => self.now + work.length,
        };
        self.events.plan(at, What::Done { server, request });
    }

    fn done(&mut self, server: u16, id: RequestId) {
        if let Some(request) = self.requests.find(id) {
            let delay = self.network.delay(request.across);
            self.events.plan(self.now + delay, What::Reply(id));
        }
        let requests = &self.requests;
        if let Some((next, work)) =
            self.servers[usize::from(server)].finish(|id| requests.holds(id))
        {
            self.start(server, next, work);
        }
    }

    fn reply(&mut self, id: RequestId) {
        if let Some(request) = self.requests.take(id) {
            let outcome = if request.fails { Outcome::Failure } else { Outcome::Success };
            self.end(request, outcome);
        }
    }

    fn timeout(&mut self, id: RequestId) {
        if let Some(request) = self.requests.take(id) {
            let outcome =
                if self.run.scenario.cancel { Outcome::Cancelled } else { Outcome::Failure };
            self.end(request, outcome);
        }
    }

    fn end(&mut self, request: Request, outcome: Outcome) {
        let Request { caller: index, arrived, kind, retry, sent, .. } = request;
        let caller = &mut self.callers[usize::from(index)];
        let served = caller.policy.ended(sent, outcome, self.now);
        if outcome == Outcome::Failure
            && !retry
            && let Some(again) = served.and_then(|served| caller.policy.retry(served, self.now))
        {
            return self.send(index, again, kind, Some(arrived));
        }
        let end = match outcome {
            Outcome::Success => End::Succeeded,
            Outcome::Failure => End::Failed,
            Outcome::Cancelled => End::Cancelled,
        };
        self.recorder.ended(arrived, caller.zone, end, self.now);
        if kind == Kind::Poll {
            self.extra(index);
        }
    }

    fn tick(&mut self, index: u16) {
        let open = self.open();
        let policy = &mut self.callers[usize::from(index)].policy;
        policy.tick(self.now);
        if let Some(at) = policy.next_tick().filter(|_| open) {
            self.events.plan(at.max(self.now + 1), What::Tick(index));
        }
    }

    fn change(&mut self, index: u16) {
        let Change { target, step, .. } = self.changes[usize::from(index)];
        let mut place = (0, 0);
        for server in &mut self.servers {
            place = if server.zone == place.0 { place } else { (server.zone, 0) };
            if target.holds(place.0, place.1) {
                apply(step, server);
            }
            place.1 += 1;
        }
        if matches!(step, Step::Listed(_)) {
            self.announce();
        }
    }

    /// Discovery tells all callers what it lists.
    fn announce(&mut self) {
        let servers = self.servers.iter().zip(0..).filter(|(server, _)| server.listed);
        let listed: Vec<Listed> = servers
            .map(|(s, server)| Listed { key: key_of(server, s.incarnation), server, zone: s.zone })
            .collect();
        for caller in &mut self.callers {
            caller.policy.update(&listed, self.now);
        }
    }

    fn sample(&mut self) {
        let Some(every) = self.run.sample_every.filter(|_| self.open()) else { return };
        self.events.plan(self.now + every, What::Sample);
        let of_zone = self.callers.iter().filter(|caller| caller.zone == 0);
        let numbers: Vec<_> =
            of_zone.filter_map(|c| c.policy.snapshot(self.now)).map(|s| s.numbers).collect();
        if numbers.is_empty() {
            return;
        }
        let mean = |of: fn(&balance::event::Numbers) -> f64| {
            numbers.iter().map(of).sum::<f64>() / numbers.len() as f64
        };
        let known: Vec<f64> =
            numbers.iter().map(|n| n.baseline_seconds).filter(|baseline| *baseline > 0.0).collect();
        self.recorder.sampled(Sample {
            at: seconds(self.now),
            share: mean(|n| n.share),
            load: mean(|n| n.load),
            baseline: known.iter().sum::<f64>() / known.len().max(1) as f64,
            valve: mean(|n| n.valve),
            failure_cap: mean(|n| n.failure_cap),
            reach: mean(|n| f64::from(n.reach)),
        });
    }
}

fn apply(step: Step, server: &mut Server) {
    match step {
        Step::Ail(ailment) => server.ailment = ailment,
        Step::Up(up) => {
            server.incarnation += u32::from(up);
            server.up = up;
        }
        Step::Listed(listed) => server.listed = listed,
    }
}

/// The steps of a scenario in order of time. Rates are asked for at each arrival instead.
fn changes(scenario: &Scenario) -> Vec<Change> {
    let mut changes = Vec::new();
    for episode in &scenario.episodes {
        let (from, until) = (nanos(episode.from), nanos(episode.until));
        let mut add = |at, target, step| changes.push(Change { at, target, step });
        match episode.effect {
            Effect::Ail(target, ailment) => {
                add(from, target, Step::Ail(ailment));
                add(until, target, Step::Ail(Ailment::None));
            }
            Effect::Down(target) => {
                for (at, up) in [(from, false), (until, true)] {
                    add(at, target, Step::Up(up));
                    add(at + DISCOVERY, target, Step::Listed(up));
                }
            }
            Effect::Rate { .. } | Effect::Burst(_) => {}
        }
    }
    changes.sort_by_key(|change| change.at);
    changes
}
