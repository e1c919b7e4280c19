//! What the models have in common: the listed endpoints with what each model remembers of them, and the choice between
//! two random ones.

use crate::policy::{Listed, Outcome, Place, Sent};
use crate::time::{Nanos, seconds};
use fastrand::Rng;

/// The endpoints of one caller.
#[derive(Debug)]
pub(super) struct Pool {
    /// The caller's zone.
    pub(super) zone: u8,
    /// The endpoints, in the caller's own random order.
    pub(super) members: Vec<Member>,
    /// The source of its choices.
    pub(super) rng: Rng,
}

/// One endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// What discovery says.
    pub(super) listed: Listed,
    /// Requests under way.
    pub(super) outstanding: u32,
    /// Latency.
    pub(super) latency: PeakEwma,
    /// Time-weighted mean of `outstanding`.
    pub(super) load: TimeMean,
    /// Failures in a row.
    pub(super) consecutive: u32,
    /// How often it was ejected (Envoy), in a row (HAZL-like).
    pub(super) ejections: u32,
    /// Out of use until then.
    pub(super) ejected_until: Option<Nanos>,
    /// A trial is under way.
    pub(super) trying: bool,
}

/// Peak-sensitive EWMA of latencies, as in Finagle and Linkerd: a peak counts at once, the rest decays within 10 s, also
/// while nothing is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeakEwma {
    seconds: f64,
    touched: Nanos,
}

/// Time-weighted mean of a step function, over the last 5 s.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeMean {
    mean: f64,
    touched: Nanos,
}

/// What an endpoint's latency is taken for before it was measured, as in Linkerd.
const LATENCY_UNKNOWN: f64 = 0.03;
const LATENCY_DECAY: f64 = 10.0;
const LOAD_DECAY: f64 = 5.0;

impl Pool {
    /// No endpoints.
    pub(super) fn new(place: Place) -> Self {
        Self { zone: place.zone, members: Vec::new(), rng: Rng::with_seed(place.seed) }
    }

    /// Takes over the listed endpoints; those known keep their state, new ones get a random place.
    pub(super) fn update(&mut self, listed: &[Listed], now: Nanos) {
        self.members.retain(|member| listed.contains(&member.listed));
        for endpoint in listed {
            if self.members.iter().all(|member| member.listed != *endpoint) {
                let place = self.rng.usize(..=self.members.len());
                self.members.insert(place, Member::new(*endpoint, now));
            }
        }
    }

    /// Whether a member is in the caller's zone.
    pub(super) fn local(&self, member: &Member) -> bool {
        member.listed.zone == self.zone
    }

    /// Two random candidates, the one of lower cost; the only one; none.
    pub(super) fn choose(
        &mut self,
        candidates: &[usize],
        cost: impl Fn(&Member) -> f64,
    ) -> Option<usize> {
        let &[first, second, ..] = candidates else { return candidates.first().copied() };
        if candidates.len() == 2 {
            let (a, b) = if self.rng.bool() { (first, second) } else { (second, first) };
            return Some(self.cheaper(a, b, cost));
        }
        let a = self.rng.usize(..candidates.len());
        let b = (a + self.rng.usize(1..candidates.len())) % candidates.len();
        Some(self.cheaper(candidates[a], candidates[b], cost))
    }

    fn cheaper(&self, a: usize, b: usize, cost: impl Fn(&Member) -> f64) -> usize {
        if cost(&self.members[b]) < cost(&self.members[a]) { b } else { a }
    }

    /// Sends a request to a member.
    pub(super) fn send(&mut self, index: usize, trial: bool, now: Nanos) -> Sent {
        let member = &mut self.members[index];
        member.load.advance(member.outstanding, now);
        member.outstanding += 1;
        member.trying |= trial;
        Sent { server: member.listed.server, key: member.listed.key, trial, at: now, ticket: None }
    }

    /// Takes a request back. `None` if its endpoint is not listed any more.
    pub(super) fn take_back(
        &mut self,
        sent: &Sent,
        outcome: Outcome,
        now: Nanos,
    ) -> Option<&mut Member> {
        let member = self.members.iter_mut().find(|member| member.listed.key == sent.key)?;
        member.load.advance(member.outstanding, now);
        member.outstanding -= 1;
        if sent.trial {
            member.trying = false;
        }
        match outcome {
            Outcome::Cancelled => return Some(member),
            Outcome::Success => member.consecutive = 0,
            Outcome::Failure => member.consecutive += 1,
        }
        member.latency.add(seconds(now - sent.at), now);
        Some(member)
    }
}

impl Member {
    fn new(listed: Listed, now: Nanos) -> Self {
        Self {
            listed,
            outstanding: 0,
            latency: PeakEwma { seconds: LATENCY_UNKNOWN, touched: now },
            load: TimeMean { mean: 0.0, touched: now },
            consecutive: 0,
            ejections: 0,
            ejected_until: None,
            trying: false,
        }
    }

    /// Whether it is in use.
    pub(super) fn available(&self) -> bool {
        self.ejected_until.is_none()
    }

    /// Latency times queue, as in Finagle and Linkerd.
    pub(super) fn cost(&self, now: Nanos) -> f64 {
        self.latency.at(now) * (f64::from(self.outstanding) + 1.0)
    }
}

impl PeakEwma {
    fn at(&self, now: Nanos) -> f64 {
        self.seconds * (-seconds(now - self.touched) / LATENCY_DECAY).exp()
    }

    fn add(&mut self, sample: f64, now: Nanos) {
        let kept = (-seconds(now - self.touched) / LATENCY_DECAY).exp();
        self.seconds = if sample > self.seconds {
            sample
        } else {
            self.seconds * kept + sample * (1.0 - kept)
        };
        self.touched = now;
    }
}

impl TimeMean {
    fn advance(&mut self, value: u32, now: Nanos) {
        self.mean = self.at(value, now);
        self.touched = now;
    }

    /// The mean if the value has been `value` since the last change.
    pub(super) fn at(&self, value: u32, now: Nanos) -> f64 {
        let kept = (-seconds(now - self.touched) / LOAD_DECAY).exp();
        f64::from(value) + (self.mean - f64::from(value)) * kept
    }
}
