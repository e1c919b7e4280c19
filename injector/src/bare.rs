//! Pods without the proxy in namespaces that ask for it: older than the label, made while the injector was away, or left alone
//! for a reason. An admission warning reaches whoever made the pod, mostly a controller; so each is told by an event too.
//!
//! A look goes over what the watch knows, every few seconds. Replicas all look; an event has the same name from each, so that
//! there is one.

use crate::decide::{Skip, Verdict, decide};
use crate::metrics;
use crate::namespaces::Namespaces;
use crate::pod::{Namespace, Pod, PodSecurity};
use api::names::{annotation, label};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod as Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event as Change;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde::Deserialize as _;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;
use tokio_stream::StreamExt as _;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(10);
/// Pods that are read in one look: a namespace of thousands that gets the label takes minutes, and the API server notices nothing.
const READ_MAX: usize = 20;

/// Where a pod is.
type Place = (String, String);

/// The pods that are not known to have the proxy, and what is known of them. Pure.
#[derive(Debug, Default)]
pub struct Ledger {
    pods: BTreeMap<Place, Entry>,
    /// Pods that a list in progress has not named yet.
    unlisted: BTreeSet<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    uid: String,
    finding: Option<Finding>,
}

/// What was found about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It could have the proxy: a restart gives it.
    Bare,
    /// It is left alone for a reason.
    LeftAlone(Skip),
    /// All is as it was asked for, or it has ended.
    Fine,
}

impl Finding {
    /// About a pod as it runs.
    pub fn of(namespace: &Namespace, pod: &Object) -> Self {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase.is_some_and(|phase| ["Succeeded", "Failed"].contains(&phase)) {
            return Self::Fine;
        }
        let view = serde_json::to_value(pod).ok().and_then(|pod| Pod::deserialize(&pod).ok());
        // What the injector cannot read it would not have touched.
        let Some(view) = view else { return Self::Fine };
        match decide(namespace, &view).verdict {
            Verdict::Inject(_) => Self::Bare,
            Verdict::Skip(skip) if skip.is_surprise() => Self::LeftAlone(skip),
            Verdict::Skip(_) => Self::Fine,
        }
    }

    /// What its owner is told: a reason and a sentence.
    fn told(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Bare => Some((
                "ProxyMissing",
                "The namespace asks for the Tidegate proxy, and this pod has none: it is older than the label, or the injector did not answer when it was made. Restart it.".to_owned(),
            )),
            Self::LeftAlone(skip) => {
                Some(("ProxyNotAdded", format!("The pod has no Tidegate proxy: {skip}")))
            }
            Self::Fine => None,
        }
    }
}

impl Ledger {
    /// Takes in a change of a pod.
    pub fn take_in(&mut self, change: Change<PartialObjectMeta<Object>>) {
        match change {
            Change::Init => self.unlisted = self.pods.keys().cloned().collect(),
            Change::InitApply(pod) => {
                self.unlisted.remove(&place(&pod));
                self.see(&pod);
            }
            Change::InitDone => {
                for place in std::mem::take(&mut self.unlisted) {
                    self.pods.remove(&place);
                }
            }
            Change::Apply(pod) => self.see(&pod),
            Change::Delete(pod) => drop(self.pods.remove(&place(&pod))),
        }
    }

    fn see(&mut self, pod: &PartialObjectMeta<Object>) {
        let opted_out = pod.labels().get(label::INJECT).is_some_and(|value| value == "disabled");
        if opted_out || pod.annotations().contains_key(annotation::INJECTED) {
            self.pods.remove(&place(pod));
            return;
        }
        let uid = pod.uid().unwrap_or_default();
        let entry = self
            .pods
            .entry(place(pod))
            .or_insert_with(|| Entry { uid: uid.clone(), finding: None });
        if entry.uid != uid {
            *entry = Entry { uid, finding: None };
        }
    }

    /// Pods of these namespaces that nothing was found about yet, no more than one look reads.
    pub fn unread(&self, namespaces: &BTreeSet<String>) -> Vec<Place> {
        let unread = self.pods.iter().filter(|((namespace, _), entry)| {
            entry.finding.is_none() && namespaces.contains(namespace)
        });
        unread.map(|(place, _)| place.clone()).take(READ_MAX).collect()
    }

    /// Remembers what was found.
    pub fn found(&mut self, place: &Place, uid: &str, finding: Finding) {
        if let Some(entry) = self.pods.get_mut(place).filter(|entry| entry.uid == uid) {
            entry.finding = Some(finding);
        }
    }

    /// How many pods of each of these namespaces a restart would give the proxy.
    pub fn bare(&self, namespaces: &BTreeSet<String>) -> BTreeMap<String, usize> {
        let mut counts: BTreeMap<String, usize> =
            namespaces.iter().map(|namespace| (namespace.clone(), 0)).collect();
        for ((namespace, _), entry) in &self.pods {
            if entry.finding == Some(Finding::Bare)
                && let Some(count) = counts.get_mut(namespace)
            {
                *count += 1;
            }
        }
        counts
    }
}

fn place(pod: &PartialObjectMeta<Object>) -> Place {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

/// The looking.
pub struct Watch {
    /// The API server.
    pub client: Client,
    /// What namespaces say.
    pub namespaces: Namespaces,
    /// Namespaces whose pods never get the proxy.
    pub excluded: Vec<String>,
    /// Pod Security of namespaces that say nothing.
    pub pod_security_default: PodSecurity,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Looks for ever.
    pub async fn run(self) {
        let pods: Api<PartialObjectMeta<Object>> = Api::all(self.client.clone());
        let changes = watcher(pods, watcher::Config::default()).default_backoff();
        let mut changes = pin!(changes);
        let mut ledger = Ledger::default();
        let mut shown = BTreeSet::new();
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(change)) => ledger.take_in(change),
                    Some(Err(error)) => tracing::debug!(%error, "watching pods failed; it is tried again"),
                    None => return,
                },
                _ = looks.tick() => {
                    if let Err(error) = Box::pin(self.look(&mut ledger, &mut shown)).await {
                        tracing::warn!(%error, "cannot look for pods without the proxy; it is tried again");
                    }
                }
            }
        }
    }

    async fn look(&self, ledger: &mut Ledger, shown: &mut BTreeSet<String>) -> kube::Result<()> {
        let enabled: BTreeSet<String> = self.namespaces.enabled().into_iter().collect();
        let enabled = enabled.into_iter().filter(|name| !self.excluded.contains(name)).collect();
        for place in ledger.unread(&enabled) {
            let (namespace, name) = &place;
            let api: Api<Object> = Api::namespaced(self.client.clone(), namespace);
            let Some(pod) = api.get_opt(name).await? else { continue };
            let Ok(says) = self.namespaces.find(namespace, self.pod_security_default).await else {
                continue;
            };
            let finding = Finding::of(&says, &pod);
            if let Some((reason, note)) = finding.told() {
                self.tell(&pod, reason, note).await?;
            }
            ledger.found(&place, &pod.uid().unwrap_or_default(), finding);
        }
        let counts = ledger.bare(&enabled);
        for (namespace, count) in &counts {
            metrics::bare(namespace).set(*count as f64);
        }
        // A namespace that no longer asks has none.
        for gone in shown.difference(&enabled) {
            metrics::bare(gone).set(0.0);
        }
        shown.extend(enabled);
        Ok(())
    }

    async fn tell(&self, pod: &Object, reason: &str, note: String) -> kube::Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        match events.create(&PostParams::default(), &event(pod, reason, note)).await {
            // Another replica told it.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            // Such as a namespace that is being deleted: no reason to leave all others untold.
            Err(kube::Error::Api(status)) => {
                tracing::debug!(%status, namespace, "the API server refuses an event");
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

/// The event about a pod. Its name is the same whoever tells it.
fn event(pod: &Object, reason: &str, note: String) -> Event {
    let (name, namespace) = (pod.name_any(), pod.namespace());
    let uid = pod.uid().unwrap_or_default();
    let now = Time(Timestamp::try_from(crate::clock::now()).unwrap_or_default());
    let brief: String = uid.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    // A name has at most 253 characters, a pod's as well.
    let short: String = name.chars().take(200).collect();
    let unique = format!("{short}.{brief}.{}", reason.to_ascii_lowercase());
    Event {
        metadata: ObjectMeta {
            name: Some(unique),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(name),
            namespace,
            uid: Some(uid),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(note),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        source: Some(EventSource { component: Some("tidegate-injector".to_owned()), host: None }),
        ..Event::default()
    }
}
