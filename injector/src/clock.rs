//! The one place that reads the time of day. Certificates end at a date.
#![expect(clippy::disallowed_methods, reason = "this is the one place that reads the time of day")]

use std::time::SystemTime;

/// Now.
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}
