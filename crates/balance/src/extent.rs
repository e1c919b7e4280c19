//! How large the local side is when it is whole. A zone that was lost and comes back endpoint by endpoint can bear as much of
//! its callers as it has of its endpoints: those that are still missing are lost capacity, like ejected ones.

use crate::number::left_after;

/// Time constant in which a zone that stays smaller becomes the new whole, in seconds.
const MEMORY: f64 = 60.0;
/// Missing less than this, a zone is whole again.
const MISSING_MIN: f64 = 0.5;

#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// Endpoints when it was whole.
    whole: f64,
    at: f64,
    /// Whether there was no endpoint at all at a moment since.
    lost: bool,
}

impl Extent {
    pub(crate) fn new() -> Self {
        Self { whole: 0.0, at: f64::NEG_INFINITY, lost: false }
    }

    /// Another tier is local now: nothing is known of its size.
    pub(crate) fn forget(&mut self) {
        *self = Self::new();
    }

    /// The number of local endpoints changed. A lost zone keeps its size until it comes back.
    pub(crate) fn changed(&mut self, before: u32, after: u32, now: f64) {
        self.pass(before, now);
        self.whole = self.whole.max(f64::from(after));
        self.lost |= before > 0 && after == 0;
        self.settle(after);
    }

    /// Time passed with so many endpoints.
    pub(crate) fn pass(&mut self, present: u32, now: f64) {
        if present > 0 {
            let there = f64::from(present);
            let missing = (self.whole - there).max(0.0);
            self.whole = there + missing * left_after(now - self.at, MEMORY);
        }
        self.settle(present);
        self.at = self.at.max(now);
    }

    fn settle(&mut self, present: u32) {
        self.lost &= self.whole - f64::from(present) >= MISSING_MIN;
    }

    /// How many endpoints the callers of the zone are used to, of which `present` are there.
    pub(crate) fn expected(&self, present: u32) -> f64 {
        let present = f64::from(present);
        if self.lost { self.whole.max(present) } else { present }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(extent: &Extent, present: u32) -> f64 {
        (extent.expected(present) * 100.0).round() / 100.0
    }

    #[test]
    fn a_zone_that_was_lost_is_expected_back_as_large_as_it_was() {
        let mut extent = Extent::new();
        extent.changed(0, 4, 0.0);
        // One by one within seconds, and back hours later.
        for (before, at) in [(4, 100.0), (3, 101.0), (2, 102.0), (1, 103.0)] {
            extent.changed(before, before - 1, at);
        }
        extent.changed(0, 1, 9_000.0);
        assert!((3.9..=4.0).contains(&extent.expected(1)), "{extent:?}");
        extent.changed(1, 4, 9_010.0);
        assert_eq!(extent.expected(4).to_bits(), 4.0_f64.to_bits());
        extent.changed(4, 2, 9_020.0);
        assert_eq!(extent.expected(2).to_bits(), 2.0_f64.to_bits(), "scaled in, not lost");
    }

    #[test]
    fn a_zone_that_stays_smaller_becomes_the_new_whole() {
        let mut extent = Extent::new();
        extent.changed(0, 4, 0.0);
        extent.changed(4, 0, 100.0);
        extent.changed(0, 1, 200.0);
        let seen = [0.0, 60.0, 100.0, 120.0].map(|later| {
            extent.pass(1, 200.0 + later);
            expected(&extent, 1)
        });
        assert_eq!(seen.map(f64::to_bits), [4.0, 2.1, 1.57, 1.0_f64].map(f64::to_bits));
    }
}
