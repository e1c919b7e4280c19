//! Whether a server can be reached at all: a watch on a connection that hangs looks like a quiet one.

use super::health::Gauge;
use kube::Client;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Between two questions.
const EVERY: Duration = Duration::from_secs(3);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Asks for ever. When a server answers again after silence, all watches start over: theirs may be waiting on a connection that
/// is long gone.
pub(super) async fn probe(client: Client, gauge: Gauge, again: watch::Sender<u64>) {
    let mut silent = false;
    loop {
        match tokio::time::timeout(ANSWER, client.apiserver_version()).await {
            // Any answer is one, also a refusal.
            Ok(Ok(_) | Err(kube::Error::Api(_))) => {
                gauge.synced();
                if silent {
                    tracing::info!(
                        cluster = gauge.name().0,
                        "the API server answers again; listing everything anew"
                    );
                    again.send_modify(|count| *count += 1);
                }
                silent = false;
            }
            Ok(Err(error)) => {
                // Refused or reset: watches have ended, too, and begin again by themselves.
                if gauge.fails(Instant::now()) {
                    tracing::warn!(%error, cluster = gauge.name().0, "no connection to the API server");
                }
            }
            Err(_elapsed) => {
                silent = true;
                if gauge.fails(Instant::now()) {
                    tracing::warn!(cluster = gauge.name().0, "the API server does not answer");
                }
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
