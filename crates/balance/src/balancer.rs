//! The balancer of one caller and one service: what goes in, what comes out, and in which order the parts are asked.

mod choose;
mod inspect;
mod learn;
mod share;

use crate::baseline::Baseline;
use crate::config::{Config, LoadBand};
use crate::endpoint::{EndpointKey, EndpointSpec, Locality};
use crate::event::{Change, Event};
use crate::extent::Extent;
use crate::failure_cap::{FailureCap, Recount, SHARE_MIN};
use crate::group::{Group, MEMORY_LOCAL, MEMORY_REMOTE};
use crate::hold::Hold;
use crate::plan::Plan;
use crate::pool::Pool;
use crate::random::Random;
use crate::reason::Reason;
use crate::requests::{RequestId, Requests};
use crate::retry::RetryBudget;
use crate::slots::{Slot, Slots};
use crate::spill::SpillBudget;
use crate::time::Timestamp;
use crate::valve::Valve;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

/// Most events kept for [`Balancer::take_events`].
pub const EVENTS_MAX: usize = 256;

/// A tick comes once a second, 20 % earlier or later, so that callers do not move together.
const TICK_SECONDS: (f64, f64) = (0.8, 1.2);
/// Most probes that may be saved up.
const PROBE_TOKENS_MAX: f64 = 1.5;
/// The load window of the signal `Outstanding`, in seconds.
const OUTSTANDING_WINDOW: f64 = 10.0;

/// The balancer of one caller and one service.
#[derive(Debug)]
pub struct Balancer {
    config: Config,
    seed: u64,
    random: Random,
    slots: Slots,
    pool: Pool,
    extent: Extent,
    plan: Plan,
    requests: Requests,
    local: Group,
    remote: Group,
    baseline: Baseline,
    valve: Valve,
    failure_cap: FailureCap,
    hold: Hold,
    retry: RetryBudget,
    spill: SpillBudget,
    probe_tokens: f64,
    /// Before this no probe is due.
    next_probe: f64,
    recount: Recount,
    /// Remote endpoints that the signal `Outstanding` asks for.
    steps: usize,
    /// Probability that a candidate is local.
    share: f64,
    /// Why it is what it is.
    reason: Reason,
    /// The next in turn of `RoundRobin`.
    turn: usize,
    /// Whether endpoints were present before: only later ones are ramped.
    started: bool,
    last_tick: f64,
    next_tick: Timestamp,
    events: VecDeque<Event>,
    events_dropped: u64,
}

/// A request under way. It must be given back exactly once, to [`Balancer::answered`] or [`Balancer::cancelled`].
#[derive(Debug)]
#[must_use = "a reservation that is not finished counts as outstanding for ever"]
pub struct Ticket {
    request: RequestId,
}

/// The endpoint of a finished request, for what only the end of its body tells.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    key: EndpointKey,
    slot: Slot,
    generation: u32,
    side: Locality,
    /// When the headers arrived.
    at: f64,
    /// Failures in a row of the endpoint before.
    run: u32,
    ok: bool,
    trial: bool,
}

/// A connection whose bytes are not requests. It must be given back exactly once, to [`Balancer::disconnected`].
#[derive(Debug)]
#[must_use = "a connection that is not given back counts as open for ever"]
pub struct Connection {
    served: Served,
}

/// Where a request goes.
#[derive(Debug)]
pub struct Pick {
    /// The endpoint.
    pub endpoint: EndpointKey,
    /// Whether it is local.
    pub locality: Locality,
    /// Why it was chosen.
    pub reason: Reason,
    /// What the policy would have done, for requests that it does not govern (`governed_share` below 1).
    pub would: Option<(Locality, Reason)>,
    /// The reservation.
    pub ticket: Ticket,
}

/// How a request ended, as far as its response headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered, and not by an error of the endpoint.
    Success,
    /// Connect or transport error, timeout, reset, 5xx or a failing gRPC status.
    Failure,
}

/// Why a retry is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryRefused {
    /// No token left, or too few endpoints available: a retry would add to an overload.
    Budget,
    /// No other endpoint than the failed one.
    NoOther,
}

impl Balancer {
    /// A balancer without endpoints. `seed` decides all its random choices.
    pub fn new(config: Config, seed: u64, now: Timestamp) -> Self {
        let mut random = Random::new(seed);
        // The first tick comes at a random moment of the first second: callers that start together do not tick together.
        let next_tick = now.plus(Duration::from_secs_f64(random.unit() * TICK_SECONDS.1));
        Self {
            config,
            seed,
            random,
            slots: Slots::default(),
            pool: Pool::default(),
            extent: Extent::new(),
            plan: Plan::Empty,
            requests: Requests::new(),
            local: Group::new(MEMORY_LOCAL),
            remote: Group::new(MEMORY_REMOTE),
            baseline: Baseline::new(),
            valve: Valve::new(),
            failure_cap: FailureCap::new(),
            hold: Hold::new(),
            retry: RetryBudget::new(),
            spill: SpillBudget::new(),
            probe_tokens: 1.0,
            next_probe: f64::NEG_INFINITY,
            recount: Recount::new(),
            steps: 0,
            share: 1.0,
            reason: Reason::NoEndpoints,
            turn: 0,
            started: false,
            last_tick: now.seconds(),
            next_tick,
            events: VecDeque::new(),
            events_dropped: 0,
        }
    }

    /// Takes new settings; what was learnt stays.
    pub fn configure(&mut self, config: Config, now: Timestamp) {
        if config != self.config {
            self.config = config;
            self.rebuild(now.seconds());
        }
        self.check_invariants();
    }

    /// Replaces the whole set of endpoints. Keys seen before keep their state; changed tiers and zones are taken over.
    pub fn update(&mut self, endpoints: &[EndpointSpec], now: Timestamp) {
        let now = now.seconds();
        let added = if self.started { now } else { f64::NEG_INFINITY };
        let mut gone: Vec<Slot> = self.slots.present().collect();
        for spec in endpoints {
            match self.slots.find(spec.key) {
                Some(slot) => {
                    self.slots[slot].spec = *spec;
                    gone.retain(|other| *other != slot);
                }
                None => {
                    self.slots.add(*spec, added);
                }
            }
        }
        for slot in gone {
            self.slots.remove(slot);
        }
        let before = self.pool.local_present;
        self.rebuild(now);
        if self.started && before > 0 && self.pool.local_present > 2 * before {
            // Most local endpoints are new: what was measured of the others says nothing about them.
            self.local.forget_load(now, self.baseline.window());
        }
        self.started |= !endpoints.is_empty();
        self.check_invariants();
    }

    /// Picks an endpoint for a first attempt. `None` only when there is no endpoint at all.
    pub fn pick(&mut self, now: Timestamp) -> Option<Pick> {
        let pick = self.pick_first(now.seconds());
        self.check_invariants();
        pick
    }

    fn pick_first(&mut self, now: f64) -> Option<Pick> {
        self.age_out(now);
        self.probe_tokens = (self.probe_tokens + SHARE_MIN).min(PROBE_TOKENS_MAX);
        self.retry.earn(self.config.retry_budget);
        self.spill.earn(self.config.remote_share_max);
        let (choice, would) = self.choose(now)?;
        Some(self.dispatch(choice, would, now))
    }

    /// Picks an endpoint for a connection whose bytes are not requests. Load has no say: nothing tells how much a connection
    /// will do, and one that is sent to another zone for a moment's load stays there as long as it lives.
    pub fn pick_connection(&mut self, now: Timestamp) -> Option<Pick> {
        let share = self.share;
        if matches!(self.plan, Plan::Valve { use_local: true }) && !self.pool.local.is_empty() {
            self.share = self.failure_cap.share.min(self.capacity());
        }
        let pick = self.pick_first(now.seconds());
        self.share = share;
        self.check_invariants();
        pick
    }

    /// Picks another endpoint for a second attempt, if the budget allows one. `failed` is the endpoint of the first.
    pub fn pick_retry(&mut self, failed: Served, now: Timestamp) -> Result<Pick, RetryRefused> {
        let now = now.seconds();
        self.age_out(now);
        // Where most endpoints are down, a retry only adds to the overload of the rest.
        if self.pool.available.len() * 2 < self.pool.present.len() {
            return Err(RetryRefused::Budget);
        }
        let choice = self.choose_retry(failed, now).ok_or(RetryRefused::NoOther)?;
        if !self.retry.spend() {
            return Err(RetryRefused::Budget);
        }
        let pick = self.dispatch(choice, None, now);
        self.check_invariants();
        Ok(pick)
    }

    /// The response headers arrived, or the request failed without them.
    #[expect(clippy::needless_pass_by_value, reason = "giving a ticket back uses it up")]
    pub fn answered(&mut self, ticket: Ticket, outcome: Outcome, now: Timestamp) -> Served {
        let served = self.end(ticket.request, outcome, now.seconds());
        self.check_invariants();
        served
    }

    /// The caller gave up before the headers. Neither success nor failure, unless the endpoint had kept it waiting too long.
    /// Returns whether it counted as a failure of the endpoint (`stalled`).
    #[expect(clippy::needless_pass_by_value, reason = "giving a ticket back uses it up")]
    pub fn cancelled(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let stalled = self.give_up(ticket.request, now.seconds());
        self.check_invariants();
        stalled
    }

    /// The body of an answered request failed by the endpoint's fault: cut short, or a failing gRPC status in its trailers.
    /// The success at its headers becomes a failure.
    pub fn body_failed(&mut self, served: Served, now: Timestamp) {
        self.reverse(served, now.seconds());
        self.check_invariants();
    }

    /// What was picked is a connection, and it came about: a success. From now on it is no load, since nothing tells how much
    /// it does; its endpoint counts as that much busier when candidates are compared (least connections).
    #[expect(clippy::needless_pass_by_value, reason = "giving a ticket back uses it up")]
    pub fn connected(&mut self, ticket: Ticket, now: Timestamp) -> Connection {
        let served = self.open(ticket.request, now.seconds());
        self.check_invariants();
        Connection { served }
    }

    /// The connection ended, by the endpoint's fault or not. If it was, the success at its beginning becomes a failure.
    #[expect(clippy::needless_pass_by_value, reason = "giving a connection back uses it up")]
    pub fn disconnected(&mut self, connection: Connection, outcome: Outcome, now: Timestamp) {
        self.close(connection.served);
        if outcome == Outcome::Failure {
            self.reverse(connection.served, now.seconds());
        }
        self.check_invariants();
    }

    /// When [`tick`](Self::tick) is due.
    pub fn next_tick(&self) -> Timestamp {
        self.next_tick
    }

    /// Lets the valve move. To be called at [`next_tick`](Self::next_tick), about once a second, also without traffic.
    pub fn tick(&mut self, now: Timestamp) {
        self.move_valve(now.seconds());
        self.next_tick =
            now.plus(Duration::from_secs_f64(self.random.between(TICK_SECONDS.0, TICK_SECONDS.1)));
        self.check_invariants();
    }

    /// What changed since the last call, oldest first. At most [`EVENTS_MAX`] changes are kept; older ones are dropped and
    /// counted in the snapshot.
    pub fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events).into()
    }

    fn push_event(&mut self, change: Change, now: f64) {
        if self.events.len() >= EVENTS_MAX {
            self.events_dropped += 1;
            self.events.pop_front();
        }
        let numbers = self.numbers(now);
        self.events.push_back(Event { at: Timestamp::from_seconds(now), change, numbers });
    }

    /// The load window of endpoints: the signal decides.
    fn endpoint_window(&self) -> f64 {
        match self.config.load {
            LoadBand::Normalized { .. } => self.baseline.window(),
            LoadBand::Outstanding { .. } => OUTSTANDING_WINDOW,
        }
    }

    fn side(&mut self, side: Locality) -> &mut Group {
        match side {
            Locality::Local => &mut self.local,
            Locality::Remote => &mut self.remote,
        }
    }
}
