//! The endpoints, each in a slot that keeps its number as long as anything refers to it.

use crate::breaker::Breaker;
use crate::endpoint::{EndpointKey, EndpointSpec};
use crate::group::Verdicts;
use crate::number::left_after;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// Memory of an endpoint's successes and failures, in seconds.
const MEMORY: f64 = 5.0;
/// Time constant of an endpoint's latency, in seconds.
const LATENCY_TAU: f64 = 3.0;
/// Each answer moves the latency at least by this part.
const LATENCY_STEP_MIN: f64 = 0.1;
/// Time constant in which an idle endpoint's latency is forgotten.
const IDLE_TAU: f64 = 10.0;
/// A new endpoint costs twice as much at first, and as much as the others after this time.
const RAMP: f64 = 5.0;
/// The success rate below which the cost of an endpoint rises no further (× 400).
const SUCCESS_RATE_SQUARED_MIN: f64 = 0.0025;

/// Fewer remembered failures are none.
const FAILED_MIN: f64 = 1e-9;

/// The number of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The slot of the first endpoint ever added.
    pub(crate) const FIRST: Self = Self(0);
}

#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) spec: EndpointSpec,
    /// Grows with each use of the slot, so that late answers are told apart.
    pub(crate) generation: u32,
    /// Still in discovery; if not, the slot waits for its last answer.
    pub(crate) present: bool,
    /// Whether it belongs to the local side.
    pub(crate) local: bool,
    /// Requests waiting for their headers.
    pub(crate) outstanding: u32,
    /// Those that still count for load.
    counted: u32,
    /// Open connections whose bytes are not requests.
    pub(crate) connections: u32,
    load: f64,
    load_at: f64,
    added: f64,
    /// Seconds; `None` before the first answer.
    latency: Option<f64>,
    latency_at: f64,
    verdicts: Verdicts,
    pub(crate) breaker: Breaker,
}

impl Endpoint {
    fn new(spec: EndpointSpec, generation: u32, added: f64) -> Self {
        Self {
            spec,
            generation,
            present: true,
            local: false,
            outstanding: 0,
            counted: 0,
            connections: 0,
            load: 0.0,
            load_at: 0.0,
            added,
            latency: None,
            latency_at: 0.0,
            verdicts: Verdicts::default(),
            breaker: Breaker::new(),
        }
    }

    /// Present, and its breaker closed.
    pub(crate) fn is_available(&self) -> bool {
        self.present && !self.breaker.is_open()
    }

    pub(crate) fn dispatched(&mut self, now: f64, window: f64) {
        self.roll_load(now, window);
        self.outstanding += 1;
        self.counted += 1;
    }

    pub(crate) fn aged(&mut self, now: f64, window: f64) {
        self.roll_load(now, window);
        self.counted = self.counted.saturating_sub(1);
    }

    pub(crate) fn finished(&mut self, counted: bool, now: f64, window: f64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if counted {
            self.aged(now, window);
        }
    }

    pub(crate) fn succeeded(&mut self, latency: f64, now: f64) {
        self.judge(now).ok += 1.0;
        self.latency = Some(match self.latency {
            None => latency,
            Some(mean) => {
                let step =
                    (1.0 - left_after(now - self.latency_at, LATENCY_TAU)).max(LATENCY_STEP_MIN);
                mean + step * (latency - mean)
            }
        });
        self.latency_at = now;
    }

    pub(crate) fn connected(&mut self, now: f64) {
        self.judge(now).ok += 1.0;
        self.connections += 1;
    }

    pub(crate) fn disconnected(&mut self) {
        self.connections = self.connections.saturating_sub(1);
    }

    /// What it has to do for us: requests that wait and open connections.
    pub(crate) fn busy(&self) -> f64 {
        f64::from(self.outstanding) + f64::from(self.connections)
    }

    /// A failure; its latency is never learnt. Returns the recent answers, this one included.
    pub(crate) fn failed(&mut self, now: f64) -> Verdicts {
        let verdicts = self.judge(now);
        verdicts.failed += 1.0;
        *verdicts
    }

    /// A good answer, given `at`, turned out to be a failure at the end of its body.
    pub(crate) fn reversed(&mut self, at: f64, now: f64) -> Verdicts {
        let verdicts = self.judge(now);
        verdicts.ok = (verdicts.ok - left_after(now - at, MEMORY)).max(0.0);
        verdicts.failed += 1.0;
        *verdicts
    }

    /// The breaker closed: earlier failures are settled.
    pub(crate) fn forgive(&mut self) {
        self.verdicts.failed = 0.0;
    }

    pub(crate) fn verdicts(&self, now: f64) -> Verdicts {
        self.verdicts.decayed(now, MEMORY)
    }

    /// The mean of what is outstanding: the endpoint's EWMA load.
    pub(crate) fn load(&self, now: f64, window: f64) -> f64 {
        let counted = f64::from(self.counted);
        counted + (self.load - counted) * left_after(now - self.load_at, window)
    }

    /// Mean latency in seconds, if one was seen.
    pub(crate) fn latency(&self) -> Option<f64> {
        self.latency
    }

    /// What a request here costs in expected waiting; `floor` is the least latency in seconds that is believed.
    pub(crate) fn cost(&self, floor: f64, now: f64) -> f64 {
        let latency = match self.latency {
            Some(latency) if latency > floor => {
                latency * left_after(now - self.latency_at, IDLE_TAU)
            }
            _ => 0.0,
        };
        let penalty = self.penalty(now);
        let ramp = 1.0 + (1.0 - (now - self.added) / RAMP).max(0.0);
        ramp * latency.max(floor) * (self.busy() + 1.0) / penalty
    }

    /// The square of the success rate. Without failures, the usual case, there is nothing to compute.
    fn penalty(&self, now: f64) -> f64 {
        if self.verdicts.failed <= FAILED_MIN {
            return 1.0;
        }
        let verdicts = self.verdicts(now);
        let success_rate = (verdicts.ok + 1.0) / (verdicts.answers() + 1.0);
        (success_rate * success_rate).max(SUCCESS_RATE_SQUARED_MIN)
    }

    fn judge(&mut self, now: f64) -> &mut Verdicts {
        self.verdicts = self.verdicts.decayed(now, MEMORY);
        &mut self.verdicts
    }

    fn roll_load(&mut self, now: f64, window: f64) {
        self.load = self.load(now, window);
        self.load_at = self.load_at.max(now);
    }
}

/// All endpoints, present ones and those that wait for their last answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    all: Vec<Endpoint>,
    free: Vec<Slot>,
    by_key: BTreeMap<EndpointKey, Slot>,
}

impl Slots {
    /// The slot of a present endpoint.
    pub(crate) fn find(&self, key: EndpointKey) -> Option<Slot> {
        self.by_key.get(&key).copied()
    }

    /// Gives an endpoint a slot. `added` is −∞ for endpoints that need no ramp.
    pub(crate) fn add(&mut self, spec: EndpointSpec, added: f64) -> Slot {
        let slot = if let Some(slot) = self.free.pop() {
            let generation = self[slot].generation.wrapping_add(1);
            self[slot] = Endpoint::new(spec, generation, added);
            slot
        } else {
            self.all.push(Endpoint::new(spec, 0, added));
            Slot(crate::number::count(self.all.len() - 1))
        };
        self.by_key.insert(spec.key, slot);
        slot
    }

    /// Takes an endpoint out of discovery; its slot is used again once nothing waits there.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let key = self[slot].spec.key;
        self.by_key.remove(&key);
        self[slot].present = false;
        self.recycle(slot);
    }

    /// Frees the slot of a removed endpoint when its last request has ended.
    pub(crate) fn recycle(&mut self, slot: Slot) {
        let endpoint = &self[slot];
        if !endpoint.present && endpoint.outstanding == 0 {
            self.free.push(slot);
        }
    }

    /// Present endpoints in the order of their keys.
    pub(crate) fn present(&self) -> impl Iterator<Item = Slot> + '_ {
        self.by_key.values().copied()
    }

    pub(crate) fn present_count(&self) -> usize {
        self.by_key.len()
    }

    /// Requests waiting anywhere, at removed endpoints too.
    pub(crate) fn outstanding(&self) -> u64 {
        self.all.iter().map(|endpoint| u64::from(endpoint.outstanding)).sum()
    }
}

#[expect(clippy::indexing_slicing, reason = "slots are made by `add` only and never taken away")]
impl Index<Slot> for Slots {
    type Output = Endpoint;

    fn index(&self, slot: Slot) -> &Endpoint {
        &self.all[slot.0 as usize]
    }
}

#[expect(clippy::indexing_slicing, reason = "slots are made by `add` only and never taken away")]
impl IndexMut<Slot> for Slots {
    fn index_mut(&mut self, slot: Slot) -> &mut Endpoint {
        &mut self.all[slot.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(key: u64) -> EndpointSpec {
        EndpointSpec {
            key: EndpointKey(key),
            tier: 0,
            same_zone: true,
            same_region: true,
            zone: None,
        }
    }

    #[test]
    fn twenty_failures_without_success_make_an_endpoint_four_hundred_times_as_dear() {
        let mut endpoint = Endpoint::new(spec(1), 0, f64::NEG_INFINITY);
        let before = endpoint.cost(0.01, 1.0);
        for _ in 0..20 {
            endpoint.failed(1.0);
        }
        assert!((endpoint.cost(0.01, 1.0) / before - 400.0).abs() < 1e-6);
        assert_eq!(endpoint.latency(), None, "the latency of a failure is never learnt");
    }

    #[test]
    fn a_new_endpoint_costs_twice_as_much_at_first_and_the_same_after_five_seconds() {
        let cost = |now: f64| Endpoint::new(spec(1), 0, 100.0).cost(0.01, now);
        assert!((cost(100.0) - 0.02).abs() < 1e-12);
        assert!((cost(102.5) - 0.015).abs() < 1e-12);
        assert!((cost(105.0) - 0.01).abs() < 1e-12);
    }

    #[test]
    fn a_slot_is_used_again_only_when_nothing_waits_there() {
        let mut slots = Slots::default();
        let first = slots.add(spec(1), 0.0);
        slots[first].dispatched(0.0, 5.0);
        slots.remove(first);
        let second = slots.add(spec(2), 0.0);
        assert_ne!(first, second);
        slots[first].finished(true, 1.0, 5.0);
        slots.recycle(first);
        let third = slots.add(spec(3), 0.0);
        assert_eq!((third, slots[third].generation), (first, 1));
    }
}
