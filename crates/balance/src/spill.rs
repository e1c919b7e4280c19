//! The spill budget of `remote_share_max`: of any number of requests, no more than that share leaves the nearest tier.

/// Crossings that calm times may save up for a bad moment.
const SAVED_MAX: f64 = 10.0;

#[derive(Clone, Debug)]
pub(crate) struct SpillBudget {
    tokens: f64,
}

impl SpillBudget {
    pub(crate) fn new() -> Self {
        Self { tokens: 0.0 }
    }

    /// A request earns its part of a crossing.
    pub(crate) fn earn(&mut self, share_max: f64) {
        self.tokens = (self.tokens + share_max).min(SAVED_MAX);
    }

    /// Whether one request may cross now.
    pub(crate) fn allows(&self, share_max: f64) -> bool {
        share_max >= 1.0 || self.tokens >= 1.0
    }

    /// One request crosses.
    pub(crate) fn spend(&mut self, share_max: f64) {
        if share_max < 1.0 {
            // A crossing without an alternative, and so without asking, leaves no debt.
            self.tokens = (self.tokens - 1.0).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_share_crosses() {
        let mut budget = SpillBudget::new();
        let mut crossed = 0_u32;
        for requests in 1..=1000_u32 {
            budget.earn(0.25);
            if budget.allows(0.25) {
                budget.spend(0.25);
                crossed += 1;
            }
            assert!(f64::from(crossed) <= 0.25 * f64::from(requests));
        }
        assert_eq!(crossed, 250);
    }
}
