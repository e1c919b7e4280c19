//! What namespaces say about their pods: labels, kept current by a watch.

use crate::pod::{Namespace, PodSecurity};
use k8s_openapi::api::core::v1::Namespace as Object;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, ResourceExt as _};
use std::pin::pin;
use std::time::Duration;
use tokio_stream::StreamExt as _;

/// Longest wait for a namespace that the watch does not know yet, such as one made a moment ago. Well below the webhook's timeout.
const LOOK_UP: Duration = Duration::from_secs(2);

/// The labels of all namespaces. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Namespaces {
    store: Store<PartialObjectMeta<Object>>,
    api: Api<PartialObjectMeta<Object>>,
}

/// A namespace cannot be looked up.
#[derive(Debug, thiserror::Error)]
#[error("namespace {name}: {error}")]
pub struct Unknown {
    name: String,
    error: String,
}

impl Namespaces {
    /// Begins to watch. The future goes on for ever; it must be run.
    pub fn watch(client: Client) -> (Self, impl Future<Output = ()> + Send) {
        let api: Api<PartialObjectMeta<Object>> = Api::all(client);
        let (store, writer) = reflector::store();
        let events = watcher(api.clone(), watcher::Config::default()).default_backoff();
        let watch = async move {
            let mut events = pin!(events.reflect(writer));
            while let Some(event) = events.next().await {
                if let Err(error) = event {
                    tracing::warn!(%error, "watching namespaces failed; what is known stays in force");
                }
            }
        };
        (Self { store, api }, watch)
    }

    /// Until all namespaces are known.
    pub async fn synced(&self) {
        // An error means that the watch has ended, and with it the program.
        drop(self.store.wait_until_ready().await);
    }

    /// What a namespace says. Asks the API server for one that the watch does not know.
    pub async fn find(&self, name: &str, otherwise: PodSecurity) -> Result<Namespace, Unknown> {
        if let Some(known) = self.store.get(&ObjectRef::new(name)) {
            return Ok(Namespace::new(name, known.labels(), otherwise));
        }
        let unknown = |error: String| Unknown { name: name.to_owned(), error };
        match tokio::time::timeout(LOOK_UP, self.api.get(name)).await {
            Ok(Ok(found)) => Ok(Namespace::new(name, found.labels(), otherwise)),
            Ok(Err(error)) => Err(unknown(error.to_string())),
            Err(_late) => Err(unknown(format!("no answer within {LOOK_UP:?}"))),
        }
    }

    /// The namespaces that ask for the proxy.
    pub fn enabled(&self) -> Vec<String> {
        let asks = |object: &PartialObjectMeta<Object>| {
            object.labels().get(api::names::label::INJECT).is_some_and(|value| value == "enabled")
        };
        self.store.state_filter(asks).iter().map(|object| object.name_any()).collect()
    }
}
