//! `docs/metrics.md`.

use crate::{check, table};
use kit::metrics::{Build, Metrics};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The labels of each metric that has any, with their values where these are a closed list.
const LABELS: &[(&str, &str)] = &[
    ("tidegate_build_info", "program, version"),
    (
        "tidegate_closed_connections_total",
        "peer (caller, endpoint), reason (idle, header_timeout, stalled, bad_message, control_flood, reset_flood, overloaded)",
    ),
    (
        "tidegate_connections_total",
        "direction (outbound, inbound), service, src_zone, dst_zone, class (success, failure, cancelled, rejected)",
    ),
    ("tidegate_discovery_destinations", "target (balanced, passthrough, waiting)"),
    ("tidegate_ejections_total", "service, zone, reason (consecutive, success_rate, probe_failed)"),
    ("tidegate_endpoints", "service, zone, state (known, active, serving, ejected, probing)"),
    ("tidegate_load", "service, signal (normalized, outstanding)"),
    ("tidegate_load_band", "service, bound (low, high)"),
    ("tidegate_local_share", "service"),
    ("tidegate_open_connections", "direction (outbound, inbound), service, src_zone, dst_zone"),
    ("tidegate_picks_total", "service, locality (local, remote), reason"),
    ("tidegate_pool_changes_total", "service, change (widen, narrow), reason"),
    ("tidegate_probes_total", "service, zone, reason (success, failure)"),
    (
        "tidegate_refused_requests_total",
        "direction (outbound), reason: `tidegate-reason` of the answer",
    ),
    ("tidegate_remote_endpoints_in_use", "service"),
    (
        "tidegate_request_duration_seconds",
        "direction (outbound, inbound), service, locality (local, remote, unknown)",
    ),
    (
        "tidegate_requests_total",
        "direction (outbound, inbound), service, src_zone, dst_zone, protocol (http1, http2, grpc), class (success, failure, cancelled, rejected)",
    ),
    ("tidegate_requests_in_flight", "direction (inbound), service"),
    ("tidegate_retries_total", "service, result (sent, budget_exhausted, not_replayable)"),
    ("tidegate_would_be_picks_total", "service, locality (local, remote), reason"),
    ("tidegate_zone_bytes_total", "service, src_zone, dst_zone, flow (sent, received)"),
];

const QUERIES: &[(&str, &str)] = &[
    (
        "Success rate by the callers' zone",
        "sum by (src_zone) (rate(tidegate_requests_total{class=\"success\"}[1m]))\n  / sum by (src_zone) (rate(tidegate_requests_total{class=~\"success|failure\"}[1m]))",
    ),
    (
        "Share of requests that cross zones, by service",
        "sum by (service) (rate(tidegate_picks_total{locality=\"remote\"}[1m]))\n  / sum by (service) (rate(tidegate_picks_total[1m]))",
    ),
    (
        "Why they cross",
        "sum by (service, reason) (rate(tidegate_picks_total{locality=\"remote\"}[1m]))",
    ),
];

#[test]
fn the_page_of_metrics_is_what_the_code_exports() {
    let mut described = described();
    for (name, _) in LABELS {
        assert!(
            described.contains_key(*name),
            "{name} has labels here but is not described in the code"
        );
    }
    let rows = std::iter::from_fn(|| described.pop_first()).map(|(name, (kind, help))| {
        let labels =
            LABELS.iter().find(|(labelled, _)| *labelled == name).map_or("", |(_, labels)| labels);
        [format!("`{name}`"), kind.to_owned(), labels.to_owned(), help]
    });
    let query = |(title, query): &(&str, &str)| format!("{title}:\n\n```promql\n{query}\n```\n");
    let queries = QUERIES.iter().map(query).collect::<Vec<_>>().join("\n");
    let page = format!(
        "# Metrics\n\n\
         <!-- Made from the code by proxy/tests/docs: edit there. -->\n\n\
         Prometheus' text format at `/metrics` of the admin server (port 4291).\n\n\
         {}\n\
         A zone that is not known is `unknown`. What each `reason` of picks and pool changes means, and what to do, is in\n\
         [algorithm.md](algorithm.md). Labels are bounded by what discovery names: no path, header or address of a caller is ever one.\n\
         Series of services that are gone stay until the proxy restarts, so that no counter runs backwards.\n\n\
         ## Queries to begin with\n\n{}",
        table(["name", "type", "labels", "meaning"], rows),
        queries,
    );
    check("metrics.md", &page);
}

/// Name, type and meaning of everything that the proxy exports.
fn described() -> BTreeMap<String, (&'static str, String)> {
    let noted = Noted::default();
    metrics::with_local_recorder(&noted, || {
        proxy::metrics::describe();
        proxy::discovery::metrics::describe();
    });
    let mut described = noted.0.into_inner();
    // What the kit exports by itself is seen in what it renders.
    let (metrics, _recorder) = Metrics::local(Build { program: "proxy", version: "1" });
    let text = metrics.render();
    for line in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').expect("a help");
        let counter = text.contains(&format!("# TYPE {name} counter"));
        described
            .insert(name.to_owned(), (if counter { "counter" } else { "gauge" }, help.to_owned()));
    }
    described
}

/// Notes what is described.
#[derive(Default)]
struct Noted(Mutex<BTreeMap<String, (&'static str, String)>>);

impl Noted {
    fn note(&self, name: &KeyName, kind: &'static str, help: &SharedString) {
        let mut noted = self.0.lock();
        let twice = noted.insert(name.as_str().to_owned(), (kind, help.to_string()));
        assert!(twice.is_none(), "{} is described twice", name.as_str());
    }
}

impl Recorder for Noted {
    fn describe_counter(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.note(&name, "counter", &help);
    }

    fn describe_gauge(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.note(&name, "gauge", &help);
    }

    fn describe_histogram(&self, name: KeyName, _unit: Option<Unit>, help: SharedString) {
        self.note(&name, "histogram", &help);
    }

    fn register_counter(&self, _key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
