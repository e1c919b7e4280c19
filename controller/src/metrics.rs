//! The names of the controller's metrics.

use crate::hub::Hub;
use crate::watch::health::Health;
use metrics::{describe_gauge, gauge};
use tokio::time::Instant;

const STALE: &str = "tidegate_discovery_stale_seconds";
const STREAMS: &str = "tidegate_discovery_streams";
const SERVICES: &str = "tidegate_discovery_services";

/// Name, labels and meaning of each.
pub const GAUGES: [(&str, &str, &str); 3] = [
    (STALE, "cluster, kind", "Seconds for which a watch has failed by now; 0 while it works"),
    (STREAMS, "", "Proxies that listen"),
    (SERVICES, "", "Ports of Services that are known"),
];

/// Describes them all.
pub fn describe() {
    for (name, _, meaning) in GAUGES {
        describe_gauge!(name, meaning);
    }
}

/// Sets the gauges, which are only looked up when asked for.
pub fn refresh(hub: &Hub, health: &Health) {
    for (cluster, kind, seconds) in health.stale_seconds(Instant::now()) {
        let cluster = cluster.as_str().to_owned();
        gauge!(STALE, "cluster" => cluster, "kind" => kind).set(seconds);
    }
    let (streams, services) =
        hub.look(|state| (state.streams(), state.index().service_ids().len()));
    gauge!(STREAMS).set(streams as f64);
    gauge!(SERVICES).set(services as f64);
}
