//! Models without a breaker: all endpoints alike, or those of the zone.

use crate::policy::pool::Pool;
use crate::policy::{Listed, Outcome, Place, Policy, Sent};
use crate::time::Nanos;
use balance::balancer::Served;

/// How one endpoint is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// P2C by peak EWMA latency in the own zone.
    PeakEwmaInZone,
    /// The same over all zones.
    PeakEwma,
    /// P2C by outstanding requests over all zones.
    LeastRequest,
    /// One after the other.
    InTurn,
}

/// A model without a breaker.
#[derive(Debug)]
pub(super) struct Spread {
    pool: Pool,
    choice: Choice,
    candidates: Vec<usize>,
    turn: usize,
}

impl Spread {
    /// A balancer without endpoints.
    pub(super) fn new(place: Place, choice: Choice) -> Self {
        Self { pool: Pool::new(place), choice, candidates: Vec::new(), turn: 0 }
    }
}

impl Policy for Spread {
    fn update(&mut self, listed: &[Listed], now: Nanos) {
        self.pool.update(listed, now);
        let (pool, choice) = (&self.pool, self.choice);
        let chosen = |i: &usize| choice != Choice::PeakEwmaInZone || pool.local(&pool.members[*i]);
        self.candidates = (0..pool.members.len()).filter(chosen).collect();
    }

    fn pick(&mut self, now: Nanos) -> Option<Sent> {
        let index = match self.choice {
            Choice::PeakEwmaInZone | Choice::PeakEwma => {
                self.pool.choose(&self.candidates, |member| member.cost(now))
            }
            Choice::LeastRequest => {
                self.pool.choose(&self.candidates, |member| f64::from(member.outstanding))
            }
            Choice::InTurn => {
                self.turn += 1;
                self.candidates.get(self.turn % self.candidates.len().max(1)).copied()
            }
        }?;
        Some(self.pool.send(index, false, now))
    }

    fn ended(&mut self, sent: Sent, outcome: Outcome, now: Nanos) -> Option<Served> {
        self.pool.take_back(&sent, outcome, now);
        None
    }
}
