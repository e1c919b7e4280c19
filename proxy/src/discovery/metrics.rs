//! The metrics of discovery.

use super::controller::status::Status;
use crate::destinations::{Census, Destinations};
use metrics::{Counter, Gauge};

/// Says what each metric means. To be called once, after the recorder was installed.
pub fn describe() {
    metrics::describe_counter!(
        "tidegate_discovery_updates_total",
        "Changes of the topology, or messages of the controller, that were taken over"
    );
    metrics::describe_counter!(
        "tidegate_discovery_errors_total",
        "Changes of the topology, or messages of the controller, that could not be read; what was known stays in force"
    );
    metrics::describe_gauge!(
        "tidegate_discovery_up",
        "1 while the last change of the topology could be read, or a stream of the controller is open, else 0"
    );
    metrics::describe_counter!(
        "tidegate_discovery_resyncs_total",
        "Times that the controller was asked for everything again, since its stream was lost or a message missed"
    );
    metrics::describe_gauge!(
        "tidegate_discovery_stale_seconds",
        metrics::Unit::Seconds,
        "Time since a stream of the controller was alive; 0 while one is"
    );
    metrics::describe_gauge!(
        "tidegate_discovery_destinations",
        "Destinations in use that the controller is asked for, by what they are"
    );
}

/// The handles.
#[derive(Debug)]
pub struct DiscoveryMetrics {
    pub(crate) updates: Counter,
    pub(crate) errors: Counter,
    pub(crate) up: Gauge,
    pub(crate) resyncs: Counter,
}

impl Default for DiscoveryMetrics {
    fn default() -> Self {
        Self {
            updates: metrics::counter!("tidegate_discovery_updates_total"),
            errors: metrics::counter!("tidegate_discovery_errors_total"),
            up: metrics::gauge!("tidegate_discovery_up"),
            resyncs: metrics::counter!("tidegate_discovery_resyncs_total"),
        }
    }
}

/// Sets what nobody keeps current. To be called before a scrape.
pub(crate) fn set_gauges(status: &Status, destinations: &Destinations) {
    if let Some(stale) = status.seen().stale {
        metrics::gauge!("tidegate_discovery_stale_seconds").set(stale.as_secs_f64());
    }
    let Census { balanced, passthrough, waiting } = destinations.census();
    for (target, count) in
        [("balanced", balanced), ("passthrough", passthrough), ("waiting", waiting)]
    {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        metrics::gauge!("tidegate_discovery_destinations", "target" => target)
            .set(f64::from(count));
    }
}
