//! What each proxy says of itself once a second: counters from `/metrics`, state and decisions from `/debug/services`.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::exposition::Scrape;
use crate::fetch::{self, FetchError};
use crate::policy::{Policy, SERVICE, ZONES};

/// A proxy that does not answer within this is left out of that second.
const PATIENCE: Duration = Duration::from_millis(900);

/// Everything seen of one proxy.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) policy: Policy,
    pub(crate) zone: &'static str,
    pub(crate) admin: SocketAddr,
    /// In order of time.
    pub(crate) samples: Vec<Sample>,
    /// In order of time.
    pub(crate) decisions: Vec<Decision>,
}

/// One second's look at a proxy. Counters run from its start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    /// Seconds from the start of the load.
    pub(crate) at: f64,
    pub(crate) counters: Counters,
    pub(crate) state: State,
}

/// Counters of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Counters {
    /// Requests by the zone of the endpoint that answered, in the order of [`ZONES`].
    pub(crate) by_zone: [f64; 3],
    /// All requests, those without an endpoint included.
    pub(crate) requests: f64,
    /// Requests that ended well, after retries.
    pub(crate) successes: f64,
    /// Retries sent.
    pub(crate) retries: f64,
    /// Bytes from and to other zones.
    pub(crate) cross_bytes: f64,
    /// Bytes from and to all zones.
    pub(crate) bytes: f64,
}

/// State of a proxy's balancer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) reason: String,
    pub(crate) share: Option<f64>,
    pub(crate) load: Option<f64>,
    pub(crate) band: Option<(f64, f64)>,
    pub(crate) active_local: u32,
    pub(crate) active_remote: u32,
    /// Endpoints whose breaker is open, probed ones included.
    pub(crate) ejected: u32,
}

/// A change of the pool, with its reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Decision {
    /// The proxy's own number of it.
    #[serde(skip)]
    pub(crate) number: u64,
    /// Seconds from the start of the load.
    pub(crate) at: f64,
    pub(crate) change: String,
    pub(crate) reason: String,
    pub(crate) endpoint: Option<String>,
    pub(crate) detail: String,
}

/// As much of `/debug/services` as the demo shows; unknown fields are left to later versions.
#[derive(Debug, Deserialize)]
struct Debug {
    services: Vec<Service>,
}

#[derive(Debug, Deserialize)]
struct Service {
    name: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    numbers: Numbers,
    load_band: Option<Band>,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
    #[serde(default)]
    decisions: Vec<RawDecision>,
}

#[derive(Debug, Default, Deserialize)]
struct Numbers {
    share: Option<f64>,
    load: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Band {
    low: f64,
    high: f64,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    locality: String,
    state: String,
    active: bool,
}

#[derive(Debug, Deserialize)]
struct RawDecision {
    number: u64,
    seconds_ago: f64,
    change: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    endpoint: Option<String>,
    #[serde(default)]
    detail: Option<String>,
}

/// A look at a proxy before it is added to what was seen.
#[derive(Debug)]
pub(crate) struct Look {
    sample: Sample,
    decisions: Vec<Decision>,
}

/// Looks at one proxy.
pub(crate) async fn look(
    admin: SocketAddr,
    zone: &'static str,
    clock: Clock,
) -> Result<Look, FetchError> {
    let (metrics, debug) = tokio::join!(
        fetch::get(admin, "/metrics", PATIENCE),
        fetch::get(admin, "/debug/services", PATIENCE)
    );
    let at = clock.seconds();
    let counters = counters(&Scrape::parse(&metrics?.body), zone);
    let unreadable = |error: serde_json::Error| FetchError::Unreadable {
        address: admin,
        path: "/debug/services".to_owned(),
        why: error.to_string(),
    };
    let debug: Debug = serde_json::from_str(&debug?.body).map_err(unreadable)?;
    let service = debug.services.into_iter().find(|service| service.name == SERVICE);
    let (state, decisions) =
        service.map_or_else(Default::default, |service| (state(&service), decisions(service, at)));
    Ok(Look { sample: Sample { at, counters, state }, decisions })
}

fn counters(scrape: &Scrape<'_>, zone: &str) -> Counters {
    let requests = |label: (&str, &str)| {
        scrape.sum(
            "tidegate_requests_total",
            &[("direction", "outbound"), ("service", SERVICE), label],
        )
    };
    let bytes = |labels: &[(&str, &str)]| scrape.sum("tidegate_zone_bytes_total", labels);
    let all_bytes = bytes(&[("service", SERVICE)]);
    Counters {
        by_zone: ZONES.map(|zone| requests(("dst_zone", zone))),
        requests: requests(("service", SERVICE)),
        successes: requests(("class", "success")),
        retries: scrape.sum("tidegate_retries_total", &[("service", SERVICE), ("result", "sent")]),
        cross_bytes: all_bytes - bytes(&[("service", SERVICE), ("dst_zone", zone)]),
        bytes: all_bytes,
    }
}

fn state(service: &Service) -> State {
    let count = |wanted: &dyn Fn(&Endpoint) -> bool| {
        u32::try_from(service.endpoints.iter().filter(|endpoint| wanted(endpoint)).count())
            .unwrap_or(u32::MAX)
    };
    State {
        reason: service.reason.clone(),
        share: service.numbers.share,
        load: service.numbers.load,
        band: service.load_band.as_ref().map(|band| (band.low, band.high)),
        active_local: count(&|endpoint| {
            endpoint.active && endpoint.state == "serving" && endpoint.locality == "local"
        }),
        active_remote: count(&|endpoint| {
            endpoint.active && endpoint.state == "serving" && endpoint.locality != "local"
        }),
        ejected: count(&|endpoint| endpoint.state != "serving"),
    }
}

fn decisions(service: Service, now: f64) -> Vec<Decision> {
    let mut decisions: Vec<Decision> = service
        .decisions
        .into_iter()
        .map(|raw| Decision {
            number: raw.number,
            at: now - raw.seconds_ago,
            change: raw.change,
            reason: raw.reason.unwrap_or_default(),
            endpoint: raw.endpoint,
            detail: raw.detail.unwrap_or_default(),
        })
        .collect();
    decisions.sort_by_key(|decision| decision.number);
    decisions
}

impl Observed {
    /// Nothing seen yet.
    pub(crate) fn new(policy: Policy, zone: &'static str, admin: SocketAddr) -> Self {
        Self { policy, zone, admin, samples: Vec::new(), decisions: Vec::new() }
    }

    /// Adds a look, and gives the number of decisions that are new.
    pub(crate) fn add(&mut self, look: Look) -> usize {
        self.samples.push(look.sample);
        let (known, last) = (self.decisions.len(), self.decisions.last().map(|last| last.number));
        let new = look.decisions.into_iter().filter(|decision| Some(decision.number) > last);
        self.decisions.extend(new);
        self.decisions.len() - known
    }

    /// The last look at or before a moment, give or take the second's part that a look takes.
    pub(crate) fn at(&self, seconds: f64) -> Option<&Sample> {
        self.samples.iter().rev().find(|sample| sample.at < seconds + 0.9)
    }

    /// What was counted from one whole second to another.
    pub(crate) fn between(&self, from: u32, to: u32) -> Counters {
        let counters = |second: u32| {
            self.at(f64::from(second)).map(|sample| sample.counters).unwrap_or_default()
        };
        counters(to) - counters(from)
    }
}

impl Decision {
    /// A step of the probing of an ejected endpoint: hundreds in a minute, and of interest only when it is over.
    pub(crate) fn is_routine(&self) -> bool {
        matches!(self.change.as_str(), "probe" | "probed") || self.reason == "probe_failed"
    }
}

impl std::ops::Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        let [[a, b, c], [earlier_a, earlier_b, earlier_c]] = [self.by_zone, earlier.by_zone];
        Self {
            by_zone: [a - earlier_a, b - earlier_b, c - earlier_c],
            requests: self.requests - earlier.requests,
            successes: self.successes - earlier.successes,
            retries: self.retries - earlier.retries,
            cross_bytes: self.cross_bytes - earlier.cross_bytes,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

impl Counters {
    /// Share of the requests that an endpoint of another zone answered.
    pub(crate) fn cross_zone(&self, zone: &str) -> Option<f64> {
        let placed: f64 = self.by_zone.iter().sum();
        let local: f64 = ZONES
            .iter()
            .zip(self.by_zone)
            .filter(|(name, _)| **name == zone)
            .map(|(_, requests)| requests)
            .sum();
        (placed > 0.0).then(|| (placed - local) / placed)
    }

    /// Share of the requests that ended well, after retries.
    pub(crate) fn success(&self) -> Option<f64> {
        (self.requests > 0.0).then(|| self.successes / self.requests)
    }

    /// Share of attempts that went well, each retry being an attempt of its own: success as it were without retries.
    pub(crate) fn attempt_success(&self) -> Option<f64> {
        let attempts = self.requests + self.retries;
        (attempts > 0.0).then(|| self.successes / attempts)
    }
}

#[cfg(test)]
mod tests;
