//! The model of one endpoint's breaker.

/// Its state. Pauses are random, so only their bounds are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    run: u32,
    open: Option<Open>,
    /// When it last closed: failures until then are forgiven.
    closed_at: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    since: f64,
    backoff: f64,
    /// The pause before jitter was not waived by a good trial.
    pause: bool,
    good: u32,
    trial: bool,
}

impl Breaker {
    pub(crate) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) const fn run(&self) -> u32 {
        self.run
    }

    pub(crate) fn forgiven(&self, failed_at: Option<f64>) -> bool {
        matches!((failed_at, self.closed_at), (Some(failed), Some(closed)) if failed <= closed)
    }

    pub(crate) const fn ok(&mut self) {
        if self.open.is_none() {
            self.run = 0;
        }
    }

    pub(crate) fn resume(&mut self, run: u32) {
        self.run = self.run.max(run);
    }

    pub(crate) fn failed(&mut self, ok: f64, bad: f64, now: f64) {
        if self.open.is_some() {
            return;
        }
        self.run += 1;
        if self.run >= 5 || (ok + bad >= 10.0 && ok / (ok + bad) < 0.5) {
            self.open = Some(Open { since: now, backoff: 1.0, pause: true, good: 0, trial: false });
        }
    }

    /// A probe goes: it must be allowed.
    pub(crate) fn trial_sent(&mut self, now: f64) {
        let open = self.open.as_mut().expect("only an ejected endpoint is probed");
        assert!(!open.trial, "two probes at once");
        if open.pause {
            assert!(now - open.since >= 0.5 * open.backoff - 1e-6, "a probe within the pause");
        }
        open.trial = true;
    }

    /// Returns whether it closed.
    pub(crate) fn trial_ok(&mut self, now: f64) -> bool {
        let Some(open) = &mut self.open else { return false };
        open.trial = false;
        open.good += 1;
        open.pause = false;
        let closes = open.good >= 2;
        if closes {
            self.open = None;
            self.run = 0;
            self.closed_at = Some(now);
        }
        closes
    }

    pub(crate) fn trial_failed(&mut self, now: f64) {
        if let Some(open) = &mut self.open {
            let backoff = (2.0 * open.backoff).min(15.0);
            *open = Open { since: now, backoff, pause: true, good: 0, trial: false };
        }
    }

    pub(crate) fn trial_cancelled(&mut self, now: f64) {
        if let Some(open) = &mut self.open {
            *open = Open { since: now, pause: true, trial: false, ..*open };
        }
    }

    pub(crate) fn trial_reversed(&mut self, now: f64) {
        if let Some(open) = &mut self.open {
            *open = Open { since: now, pause: true, good: 0, ..*open };
        }
    }
}
