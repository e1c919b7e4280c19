//! What the policy makes of the pool: a plain value that a pick only has to carry out.

use crate::config::{Config, Fallback, Mode};
use crate::endpoint::ZoneId;
use crate::pool::Pool;
use crate::reason::Reason;
use crate::slots::{Slot, Slots};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// How the next requests are placed.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Nothing is present.
    Empty,
    /// Nothing is available: among all that is present.
    Panic,
    /// The valve decides. With `use_local` false a guard shut the local side out.
    Valve {
        /// Whether the local side may be used.
        use_local: bool,
    },
    /// Among a fixed set, for one reason.
    Set(Set),
    /// To one zone by chance, by Envoy's zone-aware rule.
    Zones(Vec<ZoneShare>),
}

/// A fixed set of endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) slots: Vec<Slot>,
    pub(crate) reason: Reason,
    /// Ejected endpoints outside this tier are not probed: the policy does not want them used.
    pub(crate) tier_max: u8,
}

/// A zone, the endpoints in it, and how likely it is.
#[derive(Clone, Debug)]
pub(crate) struct ZoneShare {
    pub(crate) probability: f64,
    pub(crate) own: bool,
    pub(crate) slots: Vec<Slot>,
}

/// Makes the plan. Order of the guards: nothing left, mode, total count, local count.
pub(crate) fn plan(config: &Config, pool: &Pool, slots: &Slots) -> Plan {
    if pool.present.is_empty() {
        return Plan::Empty;
    }
    if pool.available.is_empty() {
        return Plan::Panic;
    }
    if config.mode == Mode::Off {
        return spread(pool, Reason::Off);
    }
    if !config.zone_known {
        return if config.mode == Mode::Adaptive {
            Plan::Valve { use_local: true }
        } else {
            spread(pool, Reason::ZoneUnknown)
        };
    }
    if pool.available.len() < config.guard.total_min as usize {
        return spread(pool, Reason::Guard);
    }
    match config.mode {
        Mode::Off | Mode::Adaptive => adaptive(config, pool, slots),
        Mode::Proportional => zones(config, pool, slots),
        Mode::Pinned => pinned(config, pool, slots),
    }
}

fn spread(pool: &Pool, reason: Reason) -> Plan {
    Plan::Set(Set { slots: pool.available.clone(), reason, tier_max: u8::MAX })
}

fn adaptive(config: &Config, pool: &Pool, slots: &Slots) -> Plan {
    // An empty side is no question of a guard: the valve knows what to do.
    if pool.local.is_empty() || passes(config, pool.local.len(), pool.local_present as usize) {
        return Plan::Valve { use_local: true };
    }
    match config.fallback {
        Fallback::NextTier => Plan::Valve { use_local: pool.remote.is_empty() },
        Fallback::Spread => spread(pool, Reason::Guard),
        Fallback::Proportional => zones(config, pool, slots),
    }
}

/// Whether a tier with `available` of `present` endpoints passes the guards.
fn passes(config: &Config, available: usize, present: usize) -> bool {
    let healthy = available as f64 >= config.guard.healthy_min * present as f64;
    available >= config.guard.local_min as usize && healthy && available > 0
}

fn pinned(config: &Config, pool: &Pool, slots: &Slots) -> Plan {
    let mut tiers: Vec<u8> = pool.present.iter().map(|slot| slots[*slot].spec.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let available_in = |tier: u8| -> Vec<Slot> {
        pool.available.iter().copied().filter(|slot| slots[*slot].spec.tier == tier).collect()
    };
    let reason_of =
        |tier: u8| if Some(tier) == pool.local_tier { Reason::Local } else { Reason::NoLocal };
    for tier in &tiers {
        let available = available_in(*tier);
        let present = pool.present.iter().filter(|slot| slots[**slot].spec.tier == *tier).count();
        if passes(config, available.len(), present) {
            return Plan::Set(Set { slots: available, reason: reason_of(*tier), tier_max: *tier });
        }
        match config.fallback {
            Fallback::NextTier => {}
            Fallback::Spread => return spread(pool, Reason::Guard),
            Fallback::Proportional => return zones(config, pool, slots),
        }
    }
    // No tier passes its guards: the nearest that serves at all.
    let nearest =
        tiers.into_iter().find(|tier| !available_in(*tier).is_empty()).unwrap_or_default();
    Plan::Set(Set { slots: available_in(nearest), reason: Reason::Guard, tier_max: nearest })
}

/// Envoy's zone-aware rule: a zone with at least as large a share of the endpoints as of the callers keeps its requests;
/// otherwise it keeps that part, and the rest goes where capacity is left over.
fn zones(config: &Config, pool: &Pool, slots: &Slots) -> Plan {
    let mut members: BTreeMap<Option<ZoneId>, Vec<Slot>> = BTreeMap::new();
    for slot in &pool.available {
        members.entry(slots[*slot].spec.zone).or_default().push(*slot);
    }
    let callers: f64 = config.callers.iter().map(|(_, callers)| f64::from(*callers)).sum();
    let callers_in = |zone: Option<ZoneId>| -> f64 {
        let same = config.callers.iter().filter(|(of, _)| Some(*of) == zone);
        same.map(|(_, callers)| f64::from(*callers)).sum::<f64>() / callers
    };
    let own_zone = config.own_zone;
    let own_callers = if callers > 0.0 { callers_in(own_zone) } else { 0.0 };
    if members.len() < 2 || own_zone.is_none() || own_callers <= 0.0 {
        // One zone only, or nothing known of the callers: nothing to weigh.
        return spread(pool, Reason::Guard);
    }
    let total = pool.available.len() as f64;
    let own_endpoints = members.get(&own_zone).map_or(0.0, |slots| slots.len() as f64 / total);
    let kept = if own_endpoints >= own_callers { 1.0 } else { own_endpoints / own_callers };
    let spare = |zone: Option<ZoneId>, slots: &Vec<Slot>| {
        (slots.len() as f64 / total - callers_in(zone)).max(0.0)
    };
    let others = || members.iter().filter(|(zone, _)| **zone != own_zone);
    let spare_total: f64 = others().map(|(zone, slots)| spare(*zone, slots)).sum();
    let other_count = others().count() as f64;
    let share_of = |zone: Option<ZoneId>, slots: &Vec<Slot>| match () {
        () if zone == own_zone => kept,
        () if spare_total > 0.0 => (1.0 - kept) * spare(zone, slots) / spare_total,
        () => (1.0 - kept) / other_count,
    };
    let shares = members.iter().map(|(zone, slots)| ZoneShare {
        probability: share_of(*zone, slots),
        own: *zone == own_zone,
        slots: slots.clone(),
    });
    Plan::Zones(shares.filter(|share| share.probability > 0.0).collect())
}
