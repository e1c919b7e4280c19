//! The load valve: spills queueing, not noise.

use crate::alarm::{Alarm, Pile, Watch};
use crate::baseline::{Baseline, Load};
use crate::failure_cap::SHARE_MIN;
use crate::group::Reading;
use crate::hold::Hold;
use crate::number::rise;
use crate::reason::Reason;

/// Above this failure cap the valve may drop: below, failures already decide.
const CAP_MIN: f64 = 0.95;

#[derive(Clone, Debug)]
pub(crate) struct Valve {
    /// The local share that load allows.
    pub(crate) share: f64,
    pub(crate) last_drop: f64,
    pub(crate) open: bool,
    pub(crate) proven: bool,
    /// What the last drop was: load or surge; `Warmup` before any, and in a zone that has just come back.
    pub(crate) cause: Reason,
    /// The share was 1 at least once.
    pub(crate) warm: bool,
    pub(crate) watch: Watch,
    /// The last drop was on suspicion, and may prove to be for nothing.
    pub(crate) alarm: Option<Alarm>,
}

/// What moves the valve at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) baseline: &'a Baseline,
    pub(crate) load: Load,
    pub(crate) local: Reading,
    pub(crate) remote: Reading,
    pub(crate) band: (f64, f64),
    pub(crate) failure_cap: f64,
    pub(crate) local_failure: f64,
    pub(crate) remotes_available: bool,
}

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Moved {
    /// Nothing, or the share rose.
    Calm,
    /// The share fell; answers dispatched before say nothing about it.
    Dropped,
    /// Crossing did not help: a hold of so many seconds began.
    Held(f64),
}

impl Valve {
    pub(crate) fn new() -> Self {
        Self {
            share: 0.5,
            last_drop: f64::NEG_INFINITY,
            open: false,
            proven: false,
            cause: Reason::Warmup,
            warm: false,
            watch: Watch::new(),
            alarm: None,
        }
    }

    /// Whether the last drop had time to show in latencies.
    fn settled(&self, settle: f64, now: f64) -> bool {
        now - self.last_drop >= settle
    }

    /// Once a second.
    pub(crate) fn tick(&mut self, inputs: &Inputs<'_>, hold: &mut Hold, now: f64) -> Moved {
        let (low, high) = inputs.band;
        let baseline = inputs.baseline.latency.unwrap_or(0.0);
        let latency = if inputs.local.fresh_answers > 0.0 {
            inputs.local.fresh_latency
        } else {
            inputs.local.latency
        };
        let latency = latency.unwrap_or(0.0);
        let settled = self.settled(inputs.baseline.settle(), now);
        // Answers sent after the last drop are fine: only the old queue is draining.
        let normal = inputs.local.fresh_answers >= 3.0 && latency < low * baseline;
        self.open = inputs.load.lower > high && !normal;
        let remote_as_slow = inputs.remote.latency.is_some_and(|remote| remote > 0.85 * latency);
        self.proven = self.open
            && inputs.remote.answers >= 5.0
            && self.share < 0.97
            && latency > high * baseline
            && remote_as_slow;
        let held = hold.holds(now);
        let mut moved = Moved::Calm;
        if self.proven {
            if !held {
                moved = Moved::Held(hold.start(inputs.local_failure, now));
            }
            self.share = rise(self.share);
        } else if self.open && !held {
            if settled && inputs.failure_cap > CAP_MIN && inputs.remotes_available {
                self.drop_by((inputs.load.lower / high - 1.0).clamp(0.05, 0.6), Reason::Load, now);
                moved = Moved::Dropped;
            }
        } else if (inputs.load.doubted < low || normal || held) && (settled || held) {
            self.share = rise(self.share);
        }
        self.warm |= self.share >= 1.0;
        // What it could give back is there already.
        self.alarm = self.alarm.filter(|alarm| self.share < alarm.share);
        moved
    }

    /// Requests pile up and none is answered: acts seconds before the first slow answer returns. True when it dropped.
    pub(crate) fn surge(
        &mut self,
        baseline: &Baseline,
        pile: &Pile,
        failure_cap: f64,
        now: f64,
    ) -> bool {
        if self.share <= 0.3
            || failure_cap <= CAP_MIN
            || !self.watch.is_surge(baseline, pile, now)
            || !self.settled(baseline.settle(), now)
        {
            return false;
        }
        let before = self.share;
        self.drop_by(0.6, Reason::Surge, now);
        self.alarm = self.watch.is_silent(pile.rate, now).then(|| Alarm::new(before, pile.rate));
        true
    }

    /// The drop was for nothing.
    pub(crate) fn acquit(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.share = self.share.max(alarm.share);
        }
    }

    /// A zone that had no endpoint available starts at its fair share.
    pub(crate) fn start_at(&mut self, fair_share: f64) {
        let share = fair_share.max(SHARE_MIN);
        if share < self.share {
            self.share = share;
            self.cause = Reason::Warmup;
            self.alarm = None;
        }
    }

    fn drop_by(&mut self, part: f64, cause: Reason, now: f64) {
        self.alarm = None;
        self.share = (self.share * (1.0 - part)).max(SHARE_MIN);
        self.last_drop = now;
        self.cause = cause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Baseline {
        Baseline { latency: Some(0.05), ..Baseline::new() }
    }

    fn inputs(baseline: &Baseline, mean: f64, lower: f64) -> Inputs<'_> {
        let local = Reading { answers: 100.0, latency: Some(0.05 * mean), ..Reading::default() };
        let load = Load { mean, lower, doubted: mean - 0.2 * (mean - lower) };
        Inputs {
            baseline,
            load,
            local,
            remote: Reading::default(),
            band: (1.2, 1.5),
            failure_cap: 1.0,
            local_failure: 0.0,
            remotes_available: true,
        }
    }

    #[test]
    fn it_drops_above_the_band_once_in_a_settling_time_and_rises_below() {
        let (baseline, mut hold) = (known(), Hold::new());
        let mut valve = Valve { share: 1.0, ..Valve::new() };
        assert_eq!(valve.tick(&inputs(&baseline, 2.2, 2.1), &mut hold, 10.0), Moved::Dropped);
        assert!((valve.share - 0.6).abs() < 1e-12, "{valve:?}");
        assert_eq!(valve.tick(&inputs(&baseline, 2.2, 2.1), &mut hold, 11.0), Moved::Calm);
        assert!((valve.share - 0.6).abs() < 1e-12, "not settled: {valve:?}");
        valve.tick(&inputs(&baseline, 1.3, 1.25), &mut hold, 13.0);
        assert!((valve.share - 0.6).abs() < 1e-12, "inside the band: {valve:?}");
        valve.tick(&inputs(&baseline, 1.1, 1.0), &mut hold, 14.0);
        assert!((valve.share - 0.76).abs() < 1e-12, "{valve:?}");
    }

    #[test]
    fn a_noisy_load_has_the_benefit_of_the_doubt() {
        let (baseline, mut hold) = (known(), Hold::new());
        let mut valve = Valve { share: 0.5, warm: true, ..Valve::new() };
        valve.tick(&inputs(&baseline, 1.3, 1.25), &mut hold, 1.0);
        assert_eq!(valve.share.to_bits(), 0.5_f64.to_bits(), "many requests: {valve:?}");
        valve.tick(&inputs(&baseline, 1.3, 0.55), &mut hold, 2.0);
        assert!(valve.share > 0.5, "few requests: {valve:?}");
    }

    #[test]
    fn remote_answers_that_are_as_slow_close_it_for_a_while() {
        let (baseline, mut hold) = (known(), Hold::new());
        let mut valve = Valve { share: 0.6, ..Valve::new() };
        let slow = Reading { answers: 50.0, latency: Some(0.2), ..Reading::default() };
        let step =
            valve.tick(&Inputs { remote: slow, ..inputs(&baseline, 4.0, 3.9) }, &mut hold, 10.0);
        assert_eq!(step, Moved::Held(5.0));
        assert!(valve.share > 0.6 && hold.holds(11.0));
    }

    fn surged(valve: &mut Valve, now: f64) -> bool {
        let pile = Pile { outstanding: 100, rate: 100.0, oldest: now - 1.0 };
        valve.surge(&known(), &pile, 1.0, now)
    }

    #[test]
    fn a_pile_drops_it_once_in_a_settling_time() {
        let mut valve = Valve { share: 1.0, ..Valve::new() };
        assert!(surged(&mut valve, 10.0));
        assert!((valve.share - 0.4).abs() < 1e-12);
        assert!(!surged(&mut valve, 11.0));
    }

    #[test]
    fn a_false_alarm_gives_the_share_back() {
        let mut valve = Valve { share: 0.9, ..Valve::new() };
        valve.watch.answered(&known(), 100.0, 9.0);
        assert!(surged(&mut valve, 10.0));
        valve.acquit();
        assert!((valve.share - 0.9).abs() < 1e-12 && valve.alarm.is_none());
    }

    #[test]
    fn there_is_no_doubt_where_answers_come_or_load_is_found_high() {
        let (baseline, mut hold) = (known(), Hold::new());
        let mut valve = Valve { share: 1.0, ..Valve::new() };
        valve.watch.answered(&known(), 100.0, 9.95);
        assert!(surged(&mut valve, 10.0));
        assert!(valve.alarm.is_none(), "answers come");
        valve.share = 1.0;
        assert!(surged(&mut valve, 13.0));
        assert!(valve.alarm.is_some(), "none for three seconds");
        valve.tick(&inputs(&baseline, 2.2, 2.1), &mut hold, 16.0);
        assert!(valve.alarm.is_none(), "load");
    }
}
