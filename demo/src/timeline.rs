//! When things happen, in seconds from the start of the load.
//!
//! ```text
//! 0        warm-up ends      fault              heal          end
//! ├─ warm-up ──┼── baseline ──┼───── fault ─────┼── recovery ──┤
//! ```

/// The plan of a run, in whole seconds from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Measuring starts: the balancers know their baseline.
    pub(crate) baseline: u32,
    /// Zone a starts to fail.
    pub(crate) fault: u32,
    /// Zone a is healed.
    pub(crate) heal: u32,
    /// The load ends.
    pub(crate) end: u32,
}

/// A measured part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Phase {
    /// `baseline`, `fault` or `recovery`.
    pub(crate) name: &'static str,
    /// First second.
    pub(crate) from: u32,
    /// Second at which it is over.
    pub(crate) to: u32,
}

impl Timeline {
    /// Warm-up and baseline 30 s, fault 60 s, recovery 40 s.
    pub(crate) const FULL: Self = Self { baseline: 15, fault: 30, heal: 90, end: 130 };
    /// A first look: 20 s, 20 s, 35 s.
    pub(crate) const QUICK: Self = Self { baseline: 12, fault: 20, heal: 40, end: 75 };

    /// The measured phases, in order.
    pub(crate) fn phases(&self) -> [Phase; 3] {
        [
            Phase { name: "baseline", from: self.baseline, to: self.fault },
            Phase { name: "fault", from: self.fault, to: self.heal },
            Phase { name: "recovery", from: self.heal, to: self.end },
        ]
    }

    /// The name of what goes on at a second, for the live view.
    pub(crate) fn name_at(&self, second: u32) -> &'static str {
        match second {
            _ if second < self.baseline => "warm-up",
            _ if second < self.fault => "baseline",
            _ if second < self.heal => "fault",
            _ => "recovery",
        }
    }
}

impl Phase {
    /// Its length.
    pub(crate) fn seconds(&self) -> u32 {
        self.to - self.from
    }

    /// The part of it from `skip` seconds after its start on, and `length` seconds of that at most.
    pub(crate) fn part(&self, skip: u32, length: u32) -> Self {
        let from = self.from.saturating_add(skip).min(self.to);
        Self { name: self.name, from, to: from.saturating_add(length).min(self.to) }
    }

    /// Whether a moment lies in it.
    pub(crate) fn contains(&self, seconds: f64) -> bool {
        seconds >= f64::from(self.from) && seconds < f64::from(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_one_another_after_the_warm_up() {
        for timeline in [Timeline::FULL, Timeline::QUICK] {
            let [baseline, fault, recovery] = timeline.phases();
            assert!(baseline.from > 0 && baseline.seconds() >= 8);
            assert_eq!(
                (baseline.to, fault.to, recovery.to),
                (fault.from, recovery.from, timeline.end)
            );
        }
        let lengths = |timeline: Timeline| {
            (timeline.fault, timeline.heal - timeline.fault, timeline.end - timeline.heal)
        };
        assert_eq!(lengths(Timeline::FULL), (30, 60, 40));
        assert_eq!(lengths(Timeline::QUICK), (20, 20, 35));
    }

    #[test]
    fn a_moment_belongs_to_one_phase() {
        let phases = Timeline::FULL.phases();
        let at = |seconds: f64| {
            phases
                .iter()
                .filter(|phase| phase.contains(seconds))
                .map(|phase| phase.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(at(14.99), Vec::<&str>::new());
        assert_eq!(at(15.0), ["baseline"]);
        assert_eq!(at(30.0), ["fault"]);
        assert_eq!(at(129.99), ["recovery"]);
        assert_eq!(at(130.0), Vec::<&str>::new());
        assert_eq!(Timeline::FULL.name_at(3), "warm-up");
        assert_eq!(Timeline::FULL.name_at(90), "recovery");
    }

    #[test]
    fn parts_stay_inside_their_phase() {
        let fault = Timeline::QUICK.phases()[1];
        assert_eq!((fault.part(0, 5).from, fault.part(0, 5).to), (20, 25));
        assert_eq!((fault.part(10, u32::MAX).from, fault.part(10, u32::MAX).to), (30, 40));
        assert_eq!(fault.part(50, 5).seconds(), 0);
    }
}
