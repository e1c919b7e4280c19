//! Whether a server can be reached at all: a watch on a connection that hangs looks like a quiet one.

use super::health::Gauge;
use kube::{Client, Config};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Between two questions.
const EVERY: Duration = Duration::from_secs(3);
/// The same while the server is silent: waiting for its answer is pause enough.
const SILENT: Duration = Duration::from_millis(300);
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(3);

/// Asks for ever. When a server answers again after silence, all watches start over with a new client: the connections of the old
/// one, used or kept for later, may be dead without knowing.
pub(super) async fn probe(config: Config, gauge: Gauge, clients: watch::Sender<Client>) {
    let mut client = clients.borrow().clone();
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
                    clients.send_replace(client.clone());
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
                match Client::try_from(config.clone()) {
                    Ok(new) => client = new,
                    Err(error) => tracing::warn!(%error, "no new client for the API server"),
                }
                if gauge.fails(Instant::now()) {
                    tracing::warn!(cluster = gauge.name().0, "the API server does not answer");
                }
            }
        }
        tokio::time::sleep(if silent { SILENT } else { EVERY }).await;
    }
}
