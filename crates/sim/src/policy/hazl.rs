//! Model: a band on the outstanding requests of an endpoint adds and removes endpoints of other zones one by one. Made
//! after the published description of HAZL, whose code is closed: HAZL-like.

use crate::policy::pool::{Member, Pool};
use crate::policy::{Listed, Outcome, Place, Policy, Sent};
use crate::time::{Nanos, SECOND};
use balance::balancer::Served;

/// The model.
#[derive(Debug)]
pub(super) struct LoadBand {
    pool: Pool,
    /// Remote endpoints that take part.
    reach: usize,
    next_tick: Nanos,
    /// Scratch: indices of the active members.
    active: Vec<usize>,
}

const LOW: f64 = 0.8;
const HIGH: f64 = 2.0;
const TICK: Nanos = SECOND;
/// The breaker: failures in a row, shortest and longest pause.
const CONSECUTIVE: u32 = 7;
const PAUSE: (Nanos, Nanos) = (SECOND, 60 * SECOND);

impl LoadBand {
    /// A balancer without endpoints, its first tick at a random phase.
    pub(super) fn new(place: Place, now: Nanos) -> Self {
        let mut pool = Pool::new(place);
        let next_tick = now + pool.rng.u64(0..TICK);
        Self { pool, reach: 0, next_tick, active: Vec::new() }
    }

    /// The available local endpoints and the first available remote ones; all available ones if that is nothing; all
    /// there are if even that is nothing.
    fn collect_active(&mut self) {
        let Self { pool, reach, active, .. } = self;
        active.clear();
        let mut remote = *reach;
        for (index, member) in
            pool.members.iter().enumerate().filter(|(_, member)| member.available())
        {
            let local = pool.local(member);
            if local || remote > 0 {
                active.push(index);
                remote -= usize::from(!local);
            }
        }
        if active.is_empty() {
            active.extend((0..pool.members.len()).filter(|i| pool.members[*i].available()));
        }
        if active.is_empty() {
            active.extend(0..pool.members.len());
        }
    }

    fn due_trial(&self, now: Nanos) -> Option<usize> {
        let due = |member: &Member| {
            !member.trying && member.ejected_until.is_some_and(|until| until <= now)
        };
        self.pool.members.iter().position(due)
    }
}

impl Policy for LoadBand {
    fn update(&mut self, listed: &[Listed], now: Nanos) {
        self.pool.update(listed, now);
    }

    fn pick(&mut self, now: Nanos) -> Option<Sent> {
        if let Some(index) = self.due_trial(now) {
            return Some(self.pool.send(index, true, now));
        }
        self.collect_active();
        let index = self.pool.choose(&self.active, |member| member.cost(now))?;
        Some(self.pool.send(index, false, now))
    }

    fn ended(&mut self, sent: Sent, outcome: Outcome, now: Nanos) -> Option<Served> {
        let trial = sent.trial;
        let member = self.pool.take_back(&sent, outcome, now)?;
        let opens = if trial {
            outcome == Outcome::Failure
        } else {
            member.available() && member.consecutive >= CONSECUTIVE
        };
        if opens {
            let pause = (PAUSE.0 << member.ejections.min(10)).min(PAUSE.1);
            member.ejected_until = Some(now + pause);
            member.ejections += 1;
        } else if trial && outcome == Outcome::Success {
            member.ejected_until = None;
            member.ejections = 0;
        }
        None
    }

    fn next_tick(&self) -> Option<Nanos> {
        Some(self.next_tick)
    }

    fn tick(&mut self, now: Nanos) {
        self.next_tick = now + TICK;
        self.collect_active();
        let members = &self.pool.members;
        let load = |index: &usize| members[*index].load.at(members[*index].outstanding, now);
        let mean = self.active.iter().map(load).sum::<f64>() / self.active.len() as f64;
        let remotes = members.iter().filter(|m| m.available() && !self.pool.local(m)).count();
        if mean > HIGH {
            self.reach = (self.reach + 1).min(remotes);
        } else if mean < LOW {
            self.reach = self.reach.saturating_sub(1);
        }
    }
}
