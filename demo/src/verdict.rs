//! What the demo promises, as data, and whether a run kept it.

use serde::Serialize;

use crate::fault::{FAULTY_ZONE, Fault};
use crate::measure::{Figures, PhaseFigures, ZoneFigures};
use crate::policy::Policy;

/// A promise about one policy under some faults.
#[derive(Debug, Clone, Copy)]
struct Rule {
    policy: Policy,
    faults: Faults,
    measure: Measure,
    bound: Bound,
}

/// Faults that a rule is about.
#[derive(Debug, Clone, Copy)]
enum Faults {
    All,
    /// `fast`: 100 % fast 5xx.
    Fast,
    /// `slow`, `partial`, `crash` and `zone-down`.
    OtherFailures,
    Latency,
    Hang,
}

/// A figure that a rule is about; those of a zone are of the failing one's callers during the fault, or of the worse of the
/// others.
#[derive(Debug, Clone, Copy)]
enum Measure {
    Success,
    SuccessFirst5s,
    SuccessAfter10s,
    Completed,
    OthersSuccess,
    OthersSuccessAfter10s,
    MedianMsAfter5s,
    BaselineCrossZone,
    SecondsToLocal,
    Flaps,
}

/// The values that keep a rule.
#[derive(Debug, Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

/// Every promise. Pinning's are there to show that the fault was real.
const RULES: [Rule; 20] = {
    use Bound::{AtLeast, AtMost, Below};
    use Faults::{All, Fast, Hang, Latency, OtherFailures};
    use Measure::{
        BaselineCrossZone, Completed, Flaps, MedianMsAfter5s, OthersSuccess, OthersSuccessAfter10s,
        SecondsToLocal, Success, SuccessAfter10s, SuccessFirst5s,
    };
    const fn adaptive(faults: Faults, measure: Measure, bound: Bound) -> Rule {
        Rule { policy: Policy::Adaptive, faults, measure, bound }
    }
    const fn pinned(faults: Faults, measure: Measure, bound: Bound) -> Rule {
        Rule { policy: Policy::Pinned, faults, measure, bound }
    }
    [
        pinned(Fast, Success, Below(0.05)),
        pinned(Latency, MedianMsAfter5s, AtLeast(400.0)),
        adaptive(Fast, Success, AtLeast(0.999)),
        adaptive(Fast, SuccessFirst5s, AtLeast(0.99)),
        adaptive(Fast, Completed, AtLeast(0.97)),
        adaptive(Fast, OthersSuccess, AtLeast(0.999)),
        adaptive(OtherFailures, Success, AtLeast(0.995)),
        adaptive(OtherFailures, Completed, AtLeast(0.97)),
        adaptive(OtherFailures, OthersSuccess, AtLeast(0.995)),
        adaptive(Latency, Success, AtLeast(0.999)),
        adaptive(Latency, MedianMsAfter5s, AtMost(60.0)),
        adaptive(Latency, Completed, AtLeast(0.97)),
        adaptive(Latency, OthersSuccess, AtLeast(0.999)),
        adaptive(Hang, Success, AtLeast(0.97)),
        adaptive(Hang, SuccessAfter10s, AtLeast(0.995)),
        adaptive(Hang, OthersSuccess, AtLeast(0.97)),
        adaptive(Hang, OthersSuccessAfter10s, AtLeast(0.995)),
        adaptive(All, BaselineCrossZone, AtMost(0.01)),
        adaptive(All, SecondsToLocal, AtMost(30.0)),
        adaptive(All, Flaps, AtMost(0.0)),
    ]
};

/// Whether a run of a policy kept its promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Holds,
    Fails,
    /// Nothing is promised of this policy under this fault.
    NotJudged,
}

/// One rule beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Check {
    /// The figure in words.
    pub(crate) what: &'static str,
    /// The bound, as text.
    pub(crate) wanted: String,
    /// The figure, as text.
    pub(crate) measured: String,
    pub(crate) holds: bool,
}

/// The rules for one policy under one fault, judged.
pub(crate) fn checks(policy: Policy, fault: Fault, figures: &Figures) -> Vec<Check> {
    let apply = |rule: &&Rule| rule.policy == policy && rule.faults.include(fault);
    RULES.iter().filter(apply).map(|rule| rule.check(figures)).collect()
}

impl Verdict {
    /// All checks hold, one fails, or there are none.
    pub(crate) fn of(checks: &[Check]) -> Self {
        match checks {
            [] => Self::NotJudged,
            _ if checks.iter().all(|check| check.holds) => Self::Holds,
            _ => Self::Fails,
        }
    }
}

impl Faults {
    fn include(self, fault: Fault) -> bool {
        match self {
            Self::All => true,
            Self::Fast => fault == Fault::Fast,
            Self::OtherFailures => {
                matches!(fault, Fault::Slow | Fault::Partial(_) | Fault::Crash | Fault::ZoneDown)
            }
            Self::Latency => fault == Fault::Latency,
            Self::Hang => fault == Fault::Hang,
        }
    }
}

impl Rule {
    fn check(&self, figures: &Figures) -> Check {
        let measured = self.measure.of(figures);
        let bound = self.bound_for(figures);
        Check {
            what: self.measure.describe(),
            wanted: bound.describe(self.measure),
            measured: measured
                .map_or_else(|| "never".to_owned(), |value| self.measure.write(value)),
            holds: measured.is_some_and(|value| bound.admits(value)),
        }
    }
}

/// The fault of the default run, for which the bounds are.
const FAULT_SECONDS: f64 = 60.0;

impl Rule {
    /// What is lost in a fault is lost when it starts: a shorter one may lose as many requests, so a larger share.
    fn bound_for(&self, figures: &Figures) -> Bound {
        let fault = figures.phases.iter().find(|phase| phase.name == "fault");
        let seconds = fault.map_or(FAULT_SECONDS, |fault| f64::from(fault.seconds));
        match (self.measure, self.bound) {
            (Measure::Success | Measure::OthersSuccess, Bound::AtLeast(share)) => {
                Bound::AtLeast(1.0 - (1.0 - share) * FAULT_SECONDS / seconds)
            }
            (_, bound) => bound,
        }
    }
}

impl Measure {
    fn of(self, figures: &Figures) -> Option<f64> {
        let phase = |name: &str| figures.phases.iter().find(|phase| phase.name == name);
        let callers = |phase: &PhaseFigures| phase.zones.get(FAULTY_ZONE).copied();
        let fault: Option<ZoneFigures> = phase("fault").and_then(callers);
        let others = |success: fn(&ZoneFigures) -> Option<f64>| {
            let zones = phase("fault")?.zones.iter().filter(|(zone, _)| **zone != FAULTY_ZONE);
            zones
                .map(|(_, figures)| success(figures))
                .reduce(|one, other| Some(one?.min(other?)))?
        };
        match self {
            Self::Success => fault?.success,
            Self::SuccessFirst5s => fault?.success_first_5s,
            Self::SuccessAfter10s => fault?.success_after_10s,
            Self::Completed => fault?.completed,
            Self::OthersSuccess => others(|zone| zone.success),
            Self::OthersSuccessAfter10s => others(|zone| zone.success_after_10s),
            Self::MedianMsAfter5s => fault?.p50_after_5s_ms,
            Self::BaselineCrossZone => phase("baseline")?.cross_zone,
            Self::SecondsToLocal => figures.seconds_to_local.map(f64::from),
            Self::Flaps => Some(f64::from(figures.flaps)),
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Success => "success of zone a's callers in the fault",
            Self::SuccessFirst5s => "the same in its first 5 s",
            Self::SuccessAfter10s => "the same after its first 10 s",
            Self::Completed => "answered of what they offered",
            Self::OthersSuccess => "success of the other zones' callers in the fault",
            Self::OthersSuccessAfter10s => "the same of the other zones after 10 s",
            Self::MedianMsAfter5s => "their median latency from 5 s into the fault",
            Self::BaselineCrossZone => "cross-zone share in the baseline",
            Self::SecondsToLocal => "zone a back to > 99 % local after the heal",
            Self::Flaps => "times it crossed again after that",
        }
    }

    fn write(self, value: f64) -> String {
        match self {
            Self::MedianMsAfter5s => format!("{value:.0} ms"),
            Self::SecondsToLocal => format!("{value:.0} s"),
            Self::Flaps => format!("{value:.0}"),
            _ => percent(value),
        }
    }
}

/// A share as a percentage that does not round up to a bound it misses.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits =
        if percent > 99.0 && percent < 100.0 || percent > 0.0 && percent < 1.0 { 2 } else { 1 };
    let scale = 10_f64.powi(digits);
    let text =
        format!("{:.*}", usize::from(digits == 2) + 1, (percent * scale + 1e-9).floor() / scale);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} %")
}

impl Bound {
    fn admits(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::Below(bound) => value < bound,
        }
    }

    fn describe(self, measure: Measure) -> String {
        match self {
            Self::AtLeast(bound) => format!("≥ {}", measure.write(bound)),
            Self::AtMost(bound) if bound <= 0.0 => measure.write(bound),
            Self::AtMost(bound) => format!("≤ {}", measure.write(bound)),
            Self::Below(bound) => format!("< {}", measure.write(bound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::figures;
    use crate::measure::tests::record;
    use crate::timeline::Timeline;

    /// Judges a made-up run in which zone a's callers have this success and crossing in the fault.
    fn judge(
        policy: Policy,
        fault: Fault,
        success: f64,
        heal_seconds: u32,
    ) -> (Verdict, Vec<Check>) {
        let timeline = Timeline::FULL;
        let record = record(policy, &timeline, |zone, at| match at {
            30..90 if zone == "a" => (success, 0.9),
            90.. if zone == "a" && at < 90 + heal_seconds => (1.0, 0.3),
            _ => (1.0, 0.0),
        });
        let checks = checks(policy, fault, &figures(&record, &timeline));
        (Verdict::of(&checks), checks)
    }

    #[test]
    fn adaptive_must_keep_its_success_and_return() {
        let check = |fault: &str, success: f64, heal_seconds: u32, wanted: Verdict| {
            let (verdict, checks) =
                judge(Policy::Adaptive, fault.parse().unwrap(), success, heal_seconds);
            assert_eq!(verdict, wanted, "{fault} {success} {heal_seconds}: {checks:#?}");
        };
        for fault in ["fast", "slow", "partial:50", "crash", "zone-down", "latency", "hang"] {
            check(fault, 1.0, 10, Verdict::Holds);
            check(fault, 1.0, 33, Verdict::Fails);
            check(fault, 0.9, 10, Verdict::Fails);
        }
        check("fast", 0.99, 10, Verdict::Fails);
    }

    #[test]
    fn callers_of_healthy_zones_must_not_pay_for_the_fault() {
        let timeline = Timeline::FULL;
        let check = |fault: &str, lost: f64, wanted: &[&str]| {
            let record = record(Policy::Adaptive, &timeline, |zone, at| match at {
                30..90 if zone == "c" => (1.0 - lost, 0.0),
                _ => (1.0, 0.0),
            });
            let checks =
                checks(Policy::Adaptive, fault.parse().unwrap(), &figures(&record, &timeline));
            let missed: Vec<_> =
                checks.iter().filter(|check| !check.holds).map(|check| check.what).collect();
            assert_eq!(missed, wanted, "{fault} {lost}");
        };
        let (over, after) = (
            "success of the other zones' callers in the fault",
            "the same of the other zones after 10 s",
        );
        for fault in ["fast", "slow", "partial:50", "crash", "zone-down", "latency", "hang"] {
            check(fault, 0.0, &[]);
        }
        for fault in ["fast", "slow", "latency"] {
            check(fault, 0.01, &[over]);
        }
        check("hang", 0.01, &[after]);
        check("hang", 0.05, &[over, after]);
    }

    #[test]
    fn pinning_must_fail_when_its_zone_does() {
        assert_eq!(judge(Policy::Pinned, Fault::Fast, 0.0, 0).0, Verdict::Holds);
        assert_eq!(judge(Policy::Pinned, Fault::Fast, 0.5, 0).0, Verdict::Fails);
        assert_eq!(judge(Policy::Pinned, Fault::Crash, 0.5, 0).0, Verdict::NotJudged);
        assert_eq!(judge(Policy::P2c, Fault::Fast, 0.5, 0).0, Verdict::NotJudged);
    }

    #[test]
    fn a_failed_check_says_what_was_wanted_and_what_was_seen() {
        let (_, checks) = judge(Policy::Adaptive, Fault::Fast, 0.98, 40);
        let failed: Vec<_> = checks
            .iter()
            .filter(|check| !check.holds)
            .map(|check| (check.wanted.as_str(), check.measured.as_str()))
            .collect();
        assert_eq!(failed, [("≥ 99.9 %", "98 %"), ("≥ 99 %", "98 %"), ("≤ 30 s", "never")]);
    }

    #[test]
    fn a_shorter_fault_may_lose_as_many_requests() {
        let timeline = Timeline::QUICK;
        let judge = |lost_seconds: u32| {
            let record = record(Policy::Adaptive, &timeline, |_, at| {
                let lost = (timeline.fault..timeline.fault + lost_seconds).contains(&at);
                (if lost { 0.98 } else { 1.0 }, 0.0)
            });
            let checks = checks(Policy::Adaptive, Fault::Fast, &figures(&record, &timeline));
            let success = checks.into_iter().next().unwrap();
            (success.wanted, success.measured, success.holds)
        };
        assert_eq!(judge(2), ("≥ 99.7 %".to_owned(), "99.8 %".to_owned(), true));
        assert_eq!(judge(4), ("≥ 99.7 %".to_owned(), "99.6 %".to_owned(), false));
    }

    #[test]
    fn a_share_is_never_rounded_up_to_its_bound() {
        let cases = [
            (1.0, "100 %"),
            (0.999, "99.9 %"),
            (0.998_99, "99.89 %"),
            (0.999_99, "99.99 %"),
            (0.9, "90 %"),
            (0.333_3, "33.3 %"),
            (0.001_23, "0.12 %"),
            (0.0, "0 %"),
        ];
        for (share, wanted) in cases {
            assert_eq!(percent(share), wanted);
        }
    }
}
