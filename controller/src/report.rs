//! What is written back to the API server: events on objects, and the status of LocalityPolicies.
//!
//! Every replica writes, and what they write is the same: an event's name is a digest of what it says, so that the second replica's
//! is refused as a duplicate; a status is written only where it differs.

mod event;
mod status;

use crate::hub::Hub;
use crate::index::finding::Finding;
use kube::Client;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Changes are gathered for this long: a rollout is hundreds of them.
const GATHER: Duration = Duration::from_millis(500);
/// Pause after a failed write; longer than gathering, since the server has trouble.
const PAUSE: Duration = Duration::from_secs(5);
/// Findings that are remembered as told, or still to be told. More than that many broken objects are told of again.
const REMEMBERED: usize = 10_000;

/// Writes for ever.
pub async fn report(client: Client, hub: Arc<Hub>) {
    let mailbox = hub.reporter();
    let (mut told, mut untold) = (HashSet::<Finding>::new(), BTreeSet::<Finding>::new());
    loop {
        let mut dirty = mailbox.take().await;
        tokio::time::sleep(GATHER).await;
        dirty.append(&mut mailbox.take_now());
        let found = hub.look(|state| {
            let index = state.index();
            dirty.iter().flat_map(|interest| index.findings(interest)).collect::<Vec<_>>()
        });
        untold.extend(found.into_iter().filter(|finding| !told.contains(finding)));
        if told.len() > REMEMBERED || untold.len() > REMEMBERED {
            told.clear();
            untold.clear();
        }
        let written = write(&client, &hub, &mut told, &mut untold).await;
        if let Err(error) = written {
            tracing::warn!(%error, "cannot write events or statuses; trying again");
            tokio::time::sleep(PAUSE).await;
            mailbox.put_back(dirty);
        }
    }
}

async fn write(
    client: &Client,
    hub: &Hub,
    told: &mut HashSet<Finding>,
    untold: &mut BTreeSet<Finding>,
) -> kube::Result<()> {
    while let Some(finding) = untold.first().cloned() {
        event::write(client, &finding).await?;
        untold.remove(&finding);
        told.insert(finding);
    }
    status::write(client, hub).await
}
