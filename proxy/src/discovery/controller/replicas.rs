//! Which replica of the controller is tried next, and when. Chance and time are arguments.
//!
//! All addresses are tried in turn without a pause, those of the first URL first; a pause follows when none of them worked. What
//! works is kept until it fails.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

/// Pause after a stream was lost: half of it on average, so that the proxies of a replica that ends do not all arrive at the
/// others in the same moment.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// Longest pause. A thousand proxies then try less than 300 times a second in all, and all are back in five seconds.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// A stream that ends earlier has not worked.
const WORKS_AFTER: Duration = Duration::from_secs(10);

/// A replica of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replica {
    /// Where it is.
    pub address: SocketAddr,
    /// Which of the controller's URLs led there: the first are preferred.
    pub url: usize,
}

/// The replicas of the controller.
#[derive(Debug, Default)]
pub struct Replicas {
    known: Vec<Replica>,
    /// Position of the one to try next.
    next: usize,
    /// Tried since the last pause.
    tried: usize,
    /// Rounds in which none worked.
    rounds: u32,
}

impl Replicas {
    /// Takes what the names resolve to now. `chance` (0 to 1) says where among the preferred to begin when that is something new.
    pub fn resolved(&mut self, mut found: Vec<Replica>, chance: f64) {
        let mut seen = HashSet::new();
        found.sort_unstable_by_key(|replica| (replica.url, replica.address));
        found.retain(|replica| seen.insert(replica.address));
        if found != self.known {
            let url = found.first().map_or(0, |replica| replica.url);
            let preferred = found.iter().filter(|replica| replica.url == url).count();
            let count = u32::try_from(preferred).unwrap_or(u32::MAX);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 <= chance <= 1"
            )]
            let begin = (f64::from(count) * chance) as usize;
            (self.known, self.next) = (found, begin);
        }
    }

    /// The one to try next; `None` when none is known.
    pub fn next_to_try(&mut self) -> Option<Replica> {
        let position = self.next.checked_rem(self.known.len())?;
        self.next = position + 1;
        self.tried += 1;
        self.known.get(position).copied()
    }

    /// The one that was last tried did not work, or no longer does. How long to wait; `None` when another one is to be tried
    /// at once.
    pub fn failed(&mut self, lived: Option<Duration>, chance: f64) -> Option<Duration> {
        if lived.is_some_and(|lived| lived >= WORKS_AFTER) {
            (self.tried, self.rounds) = (0, 0);
            return Some(PAUSE_MIN.mul_f64(chance));
        }
        if self.tried < self.known.len() {
            return None;
        }
        let pause = PAUSE_MIN.saturating_mul(1 << self.rounds.min(8)).min(PAUSE_MAX);
        (self.tried, self.rounds) = (0, self.rounds.saturating_add(1));
        Some(pause.mul_f64(chance.midpoint(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(count: u16) -> Replicas {
        let mut replicas = Replicas::default();
        replicas.resolved((1..=count).map(replica).collect(), 0.0);
        replicas
    }

    fn replica(number: u16) -> Replica {
        Replica { address: ([10, 0, 0, 1], number).into(), url: 0 }
    }

    #[test]
    fn all_are_tried_in_turn_before_a_pause() {
        let mut replicas = replicas(3);
        for round in 0..2 {
            for number in 1..=3 {
                assert_eq!(replicas.next_to_try(), Some(replica(number)));
                let pause = replicas.failed(None, 1.0);
                assert_eq!(
                    pause.is_some(),
                    number == 3,
                    "round {round}, replica {number}: {pause:?}"
                );
            }
        }
    }

    #[test]
    fn pauses_grow_to_a_limit_and_are_spread() {
        let mut replicas = replicas(1);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            replicas.next_to_try();
            pauses.push(replicas.failed(None, 1.0).unwrap().as_millis());
        }
        assert_eq!(pauses, [500, 1000, 2000, 4000, 5000, 5000]);
        replicas.next_to_try();
        assert_eq!(replicas.failed(None, 0.0), Some(Duration::from_millis(2500)), "half at least");
    }

    #[test]
    fn what_worked_and_was_lost_is_followed_by_the_next_one_soon() {
        let mut replicas = replicas(2);
        for _ in 0..9 {
            replicas.next_to_try();
            replicas.failed(None, 1.0);
        }
        assert_eq!(replicas.next_to_try(), Some(replica(2)));
        assert_eq!(replicas.failed(Some(WORKS_AFTER), 0.5), Some(PAUSE_MIN / 2));
        assert_eq!(replicas.next_to_try(), Some(replica(1)));
        assert_eq!(replicas.failed(None, 0.5), None, "and by the other one at once");
    }

    #[test]
    fn one_that_accepts_and_hangs_up_is_no_reason_to_hurry() {
        let mut replicas = replicas(1);
        let pause = |replicas: &mut Replicas| {
            replicas.next_to_try();
            replicas.failed(Some(Duration::from_millis(5)), 1.0).unwrap()
        };
        assert!(pause(&mut replicas) < pause(&mut replicas), "it grows");
    }

    #[test]
    fn proxies_begin_at_different_replicas_and_stay_when_nothing_changed() {
        let begin = |chance| {
            let mut replicas = Replicas::default();
            replicas.resolved((1..=4).map(replica).collect(), chance);
            replicas.next_to_try()
        };
        assert_eq!([0.0, 0.3, 0.6, 0.99].map(begin), [1, 2, 3, 4].map(|n| Some(replica(n))));
        assert_eq!(begin(1.0), Some(replica(1)));
        let mut replicas = replicas(3);
        replicas.next_to_try();
        replicas.resolved(vec![replica(3), replica(2), replica(1), replica(1)], 0.0);
        assert_eq!(replicas.next_to_try(), Some(replica(2)), "the same in another order");
    }

    #[test]
    fn the_first_name_goes_before_the_others() {
        let of = |number, url| Replica { url, ..replica(number) };
        let found = || vec![of(5, 1), of(2, 0), of(1, 1), of(2, 1), of(9, 0)];
        for (chance, order) in [(0.0, [2, 9, 1, 5, 2]), (0.9, [9, 1, 5, 2, 9])] {
            let mut replicas = Replicas::default();
            replicas.resolved(found(), chance);
            let tried = order.map(|_| replicas.next_to_try().unwrap().address.port());
            assert_eq!(tried, order, "beginning at {chance}");
        }
    }

    #[test]
    fn a_name_without_addresses_is_no_replica() {
        let mut replicas = Replicas::default();
        assert_eq!(replicas.next_to_try(), None);
        assert!(replicas.failed(None, 1.0).is_some());
    }
}
