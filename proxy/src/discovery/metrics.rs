//! The metrics of discovery.

use metrics::{Counter, Gauge};

/// Says what each metric means. To be called once, after the recorder was installed.
pub fn describe() {
    metrics::describe_counter!(
        "tidegate_discovery_updates_total",
        "Changes of the topology that were taken over"
    );
    metrics::describe_counter!(
        "tidegate_discovery_errors_total",
        "Changes of the topology that could not be read; the last good one stays in force"
    );
    metrics::describe_gauge!(
        "tidegate_discovery_up",
        "1 while the last change of the topology could be read, else 0"
    );
}

/// The handles.
#[derive(Debug)]
pub struct DiscoveryMetrics {
    pub(crate) updates: Counter,
    pub(crate) errors: Counter,
    pub(crate) up: Gauge,
}

impl Default for DiscoveryMetrics {
    fn default() -> Self {
        Self {
            updates: metrics::counter!("tidegate_discovery_updates_total"),
            errors: metrics::counter!("tidegate_discovery_errors_total"),
            up: metrics::gauge!("tidegate_discovery_up"),
        }
    }
}
