//! Other clusters: each leads here by a Secret with a kubeconfig, labelled `tidegate.io/remote-cluster`.
//!
//! A cluster that cannot be reached keeps its last known endpoints: whether they answer is judged in band. Only when its Secret is
//! gone is it forgotten.

use super::follow::{Kind, Sink, follow};
use super::health::Health;
use super::home::{multicluster, nodes, services, slices};
use super::probe::probe;
use crate::hub::Hub;
use crate::index::key::Cluster;
use crate::index::{Change, Kept};
use api::names::label;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Config};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_stream::StreamExt as _;

/// The key of the kubeconfig in a Secret.
const KUBECONFIG: &str = "kubeconfig";
/// Pause after a failed watch of the Secrets.
const PAUSE: Duration = Duration::from_secs(5);
/// Clusters followed at a time; each costs four watches.
const CLUSTERS_MAX: usize = 64;

/// Follows all remote clusters for ever, as their Secrets in `namespace` come and go.
pub async fn follow_remotes(client: Client, namespace: &str, hub: Arc<Hub>, health: Health) {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().labels(label::REMOTE_CLUSTER);
    let mut events = pin!(watcher(secrets, config));
    let mut remotes = Remotes { hub, health, running: HashMap::new(), listed: HashSet::new() };
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => remotes.take_in(event),
            Err(error) => {
                tracing::warn!(%error, "cannot watch the Secrets of remote clusters");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

struct Remotes {
    hub: Arc<Hub>,
    health: Health,
    running: HashMap<Arc<str>, Remote>,
    listed: HashSet<Arc<str>>,
}

struct Remote {
    kubeconfig: Vec<u8>,
    task: AbortHandle,
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Remotes {
    fn take_in(&mut self, event: Event<Secret>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(secret) => {
                self.listed.extend(secret.metadata.name.as_deref().map(Arc::from));
                self.start(&secret);
            }
            Event::InitDone => {
                let gone = self.running.keys().filter(|name| !self.listed.contains(*name));
                for name in gone.cloned().collect::<Vec<_>>() {
                    self.stop(&name);
                }
            }
            Event::Apply(secret) => self.start(&secret),
            Event::Delete(secret) => self.stop(secret.metadata.name.as_deref().unwrap_or_default()),
        }
    }

    fn start(&mut self, secret: &Secret) {
        let Some(name) = secret.metadata.name.as_deref() else { return };
        let data = secret.data.as_ref();
        let Some(kubeconfig) = data.and_then(|data: &BTreeMap<_, _>| data.get(KUBECONFIG)) else {
            tracing::warn!(
                secret = name,
                key = KUBECONFIG,
                "the Secret of a remote cluster lacks its key"
            );
            return;
        };
        let name: Arc<str> = Arc::from(name);
        match self.running.get(&name) {
            Some(running) if running.kubeconfig == kubeconfig.0 => return,
            None if self.running.len() >= CLUSTERS_MAX => {
                tracing::warn!(secret = %name, limit = CLUSTERS_MAX, "too many remote clusters; this one is not followed");
                return;
            }
            _ => {}
        }
        let sink = Sink { hub: Arc::clone(&self.hub), cluster: Cluster::Remote(Arc::clone(&name)) };
        let follow = follow_remote(kubeconfig.0.clone(), sink, self.health.clone());
        let task = tokio::spawn(follow).abort_handle();
        // Another kubeconfig for the same cluster: what is known stays until the new one has listed.
        self.running.insert(name, Remote { kubeconfig: kubeconfig.0.clone(), task });
    }

    fn stop(&mut self, name: &str) {
        if self.running.remove(name).is_some() {
            tracing::info!(cluster = name, "the Secret is gone: the remote cluster is forgotten");
            self.hub.forget(name);
            self.health.forget(&Cluster::Remote(name.into()));
        }
    }
}

async fn follow_remote(kubeconfig: Vec<u8>, sink: Sink, health: Health) {
    let cluster = sink.cluster.clone();
    let (config, client) = match client(&kubeconfig).await {
        Ok(made) => made,
        Err(error) => {
            tracing::warn!(%error, cluster = cluster.as_str(), "the kubeconfig of a remote cluster is of no use");
            return;
        }
    };
    let gauge = |kind| health.gauge(&cluster, kind);
    let clients = watch::Sender::new(client);
    // Ends with this function, also when it is aborted.
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(services, sink.clone(), gauge("services"), clients.subscribe()));
    tasks.spawn(follow(slices, sink.clone(), gauge("endpointslices"), clients.subscribe()));
    tasks.spawn(follow(nodes, sink.clone(), gauge("nodes"), clients.subscribe()));
    tasks.spawn(follow(exports, sink, gauge("serviceexports"), clients.subscribe()));
    probe(config, gauge("probe"), clients).await;
}

async fn client(kubeconfig: &[u8]) -> anyhow::Result<(Config, Client)> {
    let text = std::str::from_utf8(kubeconfig)?;
    let kubeconfig = Kubeconfig::from_yaml(text)?;
    for user in kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref()) {
        // Whoever may write a Secret may not thereby run programs here, nor send this pod's files elsewhere.
        let elsewhere = [&user.token_file, &user.client_certificate, &user.client_key];
        let runs = user.exec.is_some() || user.auth_provider.is_some();
        anyhow::ensure!(
            !runs && elsewhere.iter().all(|file| file.is_none()),
            "it names programs or files: write token, client-certificate-data and client-key-data instead"
        );
    }
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config.clone())?;
    Ok((config, client))
}

/// ServiceExports of the multi-cluster services API.
fn exports(client: &Client) -> Kind<DynamicObject> {
    let resource = multicluster("ServiceExport", "serviceexports");
    Kind {
        api: Api::all_with(client.clone(), &resource),
        labels: "",
        kept: Kept::Export,
        read: |key, _| Some(Change::Export(key.clone(), true)),
        gone: |key| Change::Export(key, false),
    }
}
