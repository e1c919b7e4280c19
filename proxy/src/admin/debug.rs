//! `/debug/services`: everything that the proxy knows about its services, as JSON. Field names are a contract with users'
//! scripts; `tidegate-proxy why` reads the same types back.

use super::Shown;
use super::discovery::DiscoveryView;
use crate::endpoint::Endpoint;
use crate::latency::Quantiles;
use crate::service::{Decision, ServiceSnapshot};
use api::policy::spec::PolicySpec;
use balance::endpoint::Locality;
use balance::event::{Change, EjectionCause, Numbers};
use balance::snapshot::{EndpointSnapshot, EndpointState};
use balance::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::Duration;

/// The whole page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The proxy.
    pub proxy: ProxyView,
    /// Where its services come from.
    pub discovery: DiscoveryView,
    /// Its services, by name.
    pub services: Vec<ServiceView>,
}

/// The proxy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ProxyView {
    pub zone: Option<String>,
    pub region: Option<String>,
    pub node: Option<String>,
    pub version: String,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceView {
    /// Its name.
    pub name: String,
    /// What its endpoints speak: `http1` or `http2`.
    pub protocol: String,
    /// The policy in force, complete.
    pub policy: PolicySpec,
    /// Where the policy came from.
    pub policy_source: String,
    /// The object that holds it, `shop/cart`, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_object: Option<String>,
    /// Why the share is what it is.
    pub reason: String,
    /// The numbers behind it.
    pub numbers: NumbersView,
    /// Load signal and band.
    pub load_band: BandView,
    /// Tokens left in the retry budget.
    pub retry_tokens: f64,
    /// Rest of the time in which crossing is given up because it did not help.
    pub hold_ms: f64,
    /// How long the requests of the last one to two minutes took that stayed local.
    pub latency_local: Option<LatencyView>,
    /// The same for requests that left their zone.
    pub latency_remote: Option<LatencyView>,
    /// Its endpoints, in the order of discovery.
    pub endpoints: Vec<EndpointView>,
    /// The last changes, oldest first.
    pub decisions: Vec<DecisionView>,
}

/// The numbers behind a decision.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described at the fields of `balance::event::Numbers`")]
pub struct NumbersView {
    pub share: f64,
    pub valve: f64,
    pub failure_cap: f64,
    pub capacity: f64,
    pub load: f64,
    pub load_lower: f64,
    /// `None` while unknown.
    pub baseline_ms: Option<f64>,
    pub reach: u32,
    pub local_failure: f64,
    pub remote_failure: f64,
}

/// Quantiles of latency, from a request's headers to the end of its response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LatencyView {
    pub requests: u64,
    pub p50_ms: f64,
    pub p90_ms: f64,
    pub p99_ms: f64,
}

/// Load signal and band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandView {
    /// `normalized` or `outstanding`.
    pub signal: String,
    /// Below, remote endpoints leave.
    pub low: f64,
    /// Above, remote endpoints join.
    pub high: f64,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described at the fields of `balance::snapshot::EndpointSnapshot`")]
pub struct EndpointView {
    pub address: SocketAddr,
    pub zone: Option<String>,
    pub region: Option<String>,
    pub node: Option<String>,
    pub tier: u8,
    /// `local` or `remote`.
    pub locality: String,
    /// `serving`, `ejected` or `probing`.
    pub state: String,
    pub active: bool,
    pub outstanding: u32,
    pub load: f64,
    pub success_rate: f64,
    /// `None` while unknown.
    pub latency_ms: Option<f64>,
    pub probe_in_ms: f64,
    /// Requests sent to it so far.
    pub picks: u64,
    /// Responses whose body is under way.
    pub open_bodies: u32,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionView {
    /// How many there were up to this one, since the service became known.
    pub number: u64,
    /// Its age.
    pub seconds_ago: f64,
    /// What changed: `widen`, `narrow`, `reason`, `ejected`, `probe`, `probed`, `restored`, `remote_joined`, `remote_left`
    /// or `hold`.
    pub change: String,
    /// Why, where there is a reason.
    pub reason: Option<String>,
    /// The endpoint that it is about, if about one that still exists.
    pub endpoint: Option<SocketAddr>,
    /// The same for people.
    pub detail: String,
    /// The numbers at that moment.
    pub numbers: NumbersView,
}

impl View {
    /// The state of all services now.
    pub fn of(shown: &Shown) -> Self {
        let registry = &shown.registry;
        let place = registry.place();
        let text = |name: Option<std::sync::Arc<str>>| name.map(|name| name.as_ref().to_owned());
        Self {
            proxy: ProxyView {
                zone: text(place.zone),
                region: text(place.region),
                node: text(place.node),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            discovery: DiscoveryView::of(shown),
            services: registry
                .services()
                .iter()
                .map(|service| ServiceView::of(&service.snapshot()))
                .collect(),
        }
    }
}

impl ServiceView {
    fn of(snapshot: &ServiceSnapshot) -> Self {
        let settings = &snapshot.state.settings;
        let (low, high) = settings.policy.load.bounds();
        let [latency_local, latency_remote] =
            snapshot.latencies.map(|seen| seen.map(LatencyView::from));
        Self {
            name: snapshot.name.as_ref().to_owned(),
            protocol: settings.protocol.as_str().to_owned(),
            policy: settings.policy.spec(),
            policy_source: settings.policy_source.as_str().to_owned(),
            policy_object: settings.policy_object.as_deref().map(str::to_owned),
            reason: snapshot.balancer.reason.as_str().to_owned(),
            numbers: snapshot.balancer.numbers.into(),
            load_band: BandView { signal: settings.policy.load.signal().to_owned(), low, high },
            retry_tokens: snapshot.balancer.retry_tokens,
            hold_ms: milliseconds(snapshot.balancer.hold),
            latency_local,
            latency_remote,
            endpoints: snapshot
                .endpoints()
                .map(|(endpoint, seen)| EndpointView::of(endpoint, seen))
                .collect(),
            decisions: decisions(&snapshot.decisions, snapshot.at),
        }
    }
}

impl EndpointView {
    fn of(endpoint: &Endpoint, seen: &EndpointSnapshot) -> Self {
        let text = |name: &Option<std::sync::Arc<str>>| name.as_deref().map(str::to_owned);
        let locality = match seen.locality {
            Locality::Local => "local",
            Locality::Remote => "remote",
        };
        let state = match seen.state {
            EndpointState::Serving => "serving",
            EndpointState::Ejected => "ejected",
            EndpointState::Probing => "probing",
        };
        Self {
            address: endpoint.address,
            zone: text(&endpoint.update.zone),
            region: text(&endpoint.update.region),
            node: text(&endpoint.update.node),
            tier: seen.tier,
            locality: locality.to_owned(),
            state: state.to_owned(),
            active: seen.active,
            outstanding: seen.outstanding,
            load: seen.load,
            success_rate: seen.success_rate,
            latency_ms: known_milliseconds(seen.latency_seconds),
            probe_in_ms: milliseconds(seen.probe_in),
            picks: endpoint.counts.picks(),
            open_bodies: endpoint.counts.open_bodies(),
        }
    }
}

impl From<Quantiles> for LatencyView {
    fn from(seen: Quantiles) -> Self {
        Self {
            requests: seen.requests,
            p50_ms: milliseconds(seen.p50),
            p90_ms: milliseconds(seen.p90),
            p99_ms: milliseconds(seen.p99),
        }
    }
}

impl From<Numbers> for NumbersView {
    fn from(numbers: Numbers) -> Self {
        Self {
            share: numbers.share,
            valve: numbers.valve,
            failure_cap: numbers.failure_cap,
            capacity: numbers.capacity,
            load: numbers.load,
            load_lower: numbers.load_lower,
            baseline_ms: known_milliseconds(numbers.baseline_seconds),
            reach: numbers.reach,
            local_failure: numbers.local_failure,
            remote_failure: numbers.remote_failure,
        }
    }
}

/// Each decision is told against the numbers of the one before.
fn decisions(decisions: &[Decision], now: Timestamp) -> Vec<DecisionView> {
    let mut before: Option<Numbers> = None;
    let mut views = Vec::with_capacity(decisions.len());
    for Decision { number, event, endpoint } in decisions {
        let (change, reason) = names(event.change);
        views.push(DecisionView {
            number: *number,
            seconds_ago: now.since(event.at).as_secs_f64(),
            change: change.to_owned(),
            reason: reason.map(str::to_owned),
            endpoint: *endpoint,
            detail: detail(event.change, before, event.numbers),
            numbers: event.numbers.into(),
        });
        before = Some(event.numbers);
    }
    views
}

/// The name of a change, and its reason where it has one.
pub(crate) fn names(change: Change) -> (&'static str, Option<&'static str>) {
    match change {
        Change::Widen { reason } => ("widen", Some(reason.as_str())),
        Change::Narrow { reason } => ("narrow", Some(reason.as_str())),
        Change::Reason { to, .. } => ("reason", Some(to.as_str())),
        Change::Ejected { cause, .. } => ("ejected", Some(cause_name(cause))),
        Change::Probe { .. } => ("probe", None),
        Change::Probed { .. } => ("probed", None),
        Change::Restored { .. } => ("restored", None),
        Change::RemoteJoined { reason, .. } => ("remote_joined", Some(reason.as_str())),
        Change::RemoteLeft { reason, .. } => ("remote_left", Some(reason.as_str())),
        Change::Hold { .. } => ("hold", None),
    }
}

const fn cause_name(cause: EjectionCause) -> &'static str {
    match cause {
        EjectionCause::Consecutive => "consecutive",
        EjectionCause::SuccessRate => "success_rate",
        EjectionCause::ProbeFailed => "probe_failed",
    }
}

/// One line for people: `share 1.00→0.62 k 0→5 L=1.90 lcb=1.70 R0=36ms`.
fn detail(change: Change, before: Option<Numbers>, now: Numbers) -> String {
    let valve = || {
        let was = before.map_or_else(String::new, |before| format!("{:.2}→", before.share));
        let reached = before.map_or_else(String::new, |before| format!("{}→", before.reach));
        let Numbers { share, reach, load, load_lower, baseline_seconds, .. } = now;
        let baseline = baseline_seconds * 1000.0;
        format!(
            "share {was}{share:.2} k {reached}{reach} L={load:.2} lcb={load_lower:.2} R0={baseline:.0}ms"
        )
    };
    match change {
        Change::Widen { .. }
        | Change::Narrow { .. }
        | Change::RemoteJoined { .. }
        | Change::RemoteLeft { .. } => valve(),
        Change::Reason { from, to } => format!("{} → {}, {}", from.as_str(), to.as_str(), valve()),
        Change::Ejected { cause, backoff, .. } => {
            format!(
                "{}, next probe in {}",
                cause_words(cause),
                humantime::format_duration(rounded(backoff))
            )
        }
        Change::Probe { .. } => "one request is sent to see whether it serves again".to_owned(),
        Change::Probed { success: true, .. } => "the probe succeeded".to_owned(),
        Change::Probed { success: false, .. } => "the probe failed".to_owned(),
        Change::Restored { .. } => "it serves again".to_owned(),
        Change::Hold { length } => {
            format!(
                "crossing did not help and is given up for {}",
                humantime::format_duration(rounded(length))
            )
        }
    }
}

const fn cause_words(cause: EjectionCause) -> &'static str {
    match cause {
        EjectionCause::Consecutive => "too many failures in a row",
        EjectionCause::SuccessRate => "success rate too low",
        EjectionCause::ProbeFailed => "a probe failed",
    }
}

/// To tenths of a second.
fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis() / 100 * 100).unwrap_or(u64::MAX))
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn known_milliseconds(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds * 1000.0)
}
