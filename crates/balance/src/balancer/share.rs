//! How far the gate is open: share, reach and their reason.

use super::Balancer;
use crate::baseline::{Baseline, Openness};
use crate::config::{LoadBand, Mode};
use crate::endpoint::EndpointKey;
use crate::event::Change;
use crate::failure_cap::SHARE_MIN;
use crate::plan::{Plan, plan};
use crate::reason::Reason;
use crate::slots::Slot;
use crate::valve::{Inputs, Moved};
use alloc::vec::Vec;
use core::time::Duration;

impl Balancer {
    /// The set of endpoints or the settings changed.
    pub(super) fn rebuild(&mut self, now: f64) {
        let before = self.pool.local_present;
        let moved = self.pool.rebuild(&mut self.slots, self.config.zone_known, self.seed);
        self.extent.changed(before, self.pool.local_present, now);
        if moved {
            // Another tier is local now, with another latency.
            self.baseline = Baseline::new();
            self.local.forget_latency();
            self.extent.forget();
        }
        self.membership_changed(now);
    }

    /// An endpoint came, went, was ejected or restored; the pool's lists are up to date.
    pub(super) fn membership_changed(&mut self, now: f64) {
        let (local, remote) = (self.pool.local.len() as f64, self.pool.remote.len() as f64);
        let shut_out = matches!(self.reason, Reason::NoLocal | Reason::Panic);
        if self.started && shut_out && local > 0.0 && remote > 0.0 {
            self.valve.start_at(local / (local + remote));
        }
        self.recount.is_due = true;
        self.next_probe = f64::NEG_INFINITY;
        self.plan = plan(&self.config, &self.pool, &self.slots);
        self.refresh(now);
    }

    /// Once a second: learns from the last window and moves the valve.
    pub(super) fn move_valve(&mut self, now: f64) {
        self.age_out(now);
        let elapsed = (now - self.last_tick).max(0.0);
        self.last_tick = self.last_tick.max(now);
        self.hold.tick(now);
        self.extent.pass(self.pool.local_present, now);
        let window = self.baseline.window();
        let (local, remote) = (self.local.read(now, window), self.remote.read(now, window));
        let openness =
            Openness { share: self.valve.share, open: self.valve.open, proven: self.valve.proven };
        self.baseline.tick(&local, &remote, openness, (elapsed, now));
        if self.config.mode == Mode::Adaptive {
            self.recount.is_due = true;
            let evidence = self.evidence(now);
            if let Some(length) = self.failure_cap.tick(evidence, &mut self.hold, now) {
                self.push_event(Change::Hold { length: Duration::from_secs_f64(length) }, now);
            }
            match self.config.load {
                LoadBand::Normalized { low, high } => self.tick_normalized((low, high), now),
                LoadBand::Outstanding { low, high } => self.tick_outstanding(low, high, now),
            }
        }
        self.refresh(now);
    }

    fn tick_normalized(&mut self, band: (f64, f64), now: f64) {
        let window = self.baseline.window();
        let (local, remote) = (self.local.read(now, window), self.remote.read(now, window));
        let inputs = Inputs {
            baseline: &self.baseline,
            load: self.baseline.load(&local),
            local,
            remote,
            band,
            failure_cap: self.failure_cap.share,
            local_failure: self.failure_cap.local_failure,
            remotes_available: !self.pool.remote.is_empty(),
        };
        match self.valve.tick(&inputs, &mut self.hold, now) {
            Moved::Calm => {}
            Moved::Dropped => self.local.forget_fresh(),
            Moved::Held(length) => {
                self.push_event(Change::Hold { length: Duration::from_secs_f64(length) }, now);
            }
        }
    }

    /// HAZL's rule: one remote endpoint more or less a second, by the mean of outstanding requests per active endpoint.
    fn tick_outstanding(&mut self, low: f64, high: f64, now: f64) {
        let load = self.mean_outstanding(now);
        if load > high {
            self.steps = (self.steps + 1).min(self.pool.remote.len());
        } else if load < low {
            self.steps = self.steps.saturating_sub(1);
        }
        self.valve.warm = true;
        self.valve.cause = Reason::Load;
    }

    /// Mean EWMA of outstanding requests over the endpoints that take part.
    pub(super) fn mean_outstanding(&self, now: f64) -> f64 {
        let window = self.endpoint_window();
        let active = self.pool.local.iter().chain(self.pool.active());
        let sum: f64 = active.clone().map(|slot| self.slots[*slot].load(now, window)).sum();
        sum / (active.count().max(1)) as f64
    }

    /// Brings share, reach and reason up to date, and tells what changed.
    pub(super) fn refresh(&mut self, now: f64) {
        let (share, reach) = self.share_and_reach();
        let before: Vec<Slot> =
            if reach == self.pool.reach { Vec::new() } else { self.pool.active().to_vec() };
        let reach_before = self.pool.reach;
        self.share = share;
        self.pool.reach = reach;
        let reason_before = self.reason;
        self.reason = self.reason_now(now);
        if reach > reach_before {
            self.push_event(Change::Widen { reason: self.reason }, now);
        } else if reach < reach_before {
            self.push_event(Change::Narrow { reason: self.reason }, now);
        } else if self.reason != reason_before {
            self.push_event(Change::Reason { from: reason_before, to: self.reason }, now);
        }
        if reach != reach_before {
            self.tell_members(&before, now);
        }
    }

    fn tell_members(&mut self, before: &[Slot], now: f64) {
        let reason = self.reason;
        let after = self.pool.active();
        let key = |slot: &Slot| self.slots[*slot].spec.key;
        let joined: Vec<EndpointKey> =
            after.iter().filter(|slot| !before.contains(slot)).map(key).collect();
        let left: Vec<EndpointKey> =
            before.iter().filter(|slot| !after.contains(slot)).map(key).collect();
        for endpoint in joined {
            self.push_event(Change::RemoteJoined { endpoint, reason }, now);
        }
        for endpoint in left {
            self.push_event(Change::RemoteLeft { endpoint, reason }, now);
        }
    }

    /// The local share that the three limiters allow, and how many remote endpoints take part.
    fn share_and_reach(&self) -> (f64, usize) {
        let Plan::Valve { use_local } = &self.plan else { return (self.planned_share(), 0) };
        let (local, remote) = (self.pool.local.len(), self.pool.remote.len());
        if remote == 0 {
            return (1.0, 0);
        }
        if local == 0 || !use_local {
            return (0.0, self.pool.nearest_remotes(&self.slots));
        }
        let steps = self.steps.min(remote);
        let valve = self.valve_share();
        let share = valve.min(self.failure_cap.share).min(self.capacity());
        let reach = match self.config.load {
            _ if share >= 1.0 => 0,
            LoadBand::Outstanding { .. } if share >= valve => steps,
            LoadBand::Outstanding { .. } => steps.max(self.pool.reach_at(share)),
            LoadBand::Normalized { .. } => self.pool.reach_at(share),
        };
        (share, reach)
    }

    /// The share of local endpoints in a plan without a valve.
    fn planned_share(&self) -> f64 {
        let local_of = |slots: &[Slot]| {
            let local = slots.iter().filter(|slot| self.slots[**slot].local).count();
            if slots.is_empty() { 1.0 } else { local as f64 / slots.len() as f64 }
        };
        match &self.plan {
            Plan::Empty | Plan::Panic | Plan::Valve { .. } => 1.0,
            Plan::Set(set) => local_of(&set.slots),
            Plan::Zones(zones) => {
                zones.iter().filter(|zone| zone.own).map(|zone| zone.probability).sum()
            }
        }
    }

    /// Endpoints that are ejected, or missing since the zone was lost, are lost capacity: the share that the rest can bear.
    pub(super) fn capacity(&self) -> f64 {
        if self.pool.local_present == 0 {
            return 1.0;
        }
        (self.config.overprovisioning * self.pool.local.len() as f64
            / self.extent.expected(self.pool.local_present))
        .min(1.0)
    }

    /// The first reason that applies.
    fn reason_now(&self, now: f64) -> Reason {
        let use_local = match &self.plan {
            Plan::Empty => return Reason::NoEndpoints,
            Plan::Panic => return Reason::Panic,
            Plan::Set(set) => return set.reason,
            Plan::Zones(_) if self.share >= 1.0 => return Reason::Local,
            Plan::Zones(_) => return Reason::Proportional,
            Plan::Valve { use_local } => *use_local,
        };
        let (valve, cap, capacity) = (self.valve_share(), self.failure_cap.share, self.capacity());
        match () {
            () if !self.config.zone_known => Reason::ZoneUnknown,
            () if self.pool.local.is_empty() => Reason::NoLocal,
            () if !use_local => Reason::Guard,
            () if self.pool.remote.is_empty() => Reason::NoRemote,
            () if cap < 1.0 && cap <= valve && cap <= capacity => Reason::Failure,
            () if capacity < 1.0 && capacity <= valve => Reason::Capacity,
            () if self.hold.holds(now) => Reason::Hold,
            () if valve < 1.0 && self.valve.cause != Reason::Warmup => self.valve.cause,
            () if valve < 1.0 || !self.valve.warm || self.unmeasured() => Reason::Warmup,
            () => Reason::Local,
        }
    }

    /// The load signal needs a baseline that is not known yet.
    fn unmeasured(&self) -> bool {
        matches!(self.config.load, LoadBand::Normalized { .. }) && self.baseline.latency.is_none()
    }

    /// The local share that load alone allows.
    pub(super) fn valve_share(&self) -> f64 {
        match self.config.load {
            LoadBand::Normalized { .. } => self.valve.share,
            LoadBand::Outstanding { .. } => {
                let (local, steps) =
                    (self.pool.local.len(), self.steps.min(self.pool.remote.len()));
                if local == 0 { SHARE_MIN } else { local as f64 / (local + steps) as f64 }
            }
        }
    }
}
