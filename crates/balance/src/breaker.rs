//! The circuit breaker of one endpoint.
//!
//! ```text
//!              5 failures in a row, or under half of ≥ 10 answers good
//!   Serving ───────────────────────────────────────────────────────────▶ Ejected ◀─┐
//!      ▲                                                                    │      │ a probe fails:
//!      │ two good probes in a row                        the pause is over  ▼      │ twice the pause
//!      └──────────────────────────────────────────────────────────────── Probing ──┘
//! ```

use crate::config;
use crate::event::EjectionCause;
use crate::group::Verdicts;
use crate::random::Random;

/// Good probes in a row that close it.
const PROBES_TO_CLOSE: u32 = 2;
/// The pause is stretched by a factor from this range, so that callers do not probe together.
const JITTER: (f64, f64) = (0.5, 1.5);

#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    state: State,
    failures_in_a_row: u32,
}

#[derive(Clone, Debug)]
enum State {
    Closed,
    Open(Open),
}

#[derive(Clone, Debug)]
struct Open {
    /// No probe before this.
    until: f64,
    backoff: f64,
    good_probes: u32,
    /// A probe is under way.
    probing: bool,
}

/// What an outcome did to the breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Nothing.
    Same,
    /// It opened, or stays open after a failed probe; the next probe is due after the pause, in seconds.
    Opened(EjectionCause, f64),
    /// A probe succeeded; one more is needed.
    ProbeSucceeded,
    /// It closed.
    Closed,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { state: State::Closed, failures_in_a_row: 0 }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether a probe is under way.
    pub(crate) fn is_probing(&self) -> bool {
        matches!(&self.state, State::Open(open) if open.probing)
    }

    /// When a probe may be sent; `None` while it is closed or a probe is under way.
    pub(crate) fn probe_at(&self) -> Option<f64> {
        match &self.state {
            State::Open(open) if !open.probing => Some(open.until),
            State::Open(_) | State::Closed => None,
        }
    }

    pub(crate) fn probe_sent(&mut self) {
        if let State::Open(open) = &mut self.state {
            open.probing = true;
        }
    }

    /// A request that is no probe succeeded.
    pub(crate) fn succeeded(&mut self) {
        if matches!(self.state, State::Closed) {
            self.failures_in_a_row = 0;
        }
    }

    /// A request that is no probe failed. `verdicts`: the endpoint's recent answers, this one included.
    pub(crate) fn failed(
        &mut self,
        rules: &config::Breaker,
        verdicts: Verdicts,
        now: f64,
        random: &mut Random,
    ) -> Step {
        if self.is_open() {
            return Step::Same;
        }
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        let enough = verdicts.answers() >= f64::from(rules.requests_min);
        let cause = if self.failures_in_a_row >= rules.consecutive {
            EjectionCause::Consecutive
        } else if enough && verdicts.ok < rules.success_rate_min * verdicts.answers() {
            EjectionCause::SuccessRate
        } else {
            return Step::Same;
        };
        let backoff = rules.backoff_min.as_secs_f64();
        let pause = jittered(backoff, random);
        self.state =
            State::Open(Open { until: now + pause, backoff, good_probes: 0, probing: false });
        Step::Opened(cause, pause)
    }

    /// The body of a good answer failed, so that its headers did not end the run of failures that they had followed.
    pub(crate) fn resume_run(&mut self, failures: u32) {
        self.failures_in_a_row = self.failures_in_a_row.max(failures);
    }

    /// The body of a good probe failed. A later probe that is already under way still counts.
    pub(crate) fn probe_reversed(&mut self, now: f64, random: &mut Random) -> Step {
        let State::Open(open) = &mut self.state else { return Step::Same };
        open.good_probes = 0;
        let pause = jittered(open.backoff, random);
        open.until = now + pause;
        Step::Opened(EjectionCause::ProbeFailed, pause)
    }

    /// Failures since the last success.
    pub(crate) fn run(&self) -> u32 {
        self.failures_in_a_row
    }

    /// A probe succeeded.
    pub(crate) fn probe_succeeded(&mut self, now: f64) -> Step {
        let State::Open(open) = &mut self.state else { return Step::Same };
        open.probing = false;
        open.good_probes += 1;
        if open.good_probes < PROBES_TO_CLOSE {
            open.until = now;
            return Step::ProbeSucceeded;
        }
        *self = Self::new();
        Step::Closed
    }

    /// A probe failed, or had no answer in time.
    pub(crate) fn probe_failed(
        &mut self,
        rules: &config::Breaker,
        now: f64,
        random: &mut Random,
    ) -> Step {
        let State::Open(open) = &mut self.state else { return Step::Same };
        open.probing = false;
        open.good_probes = 0;
        open.backoff = (2.0 * open.backoff).min(rules.backoff_max.as_secs_f64());
        let pause = jittered(open.backoff, random);
        open.until = now + pause;
        Step::Opened(EjectionCause::ProbeFailed, pause)
    }

    /// The caller of a probe gave up early: that says nothing, the next probe waits as long as this one had to.
    pub(crate) fn probe_cancelled(&mut self, now: f64, random: &mut Random) {
        if let State::Open(open) = &mut self.state {
            open.probing = false;
            open.until = now + jittered(open.backoff, random);
        }
    }
}

fn jittered(backoff: f64, random: &mut Random) -> f64 {
    backoff * random.between(JITTER.0, JITTER.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> config::Breaker {
        config::Breaker::default()
    }

    fn verdicts(ok: u32, failed: u32) -> Verdicts {
        Verdicts { ok: f64::from(ok), failed: f64::from(failed), ..Verdicts::default() }
    }

    fn open() -> Breaker {
        let mut breaker = Breaker::new();
        for failed in 1..=5 {
            breaker.failed(&rules(), verdicts(0, failed), 100.0, &mut Random::new(1));
        }
        assert!(breaker.is_open());
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_one_success_in_between_does_not() {
        let (mut breaker, mut random) = (Breaker::new(), Random::new(1));
        for failed in 1..=4 {
            assert_eq!(
                breaker.failed(&rules(), verdicts(90, failed), 1.0, &mut random),
                Step::Same
            );
        }
        breaker.succeeded();
        for failed in 5..=8 {
            assert_eq!(
                breaker.failed(&rules(), verdicts(91, failed), 1.0, &mut random),
                Step::Same
            );
        }
        let Step::Opened(cause, pause) =
            breaker.failed(&rules(), verdicts(91, 9), 1.0, &mut random)
        else {
            panic!("closed")
        };
        assert_eq!(cause, EjectionCause::Consecutive);
        assert!((0.5..1.5).contains(&pause));
    }

    #[test]
    fn under_half_of_ten_good_answers_open_it() {
        let (mut breaker, mut random) = (Breaker::new(), Random::new(1));
        assert_eq!(breaker.failed(&rules(), verdicts(5, 5), 1.0, &mut random), Step::Same);
        let step = breaker.failed(&rules(), verdicts(5, 6), 1.0, &mut random);
        assert!(matches!(step, Step::Opened(EjectionCause::SuccessRate, _)), "{step:?}");
    }

    #[test]
    fn two_good_probes_close_it_and_the_next_ejection_again_takes_five_failures() {
        let (mut breaker, mut random) = (open(), Random::new(2));
        breaker.probe_sent();
        assert_eq!(breaker.probe_succeeded(103.0), Step::ProbeSucceeded);
        assert_eq!(breaker.probe_at(), Some(103.0));
        breaker.probe_sent();
        assert_eq!(breaker.probe_succeeded(103.1), Step::Closed);
        for _ in 0..4 {
            assert_eq!(breaker.failed(&rules(), verdicts(0, 1), 104.0, &mut random), Step::Same);
        }
        assert!(matches!(
            breaker.failed(&rules(), verdicts(0, 1), 104.0, &mut random),
            Step::Opened(..)
        ));
    }

    #[test]
    fn each_failed_probe_doubles_the_pause_up_to_its_limit() {
        let (mut breaker, mut random) = (open(), Random::new(3));
        for backoff in [2.0, 4.0, 8.0, 15.0, 15.0] {
            breaker.probe_sent();
            assert_eq!(breaker.probe_at(), None);
            let Step::Opened(EjectionCause::ProbeFailed, pause) =
                breaker.probe_failed(&rules(), 200.0, &mut random)
            else {
                panic!("not open")
            };
            assert!((0.5..1.5).contains(&(pause / backoff)), "{pause} after {backoff}");
        }
    }

    #[test]
    fn answers_of_other_requests_do_not_touch_an_open_breaker() {
        let (mut breaker, mut random) = (open(), Random::new(4));
        let until = breaker.probe_at();
        breaker.succeeded();
        assert_eq!(breaker.failed(&rules(), verdicts(0, 9), 100.1, &mut random), Step::Same);
        assert_eq!(breaker.probe_at(), until);
    }
}
