//! The memory that crossing did not help: while it holds, traffic stays local, and each new hold is twice as long.

const LENGTH_MIN: f64 = 5.0;
const LENGTH_MAX: f64 = 300.0;
/// Calm after which earlier holds are forgotten.
const FORGET_AFTER: f64 = 60.0;

#[derive(Clone, Debug)]
pub(crate) struct Hold {
    until: f64,
    /// Length of the next hold.
    next_length: f64,
    /// Local failure rate when it began.
    pub(crate) local_failure: f64,
}

impl Hold {
    pub(crate) fn new() -> Self {
        Self { until: f64::NEG_INFINITY, next_length: 0.0, local_failure: 0.0 }
    }

    pub(crate) fn holds(&self, now: f64) -> bool {
        now < self.until
    }

    /// Begins a hold and returns its length in seconds.
    pub(crate) fn start(&mut self, local_failure: f64, now: f64) -> f64 {
        let length = self.next_length.clamp(LENGTH_MIN, LENGTH_MAX);
        self.until = now + length;
        self.next_length = length * 2.0;
        self.local_failure = local_failure;
        length
    }

    /// Ends it early: things became worse here.
    pub(crate) fn end(&mut self, now: f64) {
        self.until = self.until.min(now);
    }

    pub(crate) fn tick(&mut self, now: f64) {
        if now > self.until + FORGET_AFTER {
            self.next_length = 0.0;
        }
    }

    /// Seconds that are left, 0 without a hold.
    pub(crate) fn left(&self, now: f64) -> f64 {
        (self.until - now).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hold_is_twice_as_long_up_to_five_minutes() {
        let mut hold = Hold::new();
        let lengths: [f64; 8] = core::array::from_fn(|round| {
            hold.start(0.1, f64::from(u32::try_from(round).unwrap()) * 301.0)
        });
        assert_eq!(
            lengths.map(f64::to_bits),
            [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0_f64].map(f64::to_bits)
        );
    }

    #[test]
    fn a_minute_of_calm_forgets() {
        let mut hold = Hold::new();
        hold.start(0.1, 0.0);
        hold.start(0.1, 5.0);
        hold.tick(74.0);
        assert_eq!(hold.start(0.1, 74.0).to_bits(), 20.0_f64.to_bits());
        hold.tick(200.0);
        assert_eq!(hold.start(0.1, 200.0).to_bits(), 5.0_f64.to_bits());
    }
}
