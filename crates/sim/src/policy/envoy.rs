//! Models after Envoy: zone-aware routing, and priorities as Istio and Consul set them up, both with outlier detection by
//! consecutive failures.

use crate::policy::pool::{Member, Pool};
use crate::policy::{Listed, Outcome, Place, Policy, Sent};
use crate::time::{Nanos, SECOND};
use balance::balancer::Served;

/// Zones of the simulated world.
const ZONES: usize = 3;

/// Model: local with probability (local share of healthy servers ÷ local share of callers), else zones by what they have
/// to spare.
#[derive(Debug)]
pub(super) struct ZoneAware {
    outliers: Outliers,
}

/// Model: local with probability (overprovisioning · available ÷ present), else any other zone.
#[derive(Debug)]
pub(super) struct PriorityFailover {
    outliers: Outliers,
    overprovisioning: f64,
}

/// The endpoints, with outlier detection.
#[derive(Debug)]
struct Outliers {
    pool: Pool,
    /// Part of the endpoints beyond which no further one is ejected.
    ejected_max: f64,
    next_sweep: Nanos,
    /// Scratch: indices of the members to choose from.
    candidates: Vec<usize>,
}

const CONSECUTIVE: u32 = 5;
const SWEEP: Nanos = 10 * SECOND;
const EJECTION: Nanos = 30 * SECOND;
/// Below this part of available endpoints all are used.
const PANIC: f64 = 0.5;
/// Envoy's default limit.
const EJECTED_MAX_DEFAULT: f64 = 0.1;

impl Outliers {
    fn new(place: Place, ejected_max: f64, now: Nanos) -> Self {
        let mut pool = Pool::new(place);
        let next_sweep = now + pool.rng.u64(0..SWEEP);
        Self { pool, ejected_max, next_sweep, candidates: Vec::new() }
    }

    /// Available members by zone.
    fn available(&self) -> [u32; ZONES] {
        let mut available = [0; ZONES];
        for member in self.pool.members.iter().filter(|member| member.available()) {
            available[usize::from(member.listed.zone)] += 1;
        }
        available
    }

    /// Whether so few are available that all are used, those of all zones alike.
    fn panics(&self) -> bool {
        let available: u32 = self.available().iter().sum();
        f64::from(available) < PANIC * self.pool.members.len() as f64
    }

    /// Sends to the one of two random members with fewer requests under way, among those that `fits`; to the unavailable
    /// ones as well if `panic`, or if there are no others.
    fn send(&mut self, fits: impl Fn(&Member) -> bool, panic: bool, now: Nanos) -> Option<Sent> {
        let Self { pool, candidates, .. } = self;
        candidates.clear();
        candidates.extend((0..pool.members.len()).filter(|i| {
            let member = &pool.members[*i];
            fits(member) && (panic || member.available())
        }));
        if candidates.is_empty() {
            candidates.extend((0..pool.members.len()).filter(|i| fits(&pool.members[*i])));
        }
        let index = pool.choose(candidates, |member| f64::from(member.outstanding))?;
        Some(pool.send(index, false, now))
    }

    fn ended(&mut self, sent: &Sent, outcome: Outcome, now: Nanos) {
        let ejected = self.pool.members.iter().filter(|member| !member.available()).count();
        let may_eject = (ejected as f64) < self.ejected_max * self.pool.members.len() as f64;
        let Some(member) = self.pool.take_back(sent, outcome, now) else { return };
        if member.consecutive < CONSECUTIVE {
            return;
        }
        member.consecutive = 0;
        if member.available() && may_eject {
            member.ejections += 1;
            member.ejected_until = Some(now + EJECTION * u64::from(member.ejections));
        }
    }

    /// Ejections end only here.
    fn sweep(&mut self, now: Nanos) {
        self.next_sweep = now + SWEEP;
        for member in &mut self.pool.members {
            if member.ejected_until.is_some_and(|until| until <= now) {
                member.ejected_until = None;
                member.consecutive = 0;
            }
        }
    }
}

impl ZoneAware {
    /// A balancer without endpoints. Every zone has as many callers.
    pub(super) fn new(place: Place, now: Nanos) -> Self {
        Self { outliers: Outliers::new(place, EJECTED_MAX_DEFAULT, now) }
    }
}

impl Policy for ZoneAware {
    fn update(&mut self, listed: &[Listed], now: Nanos) {
        self.outliers.pool.update(listed, now);
    }

    fn pick(&mut self, now: Nanos) -> Option<Sent> {
        let outliers = &mut self.outliers;
        if outliers.panics() {
            return outliers.send(|_| true, true, now);
        }
        let available = outliers.available();
        let sum = f64::from(available.iter().sum::<u32>());
        let share = |zone: usize| f64::from(available[zone]) / sum;
        let callers = 1.0 / ZONES as f64;
        let home = outliers.pool.zone;
        let zone = if outliers.pool.rng.f64() * callers < share(usize::from(home)) {
            home
        } else {
            let spare = |zone: usize| (share(zone) - callers).max(0.0);
            let mut ticket = outliers.pool.rng.f64() * (0..ZONES).map(spare).sum::<f64>();
            (0..ZONES)
                .find(|zone| {
                    ticket -= spare(*zone);
                    ticket < 0.0
                })
                .map_or(home, |zone| zone as u8)
        };
        outliers.send(|member| member.listed.zone == zone, false, now)
    }

    fn ended(&mut self, sent: Sent, outcome: Outcome, now: Nanos) -> Option<Served> {
        self.outliers.ended(&sent, outcome, now);
        None
    }

    fn next_tick(&self) -> Option<Nanos> {
        Some(self.outliers.next_sweep)
    }

    fn tick(&mut self, now: Nanos) {
        self.outliers.sweep(now);
    }
}

impl PriorityFailover {
    /// A balancer without endpoints.
    pub(super) fn new(place: Place, overprovisioning: f64, now: Nanos) -> Self {
        Self { outliers: Outliers::new(place, 1.0, now), overprovisioning }
    }

    /// Health of the own zone, 0 to 1: its available part, stretched.
    fn health_at_home(&self) -> f64 {
        let pool = &self.outliers.pool;
        let home = pool.members.iter().filter(|member| pool.local(member));
        let (available, present) =
            home.fold((0_u32, 0_u32), |(a, n), member| (a + u32::from(member.available()), n + 1));
        if available == 0 {
            return 0.0;
        }
        (self.overprovisioning * f64::from(available) / f64::from(present)).min(1.0)
    }
}

impl Policy for PriorityFailover {
    fn update(&mut self, listed: &[Listed], now: Nanos) {
        self.outliers.pool.update(listed, now);
    }

    fn pick(&mut self, now: Nanos) -> Option<Sent> {
        let outliers = &mut self.outliers;
        if outliers.panics() {
            return outliers.send(|_| true, true, now);
        }
        let local = outliers.pool.rng.f64() < self.health_at_home();
        let outliers = &mut self.outliers;
        let home = outliers.pool.zone;
        outliers
            .send(|member| (member.listed.zone == home) == local, false, now)
            .or_else(|| outliers.send(|_| true, false, now))
    }

    fn ended(&mut self, sent: Sent, outcome: Outcome, now: Nanos) -> Option<Served> {
        self.outliers.ended(&sent, outcome, now);
        None
    }

    fn next_tick(&self) -> Option<Nanos> {
        Some(self.outliers.next_sweep)
    }

    fn tick(&mut self, now: Nanos) {
        self.outliers.sweep(now);
    }
}
