//! Requests that pile up unanswered: an alarm on suspicion, seconds before the first slow answer returns. It may be false:
//! machines stand still for a moment, and what happened then is made up for in a rush.
//!
//! ```text
//!          many more wait than usual,              acquitted: answers come again, and faster than
//!          and for long: share × 0.4               requests came before; the share is as before
//!   calm ─────────────────────────────▶ alarm ──────────────────────────────────────────────▶ calm
//!                                         └──── a drop for load, or the share rose by itself ──▶ calm
//! ```
//!
//! While an alarm is on, the other zones are trusted only when one of their endpoints has answered in time.

use crate::baseline::Baseline;
use crate::number::sqrt;

/// So many waiting requests, on top of three times what is usual, are no pile yet; a pause is the time in which so many
/// usually come.
const PILE_MIN: f64 = 8.0;
/// A pile has waited for more than so many times the usual latency, and so long is a pause between answers at least.
const LATE: f64 = 3.0;
/// After a pause, a rush is given as long as the pause was, but at most so many times the usual latency.
const RUSH_MAX: f64 = 8.0;

/// What waits on the local side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pile {
    pub(crate) outstanding: u32,
    pub(crate) rate: f64,
    /// When the oldest of them was dispatched.
    pub(crate) oldest: f64,
}

impl Pile {
    /// Whether many more wait than usual.
    fn is_high(&self, baseline: &Baseline, latency: f64) -> bool {
        let usual = self.rate * latency;
        let limit = 3.0 * (usual + sqrt(usual * baseline.second_moment)) + PILE_MIN;
        f64::from(self.outstanding) > limit
    }

    /// Whether it could have come about at the usual rate. Requests that came all at once say nothing of the endpoints.
    fn took_its_time(&self, latency: f64, now: f64) -> bool {
        let age = now - self.oldest;
        let grown = f64::from(self.outstanding) - self.rate * latency;
        age > LATE * latency && 2.0 * self.rate * age >= grown
    }
}

/// Watches local requests come and answers return. Where none did for a while and then they do again, someone stood still:
/// the caller, its proxy, the endpoints or the whole machine. What waits then is a backlog.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    dispatched: f64,
    answered: f64,
    rush_until: f64,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { dispatched: f64::INFINITY, answered: f64::INFINITY, rush_until: f64::NEG_INFINITY }
    }

    /// A local request left, and waits with others.
    pub(crate) fn dispatched(
        &mut self,
        baseline: &Baseline,
        (rate, waiting): (f64, u32),
        now: f64,
    ) {
        let pause = now - self.dispatched;
        self.dispatched = now;
        if pause * rate > PILE_MIN {
            let latency = baseline.latency.unwrap_or(0.0);
            let before = Pile { outstanding: waiting.saturating_sub(1), rate, oldest: now };
            // Whoever sends in bursts pauses between them; what waited through a pause is a pile all the same.
            if !before.is_high(baseline, latency) {
                self.rush(pause, latency, now);
            }
        }
    }

    /// A good local answer.
    pub(crate) fn answered(&mut self, baseline: &Baseline, rate: f64, now: f64) {
        let pause = now - self.answered;
        self.answered = now;
        if pause * rate > PILE_MIN {
            let latency = baseline.latency.unwrap_or(0.0);
            if pause > LATE * latency {
                self.rush(pause, latency, now);
            }
        }
    }

    fn rush(&mut self, pause: f64, latency: f64, now: f64) {
        self.rush_until = now + pause.min(RUSH_MAX * latency);
    }

    /// Whether requests pile up because they are not answered.
    pub(crate) fn is_surge(&self, baseline: &Baseline, pile: &Pile, now: f64) -> bool {
        let Some(latency) = baseline.latency else { return false };
        pile.is_high(baseline, latency)
            && pile.took_its_time(latency, now)
            && now >= self.rush_until
    }

    /// Whether nothing is answered at all. Where answers come, only not fast enough, there is no doubt.
    pub(crate) fn is_silent(&self, rate: f64, now: f64) -> bool {
        (now - self.answered) * rate > PILE_MIN
    }
}

/// An alarm that is neither confirmed nor acquitted yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    /// The share before.
    pub(crate) share: f64,
    /// Local requests a second before.
    rate: f64,
    /// By how much local answers outnumber the requests that would have come at that rate.
    surplus: f64,
    /// When the last of them came.
    answered: f64,
    /// A remote endpoint has answered in time since.
    remote_answers: bool,
}

impl Alarm {
    pub(crate) fn new(share: f64, rate: f64) -> Self {
        Self { share, rate, surplus: 0.0, answered: f64::NEG_INFINITY, remote_answers: false }
    }

    /// A good local answer. True when the alarm was false: what had piled up is being worked off. Slow endpoints answer less
    /// than they are asked.
    pub(crate) fn answered(&mut self, baseline: &Baseline, now: f64) -> bool {
        let usual = self.rate * baseline.latency.unwrap_or(0.0);
        self.surplus = (self.surplus - (now - self.answered) * self.rate).max(0.0) + 1.0;
        self.answered = now;
        self.surplus > PILE_MIN + sqrt(usual)
    }

    /// A good remote answer.
    pub(crate) fn remote_answered(&mut self, latency: f64, baseline: &Baseline) {
        self.remote_answers |= latency < LATE * baseline.latency.unwrap_or(0.0);
    }

    /// Whether remote endpoints may be as silent as the local ones. As many requests as usually wait are enough to find out.
    pub(crate) fn doubts_remote(&self, waiting: u32, baseline: &Baseline) -> bool {
        let usual = self.rate * baseline.latency.unwrap_or(0.0);
        !self.remote_answers && f64::from(waiting) > 1.0 + usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 requests a second of 50 ms: 5 wait usually, 32.5 are the limit of a pile.
    const RATE: f64 = 100.0;

    fn baseline() -> Baseline {
        Baseline { latency: Some(0.05), ..Baseline::new() }
    }

    fn pile(outstanding: u32, oldest: f64) -> Pile {
        Pile { outstanding, rate: RATE, oldest }
    }

    #[test]
    fn a_pile_is_high_and_old_and_came_at_the_usual_rate() {
        let watch = Watch::new();
        let is_surge =
            |outstanding, oldest| watch.is_surge(&baseline(), &pile(outstanding, oldest), 10.0);
        assert!(is_surge(33, 9.8));
        assert!(!is_surge(32, 9.8), "not high");
        assert!(!is_surge(33, 9.86), "not old");
        assert!(!is_surge(60, 9.8), "so many do not come in 0.2 s");
    }

    #[test]
    fn what_comes_in_a_rush_after_a_pause_is_no_pile() {
        let surge_at =
            |watch: &Watch, now: f64| watch.is_surge(&baseline(), &pile(33, now - 0.5), now);
        let mut watch = Watch::new();
        watch.dispatched(&baseline(), (RATE, 5), 10.0);
        watch.dispatched(&baseline(), (RATE, 5), 10.3);
        assert!(!surge_at(&watch, 10.59) && surge_at(&watch, 10.61), "as long as the pause");
        watch.dispatched(&baseline(), (RATE, 5), 19.0);
        assert!(!surge_at(&watch, 19.39) && surge_at(&watch, 19.41), "eight latencies at most");
        watch.dispatched(&baseline(), (RATE, 5), 19.07);
        assert!(surge_at(&watch, 19.41), "seven requests' time is no pause");
        watch.dispatched(&baseline(), (RATE, 40), 20.0);
        assert!(surge_at(&watch, 20.01), "39 had waited through the pause");
    }

    #[test]
    fn answers_after_a_pause_let_a_backlog_be_worked_off() {
        let mut watch = Watch::new();
        watch.answered(&baseline(), RATE, 10.0);
        watch.answered(&baseline(), RATE, 10.14);
        assert!(watch.is_surge(&baseline(), &pile(33, 9.8), 10.15), "three latencies are no pause");
        watch.answered(&baseline(), RATE, 10.34);
        assert!(!watch.is_surge(&baseline(), &pile(33, 9.8), 10.5));
        assert!(watch.is_surge(&baseline(), &pile(33, 9.8), 10.55));
    }

    #[test]
    fn an_alarm_is_acquitted_when_answers_outnumber_requests() {
        let answers = |count: u32, gap: f64| {
            let mut alarm = Alarm::new(1.0, RATE);
            (1..=count)
                .position(|number| alarm.answered(&baseline(), 10.0 + f64::from(number) * gap))
        };
        assert_eq!(answers(1_000, 0.0), Some(10), "eight, and the root of the usual five");
        assert_eq!(answers(1_000, 0.005), Some(19), "twice as many as requests");
        assert_eq!(answers(1_000, 0.01), None, "as many");
        assert_eq!(answers(1_000, 0.1), None, "few");
    }

    #[test]
    fn other_zones_are_in_doubt_until_one_answers_in_time() {
        let mut alarm = Alarm::new(1.0, RATE);
        let doubts =
            |alarm: &Alarm| [6, 7].map(|waiting| alarm.doubts_remote(waiting, &baseline()));
        assert_eq!(doubts(&alarm), [false, true]);
        alarm.remote_answered(0.2, &baseline());
        assert_eq!(doubts(&alarm), [false, true], "late");
        alarm.remote_answered(0.1, &baseline());
        assert_eq!(doubts(&alarm), [false, false]);
    }
}
