//! The names of the controller's metrics.

use crate::hub::Hub;
use crate::watch::health::Health;
use metrics::{describe_gauge, gauge};
use tokio::time::Instant;

/// Describes them all.
pub fn describe() {
    describe_gauge!(
        "tidegate_discovery_stale_seconds",
        "Seconds for which a watch has failed by now; 0 while it works"
    );
    describe_gauge!("tidegate_discovery_streams", "Proxies that listen");
    describe_gauge!("tidegate_discovery_services", "Ports of Services that are known");
}

/// Sets the gauges that are only looked up when asked for.
pub fn refresh(hub: &Hub, health: &Health) {
    for (cluster, kind, seconds) in health.stale_seconds(Instant::now()) {
        let cluster = cluster.as_str().to_owned();
        gauge!("tidegate_discovery_stale_seconds", "cluster" => cluster, "kind" => kind)
            .set(seconds);
    }
    let (streams, services) =
        hub.look(|state| (state.streams(), state.index().service_ids().len()));
    gauge!("tidegate_discovery_streams").set(streams as f64);
    gauge!("tidegate_discovery_services").set(services as f64);
}
