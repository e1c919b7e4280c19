//! The uncongested local latency `R0`, the measure of load, and the load that follows from it.
//!
//! By Little's law `rate × R0` requests are outstanding when nothing queues. Load is what is really outstanding over that.

use crate::group::Reading;
use crate::number::{left_after, sqrt};

/// Shortest and longest load window, in seconds.
const WINDOW_MIN: f64 = 5.0;
const WINDOW_MAX: f64 = 60.0;
/// Confidence of the lower bound, in standard deviations.
const CONFIDENCE: f64 = 2.5;
/// Closing needs no such confidence: a load this many standard deviations above the band may well be below it. Without the
/// doubt, callers whose few requests leave load noisier than the band is wide stay open for half a minute.
const DOUBT: f64 = 0.5;
/// Fewest requests in the window that a load is read from.
const REQUESTS_MIN: f64 = 0.2;
/// The baseline stays above, in seconds, so that nothing divides by zero.
const LATENCY_MIN: f64 = 1e-6;
/// Remote answers are the first estimate only where they are clearly faster. The smaller of two noisy means would begin
/// too low.
const FASTER: f64 = 0.8;
/// The first estimate is at least this part of the local mean: remote servers may be faster ones.
const FIRST_MIN: f64 = 0.25;
/// For so many seconds the baseline is young: it learns as fast as it ages, and not above what remote answers allow.
const YOUTH: f64 = 60.0;
/// Time constants of learning, in seconds: when remote was found to be as slow, down, and up.
const TAU_PROVEN: f64 = 10.0;
const TAU_DOWN: f64 = 60.0;
const TAU_UP: f64 = 600.0;
/// With so many answers in the window, a caller that sends nothing elsewhere learns upwards half as fast.
const ANSWERS_CLEAR: f64 = 100.0;
/// How many standard errors above the mean of remote answers a young baseline may lie.
const ANCHOR_ERRORS: f64 = 2.0;
/// Fewer remote answers are no anchor.
const ANCHOR_ANSWERS: f64 = 3.0;
/// The least squared coefficient of variation that a standard error is computed from.
const VARIATION_MIN: f64 = 0.1;
/// What a congested answer may add to the second moment of latency.
const RATIO_MAX: f64 = 30.0;

#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    /// Uncongested latency in seconds, once known.
    pub(crate) latency: Option<f64>,
    /// Second moment of `latency / R0`: how noisy load is.
    pub(crate) second_moment: f64,
    /// When the first request left.
    pub(crate) first: Option<f64>,
    /// The mean of remote answers at the time when there were the most of them.
    pub(crate) anchor: Option<Anchor>,
}

/// Remote latency, as far as it is known. A young caller has no other measure of what is not congested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    latency: f64,
    answers: f64,
}

/// What the baseline needs to know of the valve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Openness {
    pub(crate) share: f64,
    pub(crate) open: bool,
    pub(crate) proven: bool,
}

/// Load, as an estimate and as the two sides of a decision need it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    pub(crate) mean: f64,
    /// Lower confidence bound: above the band only if load surely is.
    pub(crate) lower: f64,
    /// With the benefit of the doubt: below the band if load may well be.
    pub(crate) doubted: f64,
}

impl Baseline {
    pub(crate) fn new() -> Self {
        Self { latency: None, second_moment: 2.0, first: None, anchor: None }
    }

    /// The load window in seconds: never shorter than one service time.
    pub(crate) fn window(&self) -> f64 {
        self.latency.unwrap_or(0.0).clamp(WINDOW_MIN, WINDOW_MAX)
    }

    /// How long a drop of the valve needs to show in latencies.
    pub(crate) fn settle(&self) -> f64 {
        (1.5 * self.latency.unwrap_or(0.0)).clamp(2.0, 6.0)
    }

    /// How long a request without headers counts for load, and how long a probe may take.
    /// While the baseline is unknown, slow answers are what it must be learnt from: cutting them short would have a service
    /// of 20 s begin with a baseline of 1 s, and cross for ever.
    pub(crate) fn age_limit(&self) -> f64 {
        self.latency.map_or(WINDOW_MAX, |baseline| (20.0 * baseline).max(1.0))
    }

    /// How long a caller must have waited for its giving up to be the endpoint's failure.
    pub(crate) fn stall_limit(&self) -> f64 {
        (5.0 * self.latency.unwrap_or(0.0)).max(0.25)
    }

    pub(crate) fn dispatched(&mut self, now: f64) {
        self.first.get_or_insert(now);
    }

    /// A good local answer.
    pub(crate) fn answered(&mut self, latency: f64) {
        if let Some(baseline) = self.latency {
            let ratio = (latency / baseline).min(RATIO_MAX);
            self.second_moment += 0.003 * (ratio * ratio - self.second_moment);
        }
    }

    /// Load of the local side.
    pub(crate) fn load(&self, local: &Reading) -> Load {
        let Some(baseline) = self.latency else {
            return Load { mean: 1.0, lower: 1.0, doubted: 1.0 };
        };
        let window = self.window();
        let mean = local.load / (local.rate.max(REQUESTS_MIN / window) * baseline);
        let deviation = sqrt(self.second_moment / (local.rate * window).max(REQUESTS_MIN));
        Load { mean, lower: mean - CONFIDENCE * deviation, doubted: mean - DOUBT * deviation }
    }

    /// Keeps the best look at remote latency.
    fn look_at(&mut self, remote: &Reading) {
        let answers = remote.answers;
        if answers >= self.anchor.map_or(ANCHOR_ANSWERS, |anchor| anchor.answers) {
            self.anchor = remote.latency.map(|latency| Anchor { latency, answers });
        }
    }

    /// The highest latency that remote answers allow to call uncongested.
    fn ceiling(&self) -> f64 {
        self.anchor.map_or(f64::INFINITY, |Anchor { latency, answers }| {
            let variation = (self.second_moment - 1.0).max(VARIATION_MIN);
            latency * (1.0 + ANCHOR_ERRORS * sqrt(variation / answers))
        })
    }

    /// Learns from the last window. `elapsed`: seconds since the last tick.
    pub(crate) fn tick(
        &mut self,
        local: &Reading,
        remote: &Reading,
        valve: Openness,
        (elapsed, now): (f64, f64),
    ) {
        let (Some(latency), Some(first)) = (local.latency, self.first) else { return };
        let latency = latency.max(LATENCY_MIN);
        self.look_at(remote);
        if local.answers < 3.0 {
            return;
        }
        let Some(baseline) = self.latency else {
            if now - first > (4.0 * latency).max(3.0) {
                self.latency = Some(born(latency, remote));
            }
            return;
        };
        let mut target = latency;
        let mut tau: f64 = match () {
            () if valve.proven => TAU_PROVEN,
            () if latency < baseline => TAU_DOWN,
            // Others may be relieving the zone. The less noise there is, the less need to follow it.
            () if valve.share >= 1.0 => TAU_UP * (1.0 + local.answers / ANSWERS_CLEAR),
            () => TAU_UP,
        };
        if latency > baseline && valve.share < 1.0 && !valve.proven {
            // While spilling it may rise only up to the remote latency: a lasting overload must not become the norm.
            target = match remote.latency {
                Some(remote_latency) if remote.answers >= 5.0 => {
                    (remote_latency - 0.001).max(baseline).min(latency)
                }
                _ => baseline,
            };
        }
        let age = now - first;
        if age < YOUTH && valve.share >= 1.0 {
            // A caller that was born into an overload, and sees others relieve it, must not take the rest for normal.
            target = target.min(self.ceiling());
        }
        if age < YOUTH && !valve.open {
            tau = tau.min(age / 2.0);
        }
        let weight = local.answers / (local.answers + 5.0);
        self.latency =
            Some(baseline + (target - baseline) * weight * (1.0 - left_after(elapsed, tau)));
    }
}

/// The first estimate. Remote answers tell a caller that it was born into an overload.
fn born(latency: f64, remote: &Reading) -> f64 {
    match remote.latency {
        Some(remote_latency)
            if remote.answers >= ANCHOR_ANSWERS && remote_latency < FASTER * latency =>
        {
            (remote_latency - 0.001).max(FIRST_MIN * latency)
        }
        _ => latency,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Openness = Openness { share: 1.0, open: false, proven: false };

    fn window(latency: f64, answers: f64) -> Reading {
        Reading { latency: Some(latency), answers, ..Reading::default() }
    }

    fn known(latency: f64) -> Baseline {
        Baseline { latency: Some(latency), first: Some(0.0), ..Baseline::new() }
    }

    #[test]
    fn load_is_outstanding_over_what_would_be_outstanding_without_a_queue() {
        let load = known(0.05).load(&Reading { load: 10.0, rate: 100.0, ..Reading::default() });
        assert!((load.mean - 2.0).abs() < 1e-12, "{load:?}");
        assert!((load.lower - (2.0 - 2.5 * (2.0_f64 / 500.0).sqrt())).abs() < 1e-12, "{load:?}");
    }

    #[test]
    fn a_caller_born_into_an_overload_takes_the_remote_latency() {
        let mut baseline = Baseline { first: Some(0.0), ..Baseline::new() };
        baseline.tick(&window(0.200, 50.0), &window(0.141, 5.0), CALM, (1.0, 4.0));
        assert!((baseline.latency.unwrap() - 0.140).abs() < 1e-12);
    }

    #[test]
    fn it_does_not_learn_an_overload_while_spilling() {
        let mut baseline = known(0.05);
        let spilling = Openness { share: 0.5, open: true, proven: false };
        baseline.tick(&window(0.5, 1000.0), &window(0.0, 0.0), spilling, (1.0, 1000.0));
        assert_eq!(baseline.latency, Some(0.05));
        baseline.tick(&window(0.5, 1000.0), &window(0.051, 50.0), spilling, (600.0, 2000.0));
        assert!(baseline.latency.unwrap() <= 0.0501, "{baseline:?}");
    }

    #[test]
    fn a_young_caller_learns_as_fast_as_it_ages_and_not_above_what_remote_answers_allow() {
        let mut baseline = Baseline { first: Some(0.0), ..known(0.05) };
        baseline.tick(&window(0.1, 1e9), &window(0.06, 100.0), CALM, (1.0, 10.0));
        for second in 11..59 {
            let now = f64::from(second);
            baseline.tick(&window(0.1, 1e9), &window(0.0, 0.0), CALM, (1.0, now));
        }
        let learnt = baseline.latency.unwrap();
        assert!((0.071..0.0721).contains(&learnt), "60 ms and two tenths, not {learnt}");
        baseline.tick(&window(0.1, 10.0), &window(0.0, 0.0), CALM, (660.0, 720.0));
        assert!(baseline.latency.unwrap() > 0.08, "grown up, it trusts what lasts: {baseline:?}");
    }

    #[test]
    fn a_young_caller_that_began_too_low_learns_it_while_remote_answers_tell() {
        let mut baseline = Baseline { first: Some(0.0), ..known(0.03) };
        let half_open = Openness { share: 0.8, open: false, proven: false };
        for second in 10..40 {
            let now = f64::from(second);
            baseline.tick(&window(0.05, 100.0), &window(0.051, 20.0), half_open, (1.0, now));
        }
        assert!(baseline.latency.unwrap() > 0.045, "{baseline:?}");
    }

    #[test]
    fn it_falls_faster_than_it_rises() {
        let moved = |latency, answers| {
            let mut baseline = known(0.1);
            baseline.tick(&window(latency, answers), &window(0.0, 0.0), CALM, (1.0, 1000.0));
            (baseline.latency.unwrap() - 0.1).abs()
        };
        let few = moved(0.05, 5.0) / moved(0.15, 5.0);
        assert!((few - 10.4).abs() < 0.2, "{few} times as fast with few answers");
        let many = moved(0.05, 100.0) / moved(0.15, 100.0);
        assert!((many - 19.8).abs() < 0.3, "{many} times as fast with many");
    }

    #[test]
    fn too_few_answers_teach_nothing() {
        let mut baseline = known(0.05);
        baseline.tick(&window(0.01, 2.9), &window(0.0, 0.0), CALM, (1.0, 1000.0));
        assert_eq!(baseline.latency, Some(0.05));
    }

    fn reading(answers: f64, latency: f64) -> Reading {
        Reading { answers, latency: Some(latency), ..Reading::default() }
    }

    proptest::proptest! {
        /// All times longer by a factor and all rates lower by it: the same load, inside the clamps of the window.
        #[test]
        fn load_has_no_unit_of_time(
            baseline in 5.0..10.0_f64, load in 0.1..50.0_f64, rate in 0.5..50.0_f64, factor in 1.0..6.0_f64,
        ) {
            let of = |factor: f64| {
                let baseline = Baseline { latency: Some(baseline * factor), ..Baseline::new() };
                baseline.load(&Reading { load, rate: rate / factor, ..Reading::default() })
            };
            let (one, other) = (of(1.0), of(factor));
            proptest::prop_assert!((one.mean - other.mean).abs() < 1e-9 * one.mean.max(1.0));
            proptest::prop_assert!((one.lower - other.lower).abs() < 1e-9 * one.mean.max(1.0));
        }

        /// A part of the stream has the same load, and is less sure of it.
        #[test]
        fn a_thinner_stream_is_less_sure(load in 0.1..50.0_f64, rate in 0.5..50.0_f64, part in 0.1..1.0_f64) {
            let baseline = Baseline { latency: Some(0.05), ..Baseline::new() };
            let of = |part: f64| baseline.load(&Reading { load: load * part, rate: rate * part, ..Reading::default() });
            let (whole, thin) = (of(1.0), of(part));
            proptest::prop_assert!((whole.mean - thin.mean).abs() < 1e-9 * whole.mean.max(1.0));
            proptest::prop_assert!(thin.lower <= whole.lower + 1e-9);
        }

        /// Once known it stays positive and between what was seen: local means, and remote ones as anchors.
        #[test]
        fn it_stays_inside_what_was_seen(
            steps in proptest::collection::vec(
                (0.001..2.0_f64, 0.001..2.0_f64, 3.0..500.0_f64, 0.0..50.0_f64, proptest::bool::ANY, 0.01..1.0_f64), 1..80),
        ) {
            let mut baseline = Baseline { first: Some(-100.0), ..Baseline::new() };
            let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
            let mut now = 0.0;
            for (local, remote, answers, remote_answers, proven, share) in steps {
                now += 1.0;
                // the remote anchor is a millisecond shorter, and at birth not below a quarter of the local mean
                least = least.min(local).min((remote - 0.001).max(local / 4.0));
                most = most.max(local);
                let before = baseline.latency;
                let valve = Openness { share, open: true, proven };
                baseline.tick(&reading(answers, local), &reading(remote_answers, remote), valve, (1.0, now));
                let Some(latency) = baseline.latency else { continue };
                proptest::prop_assert!(latency > 0.0 && latency >= least - 1e-12 && latency <= most + 1e-12);
                if let Some(before) = before && !proven && share < 1.0 {
                    let ceiling = if remote_answers >= 5.0 { remote } else { before };
                    proptest::prop_assert!(latency <= ceiling.max(before), "learnt an overload: {before} {latency}");
                }
            }
        }
    }
}
