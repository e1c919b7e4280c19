//! Who can be picked: the members of both sides, in the order in which they take part.

use crate::endpoint::ZoneId;
use crate::number::{ceil, count};
use crate::random::rank;
use crate::slots::{Slot, Slots};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Lists of slots, made anew when an endpoint comes, goes, is ejected or restored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    pub(crate) present: Vec<Slot>,
    pub(crate) available: Vec<Slot>,
    /// Present endpoints whose breaker is open.
    pub(crate) open: Vec<Slot>,
    pub(crate) local_present: u32,
    /// Available local endpoints.
    pub(crate) local: Vec<Slot>,
    /// All present remote endpoints, in the order in which they join.
    ordered: Vec<Slot>,
    /// Available remote endpoints in that order.
    pub(crate) remote: Vec<Slot>,
    /// The first `reach` of them take part.
    pub(crate) reach: usize,
    /// The tier that counts as local.
    pub(crate) local_tier: Option<u8>,
    /// The same while there was one.
    last_local_tier: Option<u8>,
}

/// The local tier of a caller that does not know its zone.
const ALL_TIERS: u8 = u8::MAX;

impl Pool {
    /// Takes the present endpoints over: decides which side each is on, and the order of the remote ones. Returns true when
    /// another tier became the local one.
    pub(crate) fn rebuild(&mut self, slots: &mut Slots, zone_known: bool, seed: u64) -> bool {
        self.present = slots.present().collect();
        let before = self.last_local_tier;
        let near = |slot: &Slot| slots[*slot].spec.tier == 0 || slots[*slot].spec.same_zone;
        let nearest =
            self.present.iter().filter(|slot| near(slot)).map(|slot| slots[*slot].spec.tier).min();
        for slot in &self.present {
            let local = !zone_known || Some(slots[*slot].spec.tier) == nearest;
            slots[*slot].local = local;
        }
        self.local_tier = if zone_known { nearest } else { Some(ALL_TIERS) };
        self.ordered = join_order(
            self.present.iter().copied().filter(|slot| !slots[*slot].local).collect(),
            slots,
            seed,
        );
        self.refresh(slots);
        let came_from = core::mem::replace(&mut self.last_local_tier, self.local_tier.or(before));
        came_from.is_some() && self.local_tier.is_some() && came_from != self.local_tier
    }

    /// Takes ejections and returns over.
    pub(crate) fn refresh(&mut self, slots: &Slots) {
        let available = |slot: &Slot| slots[*slot].is_available();
        refill(&mut self.available, self.present.iter().copied().filter(available));
        refill(&mut self.open, self.present.iter().copied().filter(|slot| !available(slot)));
        refill(&mut self.local, self.available.iter().copied().filter(|slot| slots[*slot].local));
        refill(&mut self.remote, self.ordered.iter().copied().filter(available));
        self.local_present = count(self.present.iter().filter(|slot| slots[**slot].local).count());
    }

    /// The remote endpoints that take part.
    pub(crate) fn active(&self) -> &[Slot] {
        self.remote.get(..self.reach).unwrap_or(&self.remote)
    }

    /// How many available remote endpoints lie in the nearest tier that has one.
    pub(crate) fn nearest_remotes(&self, slots: &Slots) -> usize {
        let ring = |slot: &Slot| (slots[*slot].spec.tier, !slots[*slot].spec.same_region);
        let nearest = self.remote.first().map(ring);
        self.remote.iter().take_while(|slot| Some(ring(slot)) == nearest).count()
    }

    /// How many remote endpoints take part at a share below 1, so that each gets at most half of what a local one gets.
    pub(crate) fn reach_at(&self, share: f64) -> usize {
        let wanted = ceil(2.0 * self.local.len() as f64 * (1.0 - share) / share) as usize;
        wanted.max(2).min(self.remote.len())
    }
}

fn refill(list: &mut Vec<Slot>, items: impl Iterator<Item = Slot>) {
    list.clear();
    list.extend(items);
}

/// Remote endpoints in the order in which they join: nearer rings first, then one of each zone in turn. Zones and endpoints are
/// ranked by hashes of the seed, so that callers differ from each other and each stays with its choice.
fn join_order(mut remotes: Vec<Slot>, slots: &Slots, seed: u64) -> Vec<Slot> {
    let endpoint_rank = |slot: Slot| rank(seed, slots[slot].spec.key.0);
    let zone_rank =
        |zone: Option<ZoneId>| rank(!seed, zone.map_or(u64::MAX, |zone| u64::from(zone.0)));
    remotes.sort_by_key(|slot| endpoint_rank(*slot));
    let mut seen: BTreeMap<Option<ZoneId>, u32> = BTreeMap::new();
    let mut keyed: Vec<_> = remotes
        .into_iter()
        .map(|slot| {
            let spec = slots[slot].spec;
            let turn = seen.entry(spec.zone).or_default();
            *turn += 1;
            ((spec.tier, !spec.same_region, *turn, zone_rank(spec.zone)), slot)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, slot)| slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{EndpointKey, EndpointSpec};

    /// `(tier, zone)` of each endpoint; tier 0 is the caller's zone.
    fn pool(endpoints: &[(u8, u32)], seed: u64) -> (Pool, Slots) {
        let mut slots = Slots::default();
        for (key, (tier, zone)) in endpoints.iter().enumerate() {
            let spec = EndpointSpec {
                key: EndpointKey(key as u64),
                tier: *tier,
                same_zone: *tier == 0,
                same_region: true,
                zone: Some(ZoneId(*zone)),
            };
            slots.add(spec, 0.0);
        }
        let mut pool = Pool::default();
        pool.rebuild(&mut slots, true, seed);
        (pool, slots)
    }

    #[test]
    fn remote_endpoints_join_zone_by_zone_in_turn() {
        let (pool, slots) = pool(&[(0, 0), (1, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 2)], 42);
        let zones: Vec<u32> = pool
            .remote
            .iter()
            .filter_map(|slot| slots[*slot].spec.zone)
            .map(|zone| zone.0)
            .collect();
        assert!(zones.chunks(2).all(|pair| pair[0] != pair[1]), "{zones:?}");
    }

    #[test]
    fn callers_differ_in_their_order_and_each_keeps_it() {
        let endpoints = [(0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)];
        let order = |seed| pool(&endpoints, seed).0.remote;
        assert_eq!(order(1), order(1));
        assert!((2..20).any(|seed| order(seed) != order(1)));
    }

    #[test]
    fn raising_the_reach_never_takes_one_away() {
        let (mut pool, _) = pool(&[(0, 0), (1, 1), (1, 2), (1, 1), (1, 2)], 3);
        pool.reach = 2;
        let before = pool.active().to_vec();
        pool.reach = 4;
        assert_eq!(pool.active().get(..2), Some(before.as_slice()));
    }

    #[test]
    fn an_empty_own_zone_leaves_the_local_side_empty() {
        let (pool, _) = pool(&[(1, 1), (1, 2)], 3);
        assert_eq!((pool.local_present, pool.local_tier, pool.remote.len()), (0, None, 2));
    }

    #[test]
    fn reach_gives_each_remote_endpoint_half_of_a_local_share_at_most() {
        let (pool, _) = pool(&[(0, 0), (0, 0), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1)], 3);
        assert_eq!([0.99, 0.8, 0.5, 0.1].map(|share| pool.reach_at(share)), [2, 2, 4, 6]);
    }
}
