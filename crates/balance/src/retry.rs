//! The retry budget: retries may add a fifth to the traffic, never more.

/// Tokens at the start, and the most that are saved up.
const TOKENS_START: f64 = 10.0;
const TOKENS_MAX: f64 = 20.0;

#[derive(Clone, Debug)]
pub(crate) struct RetryBudget {
    tokens: f64,
}

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self { tokens: TOKENS_START }
    }

    pub(crate) fn tokens(&self) -> f64 {
        self.tokens
    }

    /// A first attempt earns `part` of a retry.
    pub(crate) fn earn(&mut self, part: f64) {
        self.tokens = (self.tokens + part).min(TOKENS_MAX);
    }

    /// Takes a token, if there is one.
    pub(crate) fn spend(&mut self) -> bool {
        let enough = self.tokens >= 1.0;
        if enough {
            self.tokens -= 1.0;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_failing_requests_get_thirty_retries_at_most() {
        let mut budget = RetryBudget::new();
        let retried = (0..100).filter(|_| {
            budget.earn(0.2);
            budget.spend()
        });
        assert_eq!(retried.count(), 29);
    }
}
