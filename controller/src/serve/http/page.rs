//! One page: every service, each endpoint with its zone and, for one zone, its priority.

use crate::hub::Hub;
use crate::index::view::View;
use api::discovery as proto;
use api::policy::{Fallback, Mode, Policy, Tier};
use serde::Serialize;
use std::sync::Arc;

/// All services, or as one zone should use them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page {
    #[serde(skip_serializing_if = "String::is_empty")]
    zone: String,
    pub(super) services: Vec<Service>,
}

/// One port of a service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Service {
    namespace: String,
    name: String,
    port: u32,
    mode: Mode,
    policy_source: &'static str,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    address: String,
    zone: Option<String>,
    region: Option<String>,
    node: Option<String>,
    /// 0 is the nearest tier; only where a zone asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draining: bool,
}

impl Page {
    /// The page of a zone (empty: of none), for all services or for the one `namespace/name`.
    pub(super) fn new(hub: &Hub, zone: &str, only: Option<&str>) -> Self {
        let ids = hub.look(|state| state.index().service_ids());
        let wanted = ids.iter().filter(|id| only.is_none_or(|only| id.service.to_string() == only));
        // One lock a service: the streams go on in between.
        let views: Vec<Arc<View>> =
            wanted.filter_map(|id| hub.look(|state| state.view(id))).collect();
        let region = region_of(&views, zone);
        let services = views.iter().map(|view| service(view, zone, region.as_deref())).collect();
        Self { zone: zone.to_owned(), services }
    }

    /// Whether any endpoint stands in the page's zone.
    pub(super) fn zone_known(&self) -> bool {
        let endpoints = self.services.iter().flat_map(|service| &service.endpoints);
        endpoints.into_iter().any(|endpoint| endpoint.zone.as_deref() == Some(&*self.zone))
    }
}

fn region_of(views: &[Arc<View>], zone: &str) -> Option<String> {
    let endpoints = views.iter().flat_map(|view| &view.service.endpoints);
    let here = endpoints.filter(|endpoint| !zone.is_empty() && endpoint.zone == zone);
    here.map(|endpoint| &endpoint.region).find(|region| !region.is_empty()).cloned()
}

fn service(view: &View, zone: &str, region: Option<&str>) -> Service {
    let policy = &view.effective.policy;
    let tiers = if zone.is_empty() || policy.mode == Mode::Off {
        Vec::new()
    } else {
        tiers(policy, &view.service.endpoints, zone, region)
    };
    let known = |text: &String| (!text.is_empty()).then(|| text.clone());
    let endpoints = view.service.endpoints.iter().enumerate().filter_map(|(number, endpoint)| {
        let priority = if tiers.is_empty() { None } else { Some((*tiers.get(number)?)?) };
        Some(Endpoint {
            address: endpoint.address.clone(),
            zone: known(&endpoint.zone),
            region: known(&endpoint.region),
            node: known(&endpoint.node),
            priority,
            draining: endpoint.state() == proto::State::Draining,
        })
    });
    Service {
        namespace: view.service.namespace.clone(),
        name: view.service.name.clone(),
        port: view.service.port,
        mode: policy.mode,
        policy_source: view.effective.source.as_str(),
        endpoints: endpoints.collect(),
    }
}

/// The tier of each endpoint; `None` for one that this zone should not use. Empty where the zone has no say: a guard fails and
/// all are used alike. A caller somewhere in a zone has no node, so that the tier `node` holds nothing.
fn tiers(
    policy: &Policy,
    endpoints: &[proto::Endpoint],
    zone: &str,
    region: Option<&str>,
) -> Vec<Option<usize>> {
    let tier_of = |endpoint: &proto::Endpoint| {
        policy.tiers.iter().position(|tier| match tier {
            Tier::Node => false,
            Tier::Zone => endpoint.zone == zone,
            Tier::Region => {
                endpoint.zone == zone || region.is_some_and(|region| endpoint.region == region)
            }
            Tier::Any => true,
        })
    };
    let all: Vec<Option<usize>> = endpoints.iter().map(tier_of).collect();
    match policy.mode {
        Mode::Pinned => guarded(policy, all),
        Mode::Adaptive | Mode::Proportional | Mode::Off => all,
    }
}

/// Pinned: the guards decide on the counts. With `NextTier` everyone is shown with a priority, a tier that fails its guard as
/// part of the next; otherwise the nearest tier alone, or all alike.
fn guarded(policy: &Policy, mut all: Vec<Option<usize>>) -> Vec<Option<usize>> {
    let limit = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
    if all.len() < limit(policy.min_endpoints.total) {
        return Vec::new();
    }
    let enough = |all: &[Option<usize>], tier: usize| {
        let here = all.iter().filter(|other| **other == Some(tier)).count();
        here > 0 && here >= limit(policy.min_endpoints.local)
    };
    if policy.fallback == Fallback::NextTier {
        for tier in 0..policy.tiers.len().saturating_sub(1) {
            if !enough(&all, tier) {
                let failing = all.iter_mut().filter(|other| **other == Some(tier));
                failing.for_each(|other| *other = Some(tier + 1));
            }
        }
        return all;
    }
    match all.iter().flatten().min().copied() {
        Some(nearest) if enough(&all, nearest) => {
            all.iter().map(|other| other.filter(|other| *other == nearest)).collect()
        }
        _ => Vec::new(),
    }
}
