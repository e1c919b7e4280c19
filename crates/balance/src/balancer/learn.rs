//! What the end of a request teaches.

use super::{Balancer, Outcome, Served};
use crate::breaker::Step;
use crate::config::Mode;
use crate::endpoint::{EndpointKey, Locality};
use crate::event::{Change, EjectionCause};
use crate::failure_cap::{Breadth, Evidence};
use crate::requests::{Request, RequestId};
use crate::slots::Slot;
use core::time::Duration;

impl Balancer {
    /// A request got its headers, or failed without them.
    pub(super) fn end(&mut self, request: RequestId, outcome: Outcome, now: f64) -> Served {
        let Some(request) = self.requests.remove(request) else { return self.nobody() };
        let served = self.served(&request, outcome, now);
        self.release(&request, now);
        if self.slots[request.slot].present {
            match outcome {
                Outcome::Success => self.succeeded(&request, now),
                Outcome::Failure => self.failed(&request, now),
            }
        }
        self.slots.recycle(request.slot);
        served
    }

    /// A connection came about. How long that took is no latency of the service, and what follows is no load.
    pub(super) fn open(&mut self, request: RequestId, now: f64) -> Served {
        let Some(request) = self.requests.remove(request) else { return self.nobody() };
        let served = self.served(&request, Outcome::Success, now);
        self.release(&request, now);
        if self.slots[request.slot].present {
            self.side(request.side).connected(request.dispatched, now);
            let endpoint = &mut self.slots[request.slot];
            endpoint.connected(now);
            self.reassure(&request, now);
        }
        self.slots.recycle(request.slot);
        served
    }

    /// A connection ended; one of an endpoint that was removed since counts nowhere.
    pub(super) fn close(&mut self, served: Served) {
        let endpoint = &mut self.slots[served.slot];
        if endpoint.present && endpoint.generation == served.generation {
            endpoint.disconnected();
        }
    }

    fn served(&self, request: &Request, outcome: Outcome, now: f64) -> Served {
        let endpoint = &self.slots[request.slot];
        Served {
            key: endpoint.spec.key,
            slot: request.slot,
            generation: endpoint.generation,
            side: request.side,
            at: now,
            run: endpoint.breaker.run(),
            ok: outcome == Outcome::Success,
            trial: request.trial,
        }
    }

    /// A caller gave up. True when that is the endpoint's failure.
    pub(super) fn give_up(&mut self, request: RequestId, now: f64) -> bool {
        let Some(request) = self.requests.remove(request) else { return false };
        self.release(&request, now);
        let present = self.slots[request.slot].present;
        let stalled = present && now - request.dispatched > self.baseline.stall_limit();
        if stalled {
            self.failed(&request, now);
        } else if present && request.trial {
            self.slots[request.slot].breaker.probe_cancelled(now, &mut self.random);
            self.next_probe = f64::NEG_INFINITY;
        }
        self.slots.recycle(request.slot);
        stalled
    }

    /// A success turned out to be a failure at the end of its body.
    pub(super) fn reverse(&mut self, served: Served, now: f64) {
        let endpoint = &mut self.slots[served.slot];
        if !served.ok || !endpoint.present || endpoint.generation != served.generation {
            return;
        }
        let verdicts = endpoint.reversed(served.at, now);
        let breaker = &mut endpoint.breaker;
        let step = if served.trial && breaker.is_open() {
            breaker.probe_reversed(now, &mut self.random)
        } else {
            breaker.resume_run(served.run);
            breaker.failed(&self.config.breaker, verdicts, now, &mut self.random)
        };
        self.side(served.side).reversed(served.at, now);
        self.step(served.slot, step, now);
        if served.side == Locality::Local {
            self.local_failure(now);
        }
    }

    /// Requests that waited too long count no more for load; a probe among them has failed.
    pub(super) fn age_out(&mut self, now: f64) {
        let limit = now - self.baseline.age_limit();
        for side in [Locality::Local, Locality::Remote] {
            while let Some(request) = self.requests.age_out(side, limit) {
                let (window, endpoint_window) = (self.baseline.window(), self.endpoint_window());
                self.side(side).aged(now, window);
                let endpoint = &mut self.slots[request.slot];
                endpoint.aged(now, endpoint_window);
                if request.trial && endpoint.present {
                    let step =
                        endpoint.breaker.probe_failed(&self.config.breaker, now, &mut self.random);
                    self.step(request.slot, step, now);
                }
            }
        }
    }

    fn release(&mut self, request: &Request, now: f64) {
        let (window, endpoint_window) = (self.baseline.window(), self.endpoint_window());
        let endpoint = &mut self.slots[request.slot];
        endpoint.finished(request.counted, now, endpoint_window);
        self.side(request.side).finished(request.counted, now, window);
    }

    /// A ticket of another balancer: it names a request that does not wait here.
    fn nobody(&self) -> Served {
        debug_assert!(false, "a ticket was given back to a balancer that did not issue it");
        let slot = self.pool.present.first().copied().unwrap_or(Slot::FIRST);
        let generation = u32::MAX;
        let key = EndpointKey(u64::MAX);
        Served {
            key,
            slot,
            generation,
            side: Locality::Local,
            at: 0.0,
            run: 0,
            ok: false,
            trial: false,
        }
    }

    fn succeeded(&mut self, request: &Request, now: f64) {
        let latency = (now - request.dispatched).max(0.0);
        let window = self.baseline.window();
        let counted_latency = latency.min(self.baseline.age_limit());
        let fresh = request.dispatched > self.valve.last_drop;
        self.side(request.side).succeeded(counted_latency, fresh, now, window);
        if request.side == Locality::Local {
            self.valve.watch.answered(&self.baseline, self.local.rate(), now);
            self.baseline.answered(latency);
        }
        let endpoint = &mut self.slots[request.slot];
        endpoint.succeeded(latency, now);
        self.reassure(request, now);
        if self.valve.alarm.is_some() {
            self.reconsider(request.side, latency, now);
        }
    }

    /// A good answer while there is an alarm: it may prove false.
    fn reconsider(&mut self, side: Locality, latency: f64, now: f64) {
        let Some(alarm) = &mut self.valve.alarm else { return };
        if side == Locality::Remote {
            alarm.remote_answered(latency, &self.baseline);
        } else if alarm.answered(&self.baseline, now) && self.failure_cap.share >= 1.0 {
            self.valve.acquit();
            self.refresh(now);
        }
    }

    /// Tells the breaker of a success.
    fn reassure(&mut self, request: &Request, now: f64) {
        let endpoint = &mut self.slots[request.slot];
        if !request.trial {
            endpoint.breaker.succeeded();
            return;
        }
        let step = endpoint.breaker.probe_succeeded(now);
        self.step(request.slot, step, now);
    }

    fn failed(&mut self, request: &Request, now: f64) {
        self.side(request.side).failed(now);
        let endpoint = &mut self.slots[request.slot];
        let verdicts = endpoint.failed(now);
        let rules = &self.config.breaker;
        let step = if request.trial {
            endpoint.breaker.probe_failed(rules, now, &mut self.random)
        } else {
            endpoint.breaker.failed(rules, verdicts, now, &mut self.random)
        };
        self.step(request.slot, step, now);
        if request.side == Locality::Local {
            self.local_failure(now);
        }
    }

    /// Carries out what a breaker did.
    fn step(&mut self, slot: Slot, step: Step, now: f64) {
        let endpoint = self.slots[slot].spec.key;
        if step != Step::Same {
            self.next_probe = f64::NEG_INFINITY;
        }
        match step {
            Step::Same => {}
            Step::Opened(cause, pause) => {
                if cause == EjectionCause::ProbeFailed {
                    self.push_event(Change::Probed { endpoint, success: false }, now);
                } else {
                    self.pool.refresh(&self.slots);
                    self.membership_changed(now);
                }
                let backoff = Duration::from_secs_f64(pause.max(0.0));
                self.push_event(Change::Ejected { endpoint, cause, backoff }, now);
            }
            Step::ProbeSucceeded => {
                self.probe_tokens = super::PROBE_TOKENS_MAX;
                self.push_event(Change::Probed { endpoint, success: true }, now);
            }
            Step::Closed => {
                self.slots[slot].forgive();
                self.push_event(Change::Probed { endpoint, success: true }, now);
                self.pool.refresh(&self.slots);
                self.membership_changed(now);
                self.push_event(Change::Restored { endpoint }, now);
            }
        }
    }

    /// A local failure may lower the failure cap at once.
    fn local_failure(&mut self, now: f64) {
        if self.config.mode != Mode::Adaptive {
            return;
        }
        let before = self.failure_cap.share;
        self.recount.failed(self.pool.local.len());
        let evidence = self.evidence(now);
        if let Some(length) = self.failure_cap.failed(evidence, &mut self.hold, now) {
            self.push_event(Change::Hold { length: Duration::from_secs_f64(length) }, now);
        }
        if before.to_bits() != self.failure_cap.share.to_bits() {
            self.refresh(now);
        }
    }

    /// What the failure cap is computed from.
    pub(super) fn evidence(&mut self, now: f64) -> Evidence {
        let local = self.local.verdicts(now);
        if self.recount.is_due && self.failure_cap.heeds(local.failed) {
            let half_rate = local.failed / (2.0 * local.answers());
            let mut breadth = Breadth::default();
            for slot in &self.pool.local {
                breadth.add(self.slots[*slot].verdicts(now), half_rate);
            }
            self.recount.counted(breadth);
        }
        Evidence {
            local,
            remote: self.remote.verdicts(now),
            breadth: self.recount.factor(),
            budget: self.config.failure_budget,
        }
    }
}
