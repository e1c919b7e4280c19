//! The names and labels of every metric of the data path, and the handles behind them. No other file names a metric.
//!
//! Handles are made once and kept beside what they count. Where a family has many label values of which most never occur
//! (19 reasons, 4 classes), its handles are made at their first use, so that only series that exist are exported.

pub(crate) mod edge;

use balance::endpoint::Locality;
use balance::event::EjectionCause;
use balance::reason::Reason;
use metrics::{Counter, Gauge, Histogram, SharedString};
use std::sync::{Arc, OnceLock};

/// The label value of a zone that is not known.
pub const UNKNOWN: &str = "unknown";

/// How a request ended, as its caller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Answered, and not by an error of the endpoint.
    Success,
    /// Failed by the endpoint's fault.
    Failure,
    /// Given up by the caller.
    Cancelled,
    /// Answered by the proxy itself, without an endpoint.
    Rejected,
}

/// What the caller and the proxy speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 that is not gRPC.
    Http2,
    /// gRPC.
    Grpc,
}

/// What became of the wish to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryResult {
    /// A second attempt was sent.
    Sent,
    /// The retry budget allowed none.
    BudgetExhausted,
    /// The request could not be sent twice.
    NotReplayable,
}

const CLASSES: [&str; 4] = ["success", "failure", "cancelled", "rejected"];
const PROTOCOLS: [&str; 3] = ["http1", "http2", "grpc"];
const LOCALITIES: [&str; 3] = ["local", "remote", UNKNOWN];
const CAUSES: [&str; 3] = ["consecutive", "success_rate", "probe_failed"];
const STATES: [&str; 5] = ["known", "active", "serving", "ejected", "probing"];
const REASONS: usize = Reason::ALL.len();

/// Says what each metric means. To be called once, after the recorder was installed.
pub fn describe() {
    edge::describe();
    metrics::describe_counter!(
        "tidegate_requests_total",
        "Requests as their callers see them, retries included"
    );
    metrics::describe_counter!(
        "tidegate_connections_total",
        "Connections that are not HTTP, by how they ended"
    );
    metrics::describe_gauge!(
        "tidegate_requests_in_flight",
        "Calls to the application whose answers are under way"
    );
    metrics::describe_gauge!("tidegate_open_connections", "Open connections that are not HTTP");
    metrics::describe_histogram!(
        "tidegate_request_duration_seconds",
        metrics::Unit::Seconds,
        "Time from a request's headers to the end of its response"
    );
    metrics::describe_counter!(
        "tidegate_zone_bytes_total",
        metrics::Unit::Bytes,
        "Bytes on the sockets of endpoints, by zone"
    );
    metrics::describe_counter!(
        "tidegate_would_be_picks_total",
        "What the policy would have done with ungoverned requests"
    );
    metrics::describe_gauge!("tidegate_endpoints", "Endpoints by state");
    metrics::describe_gauge!("tidegate_load", "Load of the local zone as the valve sees it");
    metrics::describe_gauge!(
        "tidegate_load_band",
        "Load below which remote endpoints leave and above which they join"
    );
    metrics::describe_counter!("tidegate_pool_changes_total", "Changes of the active pool and why");
    metrics::describe_counter!("tidegate_picks_total", "Requests by where they were sent and why");
    metrics::describe_gauge!("tidegate_local_share", "Probability that a request stays local");
    metrics::describe_gauge!("tidegate_remote_endpoints_in_use", "Remote endpoints that take part");
    metrics::describe_counter!("tidegate_ejections_total", "Endpoints taken out by their breaker");
    metrics::describe_counter!("tidegate_probes_total", "Probes of ejected endpoints");
    metrics::describe_counter!("tidegate_retries_total", "Wishes to retry and what became of them");
}

/// A family of counters over one label's values, each made at its first use.
#[derive(Debug)]
struct Lazy<const N: usize>([OnceLock<Counter>; N]);

impl<const N: usize> Default for Lazy<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<const N: usize> Lazy<N> {
    fn increment(&self, index: usize, make: impl FnOnce() -> Counter) {
        if let Some(cell) = self.0.get(index) {
            cell.get_or_init(make).increment(1);
        }
    }
}

/// Whose calls are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The application's.
    #[default]
    Outbound,
    /// Those to the application.
    Inbound,
}

impl Direction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
        }
    }
}

/// What is counted per service.
#[derive(Debug)]
pub struct ServiceMetrics {
    direction: Direction,
    service: SharedString,
    picks: [Lazy<REASONS>; 2],
    would_be: [Lazy<REASONS>; 2],
    pool_changes: [Lazy<REASONS>; 2],
    retries: Lazy<3>,
    durations: [OnceLock<Histogram>; 3],
    in_flight: OnceLock<Gauge>,
}

impl ServiceMetrics {
    /// The handles of one service.
    pub(crate) fn new(direction: Direction, service: &Arc<str>) -> Self {
        Self {
            direction,
            picks: Default::default(),
            would_be: Default::default(),
            pool_changes: Default::default(),
            retries: Lazy::default(),
            durations: Default::default(),
            in_flight: OnceLock::new(),
            service: SharedString::from(Arc::clone(service)),
        }
    }

    /// Counts where a request was sent and why; nothing is chosen for calls to the application.
    pub(crate) fn picked(&self, locality: Locality, reason: Reason) {
        if self.direction == Direction::Outbound
            && let Some(family) = self.picks.get(index_of(locality))
        {
            family.increment(reason as usize, || {
                metrics::counter!("tidegate_picks_total", "service" => self.service.clone(),
                    "locality" => name_of(locality), "reason" => reason.as_str())
            });
        }
    }

    pub(crate) fn would_pick(&self, locality: Locality, reason: Reason) {
        if let Some(family) = self.would_be.get(index_of(locality)) {
            family.increment(reason as usize, || {
                metrics::counter!("tidegate_would_be_picks_total", "service" => self.service.clone(),
                    "locality" => name_of(locality), "reason" => reason.as_str())
            });
        }
    }

    pub(crate) fn pool_changed(&self, widened: bool, reason: Reason) {
        let (index, change) = if widened { (0, "widen") } else { (1, "narrow") };
        if let Some(family) = self.pool_changes.get(index) {
            family.increment(reason as usize, || {
                metrics::counter!("tidegate_pool_changes_total", "service" => self.service.clone(),
                    "change" => change, "reason" => reason.as_str())
            });
        }
    }

    pub(crate) fn retried(&self, result: RetryResult) {
        let name = match result {
            RetryResult::Sent => "sent",
            RetryResult::BudgetExhausted => "budget_exhausted",
            RetryResult::NotReplayable => "not_replayable",
        };
        self.retries.increment(result as usize, || {
            metrics::counter!("tidegate_retries_total", "service" => self.service.clone(), "result" => name)
        });
    }

    pub(crate) fn lasted(&self, locality: Option<Locality>, seconds: f64) {
        let index = locality.map_or(2, index_of);
        if let (Some(cell), Some(name)) = (self.durations.get(index), LOCALITIES.get(index)) {
            cell.get_or_init(|| {
                metrics::histogram!("tidegate_request_duration_seconds", "direction" => self.direction.as_str(),
                    "service" => self.service.clone(), "locality" => *name)
            })
            .record(seconds);
        }
    }

    /// Counts a call to the application as in flight until what is returned is dropped. Those of the application are seen in
    /// the balancer.
    pub(crate) fn request_began(&self) -> Option<Open> {
        if self.direction == Direction::Outbound {
            return None;
        }
        let gauge = self.in_flight.get_or_init(|| {
            metrics::gauge!("tidegate_requests_in_flight", "direction" => self.direction.as_str(),
                "service" => self.service.clone())
        });
        gauge.increment(1.0);
        Some(Open(gauge.clone()))
    }

    /// Sets what only a snapshot knows.
    pub(crate) fn set_valve(&self, signal: &'static str, load: f64, band: (f64, f64)) {
        let gauge = |bound: &'static str| metrics::gauge!("tidegate_load_band", "service" => self.service.clone(), "bound" => bound);
        metrics::gauge!("tidegate_load", "service" => self.service.clone(), "signal" => signal)
            .set(load);
        gauge("low").set(band.0);
        gauge("high").set(band.1);
    }

    /// Sets the share of local requests and the number of remote endpoints in use.
    pub(crate) fn set_pool(&self, local_share: f64, remote_in_use: u32) {
        metrics::gauge!("tidegate_local_share", "service" => self.service.clone()).set(local_share);
        metrics::gauge!("tidegate_remote_endpoints_in_use", "service" => self.service.clone())
            .set(f64::from(remote_in_use));
    }
}

/// What is counted per service and zone of the endpoint.
#[derive(Debug)]
pub struct ZoneMetrics {
    direction: Direction,
    service: SharedString,
    source: SharedString,
    zone: SharedString,
    requests: [Lazy<4>; 3],
    connections: Lazy<4>,
    open: OnceLock<Gauge>,
    ejections: Lazy<3>,
    probes: Lazy<2>,
    sent: OnceLock<Counter>,
    received: OnceLock<Counter>,
}

impl ZoneMetrics {
    /// The handles of one service, one zone of the caller and one zone of endpoints.
    pub(crate) fn new(
        direction: Direction,
        service: &Arc<str>,
        source: Option<&Arc<str>>,
        zone: Option<&Arc<str>>,
    ) -> Self {
        let label = |zone: Option<&Arc<str>>| {
            zone.map_or(SharedString::const_str(UNKNOWN), |zone| {
                SharedString::from(Arc::clone(zone))
            })
        };
        Self {
            direction,
            service: SharedString::from(Arc::clone(service)),
            source: label(source),
            zone: label(zone),
            requests: Default::default(),
            connections: Lazy::default(),
            open: OnceLock::new(),
            ejections: Lazy::default(),
            probes: Lazy::default(),
            sent: OnceLock::new(),
            received: OnceLock::new(),
        }
    }

    pub(crate) fn requested(&self, protocol: Protocol, class: Class) {
        let names = (PROTOCOLS.get(protocol as usize), CLASSES.get(class as usize));
        if let (Some(family), (Some(protocol), Some(name))) =
            (self.requests.get(protocol as usize), names)
        {
            family.increment(class as usize, || {
                metrics::counter!("tidegate_requests_total", "direction" => self.direction.as_str(),
                    "service" => self.service.clone(), "src_zone" => self.source.clone(),
                    "dst_zone" => self.zone.clone(), "protocol" => *protocol, "class" => *name)
            });
        }
    }

    /// Counts a connection that is not HTTP, at its end.
    pub(crate) fn connected(&self, class: Class) {
        if let Some(name) = CLASSES.get(class as usize) {
            self.connections.increment(class as usize, || {
                metrics::counter!("tidegate_connections_total", "direction" => self.direction.as_str(),
                    "service" => self.service.clone(), "src_zone" => self.source.clone(),
                    "dst_zone" => self.zone.clone(), "class" => *name)
            });
        }
    }

    /// Counts a connection that is not HTTP as open until what is returned is dropped.
    pub(crate) fn connection_opened(&self) -> Open {
        let gauge = self.open.get_or_init(|| {
            metrics::gauge!("tidegate_open_connections", "direction" => self.direction.as_str(),
                "service" => self.service.clone(), "src_zone" => self.source.clone(),
                "dst_zone" => self.zone.clone())
        });
        gauge.increment(1.0);
        Open(gauge.clone())
    }

    pub(crate) fn ejected(&self, cause: EjectionCause) {
        if let Some(name) = CAUSES.get(cause as usize) {
            self.ejections.increment(cause as usize, || {
                metrics::counter!("tidegate_ejections_total", "service" => self.service.clone(),
                    "zone" => self.zone.clone(), "reason" => *name)
            });
        }
    }

    pub(crate) fn probed(&self, success: bool) {
        self.probes.increment(usize::from(success), || {
            metrics::counter!("tidegate_probes_total", "service" => self.service.clone(),
                "zone" => self.zone.clone(), "reason" => if success { "success" } else { "failure" })
        });
    }

    /// The counters of bytes on the sockets of this zone's endpoints: sent to them, received from them.
    /// Calls to the application cross nothing, and are counted where they come from.
    pub(crate) fn bytes(&self) -> (Counter, Counter) {
        if self.direction == Direction::Inbound {
            return (Counter::noop(), Counter::noop());
        }
        let make = |flow: &'static str| {
            metrics::counter!("tidegate_zone_bytes_total", "service" => self.service.clone(),
                "src_zone" => self.source.clone(), "dst_zone" => self.zone.clone(), "flow" => flow)
        };
        (
            self.sent.get_or_init(|| make("sent")).clone(),
            self.received.get_or_init(|| make("received")).clone(),
        )
    }

    /// Sets the number of endpoints of the zone by state, in the order known, active, serving, ejected, probing.
    pub(crate) fn set_endpoints(&self, counts: [u32; 5]) {
        for (state, count) in STATES.into_iter().zip(counts) {
            metrics::gauge!("tidegate_endpoints", "service" => self.service.clone(), "zone" => self.zone.clone(),
                "state" => state)
            .set(f64::from(count));
        }
    }
}

/// A connection or request that is counted as under way.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

const fn index_of(locality: Locality) -> usize {
    match locality {
        Locality::Local => 0,
        Locality::Remote => 1,
    }
}

const fn name_of(locality: Locality) -> &'static str {
    match locality {
        Locality::Local => "local",
        Locality::Remote => "remote",
    }
}
