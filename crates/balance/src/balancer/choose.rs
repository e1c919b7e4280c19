//! Which endpoint takes the request.

use super::{Balancer, Pick, Served, Ticket};
use crate::alarm::Pile;
use crate::config::{Algorithm, LoadBand, Mode};
use crate::endpoint::Locality;
use crate::event::Change;
use crate::plan::Plan;
use crate::reason::Reason;
use crate::slots::Slot;

/// A probe that is due but may not be sent, by tier or spill budget, is looked at again after so many seconds.
const BLOCKED_PAUSE: f64 = 0.01;
/// Costs that differ by less are equal where as many requests wait, and the first candidate, a random one, is taken. Without
/// it a caller that sends one request at a time would stay with the endpoint that happens to be a little faster, and leave
/// the other idle.
const EQUAL: f64 = 0.8;

/// A pick before anything is reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    slot: Slot,
    reason: Reason,
    trial: bool,
}

/// The lists that candidates are drawn from.
#[derive(Clone, Copy, Debug)]
enum From {
    Present,
    Available,
    Local,
    Active,
    Set,
    Zone(usize),
    /// The first remote endpoints, as many as take part, but two at least.
    Beyond,
}

impl Balancer {
    /// The endpoint of a first attempt, and what the policy would have done where it does not govern.
    pub(super) fn choose(&mut self, now: f64) -> Option<(Choice, Option<(Locality, Reason)>)> {
        // The guard of the total count comes before the sample: too few endpoints are nobody's to govern.
        let governed = self.config.governed_share >= 1.0
            || self.pool.available.len() < self.config.guard.total_min as usize
            || self.random.unit() < self.config.governed_share;
        let choice = match self.due_trial(now) {
            Some(trial) => trial,
            None => self.by_plan(None, now)?,
        };
        if governed || choice.trial {
            return Some((self.within_budget(choice, None, now), None));
        }
        let would = self.within_budget(choice, None, now);
        let from = if self.pool.available.is_empty() { From::Present } else { From::Available };
        let slot = self.better_of(from, from, None, now)?;
        let would = (self.locality(would.slot), would.reason);
        Some((Choice { slot, reason: Reason::Percent, trial: false }, Some(would)))
    }

    /// The endpoint of a second attempt: never the one that failed, and in a failing zone a remote one. A zone fails when its
    /// last answers did, or when the failure cap knows that it fails more than the others.
    pub(super) fn choose_retry(&mut self, failed: Served, now: f64) -> Option<Choice> {
        // By its key: an endpoint that went and came back in between is still the one that failed.
        let exclude = self.slots.find(failed.key);
        let zone_fails = self.pool.local.len() <= 1
            || self.local.failures_in_a_row >= 2
            || self.failure_cap.share < 1.0;
        let may_cross = matches!(self.plan, Plan::Valve { .. })
            && self.spill.allows(self.config.remote_share_max);
        let beyond = if failed.side == Locality::Local && zone_fails && may_cross {
            self.better_of(From::Beyond, From::Beyond, exclude, now)
        } else {
            None
        };
        let slot = if let Some(slot) = beyond {
            slot
        } else {
            let choice = self.by_plan(exclude, now)?;
            self.within_budget(choice, exclude, now).slot
        };
        (Some(slot) != exclude).then_some(Choice { slot, reason: Reason::Retry, trial: false })
    }

    /// Reserves the endpoint.
    pub(super) fn dispatch(
        &mut self,
        choice: Choice,
        would: Option<(Locality, Reason)>,
        now: f64,
    ) -> Pick {
        let Choice { slot, reason, trial } = choice;
        let (window, endpoint_window) = (self.baseline.window(), self.endpoint_window());
        let endpoint = &mut self.slots[slot];
        endpoint.dispatched(now, endpoint_window);
        let key = endpoint.spec.key;
        if trial {
            endpoint.breaker.probe_sent();
            self.probe_tokens -= 1.0;
            self.push_event(Change::Probe { endpoint: key }, now);
        }
        let locality = self.locality(slot);
        self.baseline.dispatched(now);
        self.side(locality).dispatched(now, window);
        // What the policy does not govern costs what the policy would have spent.
        if would.map_or(locality, |(locality, _)| locality) == Locality::Remote {
            self.spill.spend(self.config.remote_share_max);
        }
        let request = self.requests.add(slot, locality, now, trial);
        if locality == Locality::Local {
            let waiting = (self.local.rate(), self.local.counted);
            self.valve.watch.dispatched(&self.baseline, waiting, now);
            self.watch_pile(now);
        }
        Pick { endpoint: key, locality, reason, would, ticket: Ticket { request } }
    }

    /// Drops the valve when local requests pile up unanswered.
    fn watch_pile(&mut self, now: f64) {
        let normalized = matches!(self.config.load, LoadBand::Normalized { .. })
            && self.config.mode == Mode::Adaptive;
        // Few requests are no pile: this is the cheap way out for almost every dispatch.
        if !normalized
            || self.local.counted <= 8
            || self.pool.remote.is_empty()
            || self.hold.holds(now)
        {
            return;
        }
        let Some(oldest) = self.requests.oldest(Locality::Local) else { return };
        let pile = Pile { outstanding: self.local.counted, rate: self.local.rate(), oldest };
        if self.valve.surge(&self.baseline, &pile, self.failure_cap.share, now) {
            self.local.forget_fresh();
            self.refresh(now);
        }
    }

    /// The ejected endpoint whose probe is due: local before remote, the longest due first.
    fn due_trial(&mut self, now: f64) -> Option<Choice> {
        if self.pool.open.is_empty() || self.probe_tokens < 1.0 || now < self.next_probe {
            return None;
        }
        let due = self.longest_due(now);
        if due.is_none() {
            // Nothing to look for until then; whatever happens to a breaker before calls for a new look.
            let probe_at = |slot: &Slot| self.slots[*slot].breaker.probe_at();
            let earliest = self.pool.open.iter().filter_map(probe_at).fold(f64::INFINITY, f64::min);
            self.next_probe = if earliest > now { earliest } else { now + BLOCKED_PAUSE };
        }
        due
    }

    fn longest_due(&self, now: f64) -> Option<Choice> {
        let tier_max = if let Plan::Set(set) = &self.plan { set.tier_max } else { u8::MAX };
        let may_cross = self.spill.allows(self.config.remote_share_max);
        let allowed = |slot: &&Slot| {
            let endpoint = &self.slots[**slot];
            endpoint.spec.tier <= tier_max && (endpoint.local || may_cross)
        };
        let due = |slot: &Slot| {
            Some((
                !self.slots[*slot].local,
                self.slots[*slot].breaker.probe_at().filter(|at| *at <= now)?,
                *slot,
            ))
        };
        let ordered =
            |a: &(bool, f64, Slot), b: &(bool, f64, Slot)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        let (_, _, slot) = self.pool.open.iter().filter(allowed).filter_map(due).min_by(ordered)?;
        Some(Choice { slot, reason: Reason::Trial, trial: true })
    }

    /// What the policy's plan says.
    fn by_plan(&mut self, exclude: Option<Slot>, now: f64) -> Option<Choice> {
        let (first, second) = match &self.plan {
            Plan::Empty => return None,
            Plan::Panic => (From::Present, From::Present),
            Plan::Set(_) => (From::Set, From::Set),
            Plan::Zones(zones) => {
                let mut left = self.random.unit();
                let drawn = zones.iter().position(|zone| {
                    left -= zone.probability;
                    left < 0.0
                });
                let zone = From::Zone(drawn.unwrap_or_else(|| zones.len().saturating_sub(1)));
                (zone, zone)
            }
            Plan::Valve { .. } => (self.drawn_side(), self.drawn_side()),
        };
        let slot = match self.better_of(first, second, exclude, now) {
            Some(slot) => slot,
            // Only the excluded endpoint was left on that side.
            None => self.better_of(From::Available, From::Available, exclude, now)?,
        };
        Some(Choice { slot, reason: self.reason_of(first, slot), trial: false })
    }

    /// One of the two independent draws: the comparison of costs can move traffic between zones within milliseconds.
    fn drawn_side(&mut self) -> From {
        let local = self.share >= 1.0 || self.random.unit() < self.share || self.doubts_remote();
        match (local, self.pool.local.is_empty(), self.pool.reach == 0) {
            (true, false, _) | (false, false, true) => From::Local,
            (_, true, _) | (false, _, false) => From::Active,
        }
    }

    /// An alarm is on that other zones may share.
    fn doubts_remote(&self) -> bool {
        let waiting = self.remote.counted;
        self.valve.alarm.is_some_and(|alarm| alarm.doubts_remote(waiting, &self.baseline))
    }

    fn reason_of(&self, from: From, slot: Slot) -> Reason {
        match &self.plan {
            Plan::Empty => Reason::NoEndpoints,
            Plan::Panic => Reason::Panic,
            Plan::Set(set) => set.reason,
            Plan::Zones(zones) => match from {
                From::Zone(at) if zones.get(at).is_some_and(|zone| zone.own) => Reason::Local,
                _ => Reason::Proportional,
            },
            Plan::Valve { .. }
                if self.locality(slot) == Locality::Remote || !self.config.zone_known =>
            {
                self.reason
            }
            Plan::Valve { .. } => Reason::Local,
        }
    }

    /// Keeps a request local when the spill budget is used up, also where local endpoints fail.
    fn within_budget(&mut self, choice: Choice, exclude: Option<Slot>, now: f64) -> Choice {
        let crosses = self.locality(choice.slot) == Locality::Remote;
        if !crosses
            || self.pool.local_present == 0
            || self.spill.allows(self.config.remote_share_max)
        {
            return choice;
        }
        let slot = self.better_of(From::Local, From::Local, exclude, now).or_else(|| {
            let stays = |slot: &Slot| self.slots[*slot].local && Some(*slot) != exclude;
            self.pool.present.iter().copied().find(stays).or(exclude)
        });
        slot.map_or(choice, |slot| Choice { slot, reason: Reason::Budget, trial: false })
    }

    /// Draws a candidate from each list and returns the better one by the policy's algorithm.
    fn better_of(
        &mut self,
        first: From,
        second: From,
        exclude: Option<Slot>,
        now: f64,
    ) -> Option<Slot> {
        let one = self.candidate(first, [exclude, None]);
        match self.config.algorithm {
            Algorithm::Random | Algorithm::RoundRobin => {
                return one.or_else(|| self.candidate(second, [exclude, None]));
            }
            Algorithm::PeakEwma | Algorithm::LeastRequest => {}
        }
        let other = self.candidate(second, [exclude, one]);
        let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
        let (first, second) = (&self.slots[one], &self.slots[other]);
        let better = if self.config.algorithm == Algorithm::LeastRequest {
            second.busy() < first.busy()
        } else {
            let floor = self.baseline.latency.map_or(0.001, |latency| latency / 2.0);
            let as_busy = (second.busy() - first.busy()).abs() < 0.5;
            let equal = if as_busy { EQUAL } else { 1.0 };
            second.cost(floor, now) < equal * first.cost(floor, now)
        };
        Some(if better { other } else { one })
    }

    /// A member of a list that is none of `not`: random, or the next in turn.
    fn candidate(&mut self, from: From, not: [Option<Slot>; 2]) -> Option<Slot> {
        let length = self.list(from).len();
        let start = if self.config.algorithm == Algorithm::RoundRobin {
            self.turn = self.turn.wrapping_add(1);
            self.turn
        } else {
            self.random.below(length)
        };
        let list = self.list(from);
        // At most two are excluded, so one of the next three is free if any is.
        (0..length.min(3)).find_map(|step| {
            let slot = *list.get((start.wrapping_add(step)) % length)?;
            (!not.contains(&Some(slot))).then_some(slot)
        })
    }

    fn list(&self, from: From) -> &[Slot] {
        match from {
            From::Present => &self.pool.present,
            From::Available => &self.pool.available,
            From::Local => &self.pool.local,
            From::Active => self.pool.active(),
            From::Beyond => {
                self.pool.remote.get(..self.pool.reach.max(2)).unwrap_or(&self.pool.remote)
            }
            From::Set => {
                if let Plan::Set(set) = &self.plan {
                    &set.slots
                } else {
                    &[]
                }
            }
            From::Zone(at) => match &self.plan {
                Plan::Zones(zones) => zones.get(at).map_or(&[], |zone| &zone.slots),
                _ => &[],
            },
        }
    }

    pub(super) fn locality(&self, slot: Slot) -> Locality {
        if self.slots[slot].local { Locality::Local } else { Locality::Remote }
    }
}
