//! A risk budget. With local share `c` the extra failure probability of staying local is `c × (pL − pR)`; the cap keeps it
//! within the budget.

use crate::group::Verdicts;
use crate::hold::Hold;
use crate::number::{rise, sqrt};

/// The least share that stays local, so that recovery is noticed.
pub(crate) const SHARE_MIN: f64 = 0.01;

/// Failures needed before the cap closes, and before it is lifted again.
const EVIDENCE: f64 = 1.5;
const EVIDENCE_CAPPED: f64 = 0.3;

#[derive(Clone, Debug)]
pub(crate) struct FailureCap {
    /// The largest local share that the budget allows.
    pub(crate) share: f64,
    /// Local and remote failure rates as last computed.
    pub(crate) local_failure: f64,
    pub(crate) remote_failure: f64,
}

/// What the cap is computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    pub(crate) local: Verdicts,
    pub(crate) remote: Verdicts,
    /// How many of the local endpoints share the failures: 0 for one of four, 1 for half of them.
    pub(crate) breadth: f64,
    /// The budget: extra failure probability.
    pub(crate) budget: f64,
}

/// How many of the local endpoints share the failures, as a factor on the evidence.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Breadth {
    used: u32,
    failing: u32,
}

impl Breadth {
    /// Takes one available local endpoint into account; `half_rate` is half the failure rate of all of them.
    pub(crate) fn add(&mut self, verdicts: Verdicts, half_rate: f64) {
        if verdicts.answers() > 0.3 {
            self.used += 1;
            let failing = verdicts.failed > 0.2 && verdicts.failed / verdicts.answers() > half_rate;
            self.failing += u32::from(failing);
        }
    }

    /// One bad endpoint of four is the breaker's business, not the zone's.
    pub(crate) fn factor(self) -> f64 {
        if self.used < 2 {
            return 1.0;
        }
        ((f64::from(self.failing) / f64::from(self.used) - 0.25) / 0.25).clamp(0.0, 1.0)
    }
}

/// The breadth as last counted. Requests do not loop over endpoints: a failure counts anew only when an eighth as many
/// failures as there are local endpoints came since, or something else changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recount {
    pub(crate) is_due: bool,
    failures: usize,
    factor: f64,
}

impl Recount {
    pub(crate) const fn new() -> Self {
        Self { is_due: true, failures: 0, factor: 1.0 }
    }

    /// A failure among `endpoints` local endpoints.
    pub(crate) fn failed(&mut self, endpoints: usize) {
        self.failures += 1;
        self.is_due |= 8 * self.failures >= endpoints;
    }

    pub(crate) fn counted(&mut self, breadth: Breadth) {
        *self = Self { is_due: false, failures: 0, factor: breadth.factor() };
    }

    pub(crate) const fn factor(&self) -> f64 {
        self.factor
    }
}

impl FailureCap {
    /// Whether so many local failures are evidence at all.
    pub(crate) fn heeds(&self, failed: f64) -> bool {
        failed >= if self.share < 1.0 { EVIDENCE_CAPPED } else { EVIDENCE }
    }

    pub(crate) fn new() -> Self {
        Self { share: 1.0, local_failure: 0.0, remote_failure: 0.0 }
    }

    /// A local request failed: the cap may fall. Returns the length of a hold that began.
    pub(crate) fn failed(&mut self, evidence: Evidence, hold: &mut Hold, now: f64) -> Option<f64> {
        let (cap, started) = self.cap(evidence, hold, now);
        self.share = self.share.min(cap);
        started
    }

    /// Once a second: the cap may also rise. Returns the length of a hold that began.
    pub(crate) fn tick(&mut self, evidence: Evidence, hold: &mut Hold, now: f64) -> Option<f64> {
        let (cap, started) = self.cap(evidence, hold, now);
        self.share = if cap < self.share { cap } else { cap.min(rise(self.share)) };
        started
    }

    fn cap(&mut self, evidence: Evidence, hold: &mut Hold, now: f64) -> (f64, Option<f64>) {
        let capped = self.share < 1.0;
        if evidence.budget >= 1.0 {
            self.local_failure = 0.0;
            return (1.0, None);
        }
        if !self.heeds(evidence.local.failed) {
            self.local_failure = 0.0;
            return (1.0, None);
        }
        let (n, nr) = (evidence.local.answers(), evidence.remote.answers());
        let pl = evidence.local.failed * evidence.breadth / (n + if capped { 1.0 } else { 2.0 });
        let pr = evidence.remote.failed / (nr + 2.0);
        (self.local_failure, self.remote_failure) = (pl, pr);
        let error = sqrt(pl * (1.0 - pl) / (n + 2.0) + pr * (1.0 - pr) / (nr + 2.0));
        let difference = pl - pr - if capped && pl > 0.2 { 0.0 } else { error };
        let useless = capped && pl > 0.03 && nr >= 10.0 && pr > 0.5 * pl;
        let started = (useless && !hold.holds(now)).then(|| hold.start(pl, now));
        if hold.holds(now) && pl - error > 2.0 * hold.local_failure.max(0.05) {
            hold.end(now);
        }
        if hold.holds(now) {
            self.share = 1.0;
            return (1.0, started);
        }
        if difference <= evidence.budget {
            return (1.0, started);
        }
        ((evidence.budget / difference).clamp(SHARE_MIN, 1.0), started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(local: (f64, f64), remote: (f64, f64)) -> Evidence {
        let verdicts = |(ok, failed)| Verdicts { ok, failed, ..Verdicts::default() };
        Evidence { local: verdicts(local), remote: verdicts(remote), breadth: 1.0, budget: 0.005 }
    }

    #[test]
    fn one_stray_error_does_not_open() {
        let mut cap = FailureCap::new();
        cap.failed(evidence((500.0, 1.0), (0.0, 0.0)), &mut Hold::new(), 1.0);
        assert_eq!(cap.share.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn the_budget_over_the_difference_is_what_stays_local() {
        let mut cap = FailureCap { share: 0.9, ..FailureCap::new() };
        cap.failed(evidence((70.0, 30.0), (100.0, 0.0)), &mut Hold::new(), 1.0);
        let expected: f64 = 0.005 / (30.0 / 101.0);
        assert!((cap.share - expected).abs() < 1e-9, "{cap:?}");
    }

    #[test]
    fn remote_failures_start_a_hold_which_lifts_the_cap() {
        let (mut cap, mut hold) = (FailureCap { share: 0.5, ..FailureCap::new() }, Hold::new());
        let started = cap.tick(evidence((80.0, 20.0), (80.0, 20.0)), &mut hold, 1.0);
        assert_eq!(started, Some(5.0));
        assert_eq!(cap.share.to_bits(), 1.0_f64.to_bits());
        assert!(hold.holds(5.9) && !hold.holds(6.0));
    }

    #[test]
    fn a_budget_of_everything_switches_it_off() {
        let mut cap = FailureCap::new();
        cap.failed(
            Evidence { budget: 1.0, ..evidence((0.0, 100.0), (100.0, 0.0)) },
            &mut Hold::new(),
            1.0,
        );
        assert_eq!(cap.share.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn one_failing_endpoint_of_four_is_no_breadth_and_half_of_them_is() {
        let verdicts = |ok: f64, failed: f64| Verdicts { ok, failed, ..Verdicts::default() };
        let factor = |failing: usize| {
            let mut breadth = Breadth::default();
            (0..4).for_each(|endpoint| {
                breadth.add(
                    if endpoint < failing { verdicts(0.0, 9.0) } else { verdicts(9.0, 0.0) },
                    0.1,
                );
            });
            breadth.factor()
        };
        assert_eq!(
            [factor(0), factor(1), factor(2), factor(4)].map(f64::to_bits),
            [0.0_f64, 0.0, 1.0, 1.0].map(f64::to_bits)
        );
    }

    proptest::proptest! {
        /// With breadth fixed and no hold: a local failure never raises the cap, a remote failure or a local success never
        /// lowers it.
        #[test]
        fn each_outcome_moves_the_cap_its_own_way(
            (ok, failed) in (0.0..500.0_f64, 0.0..200.0_f64),
            (remote_ok, remote_failed) in (0.0..500.0_f64, 0.0..200.0_f64),
            breadth in 0.0..1.0_f64,
            capped: bool,
        ) {
            let cap = |ok, failed, remote_failed| {
                let mut cap = FailureCap { share: if capped { 0.5 } else { 1.0 }, ..FailureCap::new() };
                // far in the past a hold of no failures at all began and ended: it can neither hold nor end early
                let mut hold = Hold::new();
                let verdicts = |ok, failed| Verdicts { at: 0.0, ok, failed };
                let evidence = Evidence {
                    local: verdicts(ok, failed),
                    remote: verdicts(remote_ok, remote_failed),
                    breadth,
                    budget: 0.005,
                };
                let (cap, held) = cap.cap(evidence, &mut hold, 0.0);
                (cap, held.is_some())
            };
            let (now, held) = cap(ok, failed, remote_failed);
            for (after, rises) in [
                (cap(ok, failed + 1.0, remote_failed), false),
                (cap(ok, failed, remote_failed + 1.0), true),
                (cap(ok + 1.0, failed, remote_failed), true),
            ] {
                let (after, holds) = after;
                proptest::prop_assume!(!held && !holds);
                proptest::prop_assert!(if rises { after >= now - 1e-12 } else { after <= now + 1e-12 },
                    "{now} and then {after}");
            }
        }
    }
}
