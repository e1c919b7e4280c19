//! However endpoints are packed into slices, and in whatever order slices are heard of: the union, each once.

use super::build::{endpoint, no_slice, shop, slice};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;

const SLICES: u8 = 5;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Endpoints are moved between slices at random. A move is two events in either order; after both, the set is the union.
    #[test]
    fn random_repackings_lose_and_double_nothing(
        start in proptest::collection::vec(0..SLICES, 1..60),
        moves in proptest::collection::vec((any::<proptest::sample::Index>(), 0..SLICES, any::<bool>()), 1..60),
    ) {
        let mut places: Vec<u8> = start;
        let mut world = shop();
        let content = |places: &[u8], number: u8| {
            let here = places.iter().enumerate().filter(|(_, place)| **place == number);
            let endpoints: Vec<_> = here.map(|(pod, _)| endpoint(&format!("10.0.0.{pod}"), "a")).collect();
            let name = format!("slice-{number}");
            if endpoints.is_empty() { no_slice(&name) } else { slice(&name, json!({ "endpoints": endpoints })) }
        };
        for number in 0..SLICES {
            world.apply(content(&places, number));
        }
        for (pod, to, removed_first) in moves {
            let pod = pod.index(places.len());
            let from = places[pod];
            places[pod] = to;
            let mut both = [from, to];
            if !removed_first {
                both.reverse();
            }
            for (event, number) in both.into_iter().enumerate() {
                world.apply(content(&places, number));
                let seen = world.addresses();
                let distinct: BTreeSet<&String> = seen.iter().collect();
                prop_assert_eq!(distinct.len(), seen.len(), "doubled");
                // Between a removal and its addition, Kubernetes itself shows one endpoint less.
                let hole = usize::from(removed_first && event == 0 && from != to);
                prop_assert!(seen.len() == places.len() - hole, "{} of {}", seen.len(), places.len());
            }
        }
        let mut wanted: Vec<std::net::SocketAddr> =
            (0..places.len()).map(|pod| format!("10.0.0.{pod}:8080").parse().unwrap()).collect();
        wanted.sort();
        let seen: Vec<std::net::SocketAddr> = world.addresses().iter().map(|address| address.parse().unwrap()).collect();
        prop_assert_eq!(seen, wanted);
    }

    /// The same slices in any order are the same version: any replica may go on where another stopped.
    #[test]
    fn the_order_of_events_never_matters(
        places in proptest::collection::vec((0..SLICES, 0..SLICES, any::<bool>()), 1..30),
        order in Just((0..SLICES).collect::<Vec<u8>>()).prop_shuffle(),
    ) {
        // Each endpoint stands in one or two slices, that may disagree on its zone and readiness.
        let content = |number: u8| {
            let mut endpoints = Vec::new();
            for (pod, (first, second, ready)) in places.iter().enumerate() {
                let address = format!("10.0.0.{pod}");
                if *first == number {
                    endpoints.push(endpoint(&address, "a"));
                } else if *second == number {
                    let mut other = endpoint(&address, "b");
                    other["conditions"] = json!({ "ready": ready });
                    endpoints.push(other);
                }
            }
            slice(&format!("slice-{number}"), json!({ "endpoints": endpoints }))
        };
        let (mut one, mut other) = (shop(), shop());
        for number in 0..SLICES {
            one.apply(content(number));
        }
        for number in order {
            other.apply(content(number));
        }
        prop_assert_eq!(one.endpoints(), other.endpoints());
        prop_assert_eq!(one.view().version(), other.view().version());
    }
}
