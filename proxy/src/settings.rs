//! From what discovery says to what the balancer and the data path take: plain numbers. This is the one file that knows both
//! sides, and all of it is pure.

use crate::discovery::{EndpointProtocol, EndpointUpdate, Place, ServiceUpdate};
use api::policy::source::PolicySource;
use api::policy::{self, Policy, RetryMethods, RetryOn, Tier};
use balance::config::{Algorithm, Breaker, Config, Fallback, Guard, LoadBand, Mode};
use balance::endpoint::{EndpointKey, EndpointSpec, ZoneId};
use std::sync::Arc;

/// What governs the requests to one service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the balancer takes.
    pub config: Config,
    /// When a request is sent again.
    pub retry: Retry,
    /// How long anything may take.
    pub timeout: policy::Timeout,
    /// What the endpoints speak.
    pub protocol: EndpointProtocol,
    /// The policy behind it.
    pub policy: Arc<Policy>,
    /// Where the policy came from.
    pub policy_source: PolicySource,
    /// The object that holds it, if one does.
    pub policy_object: Option<Arc<str>>,
}

/// When a request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub attempts: u32,
    /// When no connection came about.
    pub on_connect: bool,
    /// When the endpoint provably did not process it.
    pub on_refused: bool,
    /// When the answer was 5xx, or there was none.
    pub on_5xx: bool,
    /// Which methods may be sent twice.
    pub methods: RetryMethods,
}

impl Settings {
    /// The settings of a service for a caller at `place`.
    pub(crate) fn new(update: &ServiceUpdate, place: &Place) -> Self {
        let policy = &update.policy;
        let callers = update.callers.iter().map(|(zone, count)| (zone_id(zone), *count)).collect();
        let config =
            Config { callers, own_zone: place.zone.as_ref().map(zone_id), ..config(policy, place) };
        Self {
            config,
            retry: retry(&policy.retry),
            timeout: policy.timeout,
            protocol: update.protocol,
            policy: Arc::clone(policy),
            policy_source: update.policy_source,
            policy_object: update.policy_object.clone(),
        }
    }

    /// How the balancer sees an endpoint; `None` when it lies outside the last tier of the policy.
    pub(crate) fn spec(
        &self,
        key: EndpointKey,
        endpoint: &EndpointUpdate,
        place: &Place,
    ) -> Option<EndpointSpec> {
        let same_node = same(place.node.as_ref(), endpoint.node.as_ref());
        let same_zone = same_node || same(place.zone.as_ref(), endpoint.zone.as_ref());
        let same_region = same_zone || same(place.region.as_ref(), endpoint.region.as_ref());
        let tiers = &self.policy.tiers;
        let nearest = tiers.iter().position(|tier| match tier {
            Tier::Node => same_node,
            Tier::Zone => same_zone,
            Tier::Region => same_region,
            Tier::Any => true,
        });
        // A caller that does not know where it is cannot tell what lies outside.
        let tier = if self.config.zone_known { nearest? } else { nearest.unwrap_or(tiers.len()) };
        Some(EndpointSpec {
            key,
            tier: u8::try_from(tier).unwrap_or(u8::MAX),
            same_zone,
            same_region,
            zone: endpoint.zone.as_ref().map(zone_id),
        })
    }
}

fn same(ours: Option<&Arc<str>>, theirs: Option<&Arc<str>>) -> bool {
    ours.is_some() && ours == theirs
}

fn config(policy: &Policy, place: &Place) -> Config {
    let by_node = policy.tiers.contains(&Tier::Node) && place.node.is_some();
    Config {
        mode: match policy.mode {
            policy::Mode::Adaptive => Mode::Adaptive,
            policy::Mode::Proportional => Mode::Proportional,
            policy::Mode::Pinned => Mode::Pinned,
            policy::Mode::Off => Mode::Off,
        },
        zone_known: place.zone.is_some() || by_node,
        guard: Guard {
            local_min: policy.min_endpoints.local,
            total_min: policy.min_endpoints.total,
            healthy_min: policy.min_healthy.share(),
        },
        fallback: match policy.fallback {
            policy::Fallback::NextTier => Fallback::NextTier,
            policy::Fallback::Spread => Fallback::Spread,
            policy::Fallback::Proportional => Fallback::Proportional,
        },
        remote_share_max: policy.max_remote.share(),
        governed_share: policy.percent.share(),
        load: match policy.load {
            policy::LoadBand::Normalized { low, high } => LoadBand::Normalized { low, high },
            policy::LoadBand::Outstanding { low, high } => LoadBand::Outstanding { low, high },
        },
        failure_budget: policy.failure_budget.share(),
        overprovisioning: policy.overprovisioning.share(),
        algorithm: match policy.algorithm {
            policy::Algorithm::PeakEwma => Algorithm::PeakEwma,
            policy::Algorithm::LeastRequest => Algorithm::LeastRequest,
            policy::Algorithm::RoundRobin => Algorithm::RoundRobin,
            policy::Algorithm::Random => Algorithm::Random,
        },
        breaker: Breaker {
            consecutive: policy.breaker.consecutive,
            success_rate_min: policy.breaker.success_rate.share(),
            requests_min: policy.breaker.min_requests,
            backoff_min: policy.breaker.backoff.min,
            backoff_max: policy.breaker.backoff.max,
        },
        retry_budget: policy.retry.budget.share(),
        callers: Vec::new(),
        own_zone: None,
    }
}

fn retry(policy: &policy::Retry) -> Retry {
    Retry {
        attempts: policy.attempts,
        on_connect: policy.on.contains(&RetryOn::Connect),
        on_refused: policy.on.contains(&RetryOn::RefusedStream),
        on_5xx: policy.on.contains(&RetryOn::ServerError),
        methods: policy.methods,
    }
}

/// A zone's number: FNV-1a of its name, so that it is the same for ever without a table that hostile names could fill.
fn zone_id(name: &Arc<str>) -> ZoneId {
    ZoneId(
        name.bytes()
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)),
    )
}
