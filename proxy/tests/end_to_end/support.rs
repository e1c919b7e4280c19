//! What the tests are made of: a proxy, scripted endpoints and scripted callers.

pub(crate) mod caller;
pub(crate) mod endpoint;
pub(crate) mod message;
pub(crate) mod proxy;

use std::time::Duration;

/// How long anything may take before a test fails: far longer than needed on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = tokio::time::Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Limits a step in time.
pub(crate) async fn within<T>(what: &str, step: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, step).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}
