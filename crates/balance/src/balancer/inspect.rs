//! What a balancer shows of itself, and what must always hold.

use super::Balancer;
use crate::config::LoadBand;
use crate::event::Numbers;
use crate::number::count;
use crate::plan::Plan;
use crate::slots::Slot;
use crate::snapshot::{EndpointSnapshot, EndpointState, Snapshot};
use crate::time::Timestamp;
use core::time::Duration;

impl Balancer {
    /// Everything the balancer knows.
    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let now = now.seconds();
        Snapshot {
            reason: self.reason,
            numbers: self.numbers(now),
            retry_tokens: self.retry.tokens(),
            hold: Duration::from_secs_f64(self.hold.left(now)),
            events_dropped: self.events_dropped,
            endpoints: self.slots.present().map(|slot| self.endpoint_snapshot(slot, now)).collect(),
        }
    }

    /// The numbers behind a decision.
    pub(super) fn numbers(&self, now: f64) -> Numbers {
        let local = self.local.read(now, self.baseline.window());
        let load = self.baseline.load(&local);
        let outstanding = matches!(self.config.load, LoadBand::Outstanding { .. });
        let rate = |group: &crate::group::Group| {
            let verdicts = group.verdicts(now);
            if verdicts.answers() > 0.0 { verdicts.failed / verdicts.answers() } else { 0.0 }
        };
        Numbers {
            share: self.share,
            valve: self.valve_share(),
            failure_cap: self.failure_cap.share,
            capacity: self.capacity(),
            load: if outstanding { self.mean_outstanding(now) } else { load.mean },
            load_lower: if outstanding { self.mean_outstanding(now) } else { load.lower },
            baseline_seconds: self.baseline.latency.unwrap_or(0.0),
            reach: count(self.pool.reach),
            local_failure: rate(&self.local),
            remote_failure: rate(&self.remote),
        }
    }

    fn endpoint_snapshot(&self, slot: Slot, now: f64) -> EndpointSnapshot {
        let endpoint = &self.slots[slot];
        let verdicts = endpoint.verdicts(now);
        let state = match (endpoint.breaker.is_open(), endpoint.breaker.is_probing()) {
            (false, _) => EndpointState::Serving,
            (true, false) => EndpointState::Ejected,
            (true, true) => EndpointState::Probing,
        };
        EndpointSnapshot {
            key: endpoint.spec.key,
            locality: self.locality(slot),
            tier: endpoint.spec.tier,
            state,
            active: self.takes_part(slot),
            outstanding: endpoint.outstanding,
            connections: endpoint.connections,
            load: endpoint.load(now, self.endpoint_window()),
            success_rate: if verdicts.answers() > 0.0 {
                verdicts.ok / verdicts.answers()
            } else {
                1.0
            },
            latency_seconds: endpoint.latency().unwrap_or(0.0),
            probe_in: Duration::from_secs_f64(
                endpoint.breaker.probe_at().map_or(0.0, |at| (at - now).max(0.0)),
            ),
        }
    }

    /// Whether ordinary requests may go there now.
    fn takes_part(&self, slot: Slot) -> bool {
        match &self.plan {
            Plan::Empty => false,
            Plan::Panic => true,
            Plan::Set(set) => set.slots.contains(&slot),
            Plan::Zones(zones) => zones.iter().any(|zone| zone.slots.contains(&slot)),
            Plan::Valve { .. } if self.slots[slot].local => {
                self.share > 0.0 && self.slots[slot].is_available()
            }
            Plan::Valve { .. } => self.pool.active().contains(&slot),
        }
    }

    /// What must hold after every public call.
    pub(super) fn check_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        debug_assert!((0.0..=1.0).contains(&self.share), "share {}", self.share);
        debug_assert!(
            self.pool.reach <= self.pool.remote.len(),
            "reach beyond the remote endpoints"
        );
        debug_assert_eq!(
            self.slots.outstanding(),
            u64::from(self.local.outstanding) + u64::from(self.remote.outstanding),
            "requests of endpoints and of sides differ"
        );
        debug_assert!(
            self.local.counted <= self.local.outstanding
                && self.remote.counted <= self.remote.outstanding
        );
        debug_assert_eq!(self.slots.present_count(), self.pool.present.len(), "the pool is stale");
        if let Plan::Valve { use_local: true } = self.plan {
            let (local, remote) = (self.pool.local.len(), self.pool.remote.len());
            debug_assert!(
                remote > 0 || self.share >= 1.0,
                "no remote endpoint, yet share {}",
                self.share
            );
            debug_assert!(
                remote == 0 || local > 0 || self.share <= 0.0,
                "no local endpoint, yet share {}",
                self.share
            );
            debug_assert!(
                remote == 0 || self.share <= self.capacity(),
                "share above the capacity floor"
            );
            debug_assert_eq!(
                self.pool.reach == 0,
                self.share >= 1.0 || remote == 0,
                "reach and share disagree"
            );
        }
    }
}
