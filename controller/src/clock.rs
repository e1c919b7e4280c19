//! The one place that reads the clock of the wall: for what people and HTTP are shown.

use k8s_openapi::jiff::Timestamp;

/// The time of day.
pub fn now() -> Timestamp {
    Timestamp::now()
}
