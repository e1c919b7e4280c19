//! One watch: a list, then changes, for ever.
//!
//! Whatever ends a watch (the server away, 410 Gone, 429, a connection that hangs) is answered by a new one after a pause. After a
//! new list, what is no longer in it is gone; what is unchanged touches nothing.

use super::health::Gauge;
use crate::hub::Hub;
use crate::index::key::{Cluster, Key};
use crate::index::{Change, Kept};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use std::collections::HashSet;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::StreamExt as _;

/// First pause after a failure.
const PAUSE_MIN: Duration = Duration::from_millis(200);
/// Longest pause: what was missed is caught up with within 10 s of the server's return, also when its list takes some of them.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// A resumed watch says nothing until something changes. Quiet for this long after a failure, it works again; whether the server
/// answers at all is the probe's to tell.
const SETTLED: Duration = Duration::from_secs(5);
/// A watch without end would never notice a server that forgot it.
const WATCH_SECONDS: u32 = 290;

/// What one kind of object becomes.
pub(super) struct Kind<K> {
    /// What is asked for.
    pub(super) api: Api<K>,
    /// Label selector; empty is all.
    pub(super) labels: &'static str,
    /// As what it is kept.
    pub(super) kept: Kept,
    /// Reads an object; `None` for one that is not kept, as if it were gone.
    pub(super) read: fn(&Key, &K) -> Option<Change>,
    /// What it means that an object is gone.
    pub(super) gone: fn(Key) -> Change,
}

/// Where the changes go.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    pub(super) hub: Arc<Hub>,
    pub(super) cluster: Cluster,
}

/// Follows one kind for ever. It starts over when there is a new client: connections of the old one may hang without knowing.
pub(super) async fn follow<K>(
    make: fn(&Client) -> Kind<K>,
    sink: Sink,
    gauge: Gauge,
    mut clients: watch::Receiver<Client>,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut kind = make(&clients.borrow_and_update());
    let config = watcher::Config { timeout: Some(WATCH_SECONDS), ..watcher::Config::default() };
    let config = if kind.labels.is_empty() { config } else { config.labels(kind.labels) };
    // An earlier watch with other credentials may have left some.
    let objects = sink.hub.look(|state| state.index().kept(&sink.cluster, kind.kept));
    let mut known = Known { sink, objects, listed: None };
    let mut pause = PAUSE_MIN;
    let mut failing = false;
    loop {
        let mut events = pin!(watcher(kind.api.clone(), config.clone()));
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = tokio::time::sleep(SETTLED), if failing && !known.is_listing() => {
                    (failing, pause) = (false, PAUSE_MIN);
                    gauge.works();
                    continue;
                }
                changed = clients.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    kind = make(&clients.borrow_and_update());
                    break;
                }
            };
            match event {
                None => break,
                Some(Ok(event)) => {
                    // A list may begin and fail for ever: only what the server sent counts as an answer.
                    if !matches!(event, Event::Init) {
                        (failing, pause) = (false, PAUSE_MIN);
                        gauge.works();
                    }
                    if known.take_in(&kind, event) {
                        gauge.synced();
                    }
                }
                Some(Err(error)) if is_missing(&error) => {
                    // The kind does not exist there (yet): there are none of it.
                    known.nothing(&kind);
                    gauge.synced();
                    tokio::time::sleep(jittered(PAUSE_MAX)).await;
                }
                Some(Err(error)) if is_gone(&error) => {
                    // The server answers, and has forgotten where we stopped: listing is due, and not after a long pause.
                    tracing::debug!(%error, kind = gauge.name().1, "listing anew");
                    tokio::time::sleep(jittered(PAUSE_MIN)).await;
                    break;
                }
                Some(Err(error)) => {
                    failing = true;
                    let new = gauge.fails(Instant::now());
                    let (cluster, kind) = gauge.name();
                    if new {
                        tracing::warn!(%error, cluster, kind, "watch failed; what is known stays in force");
                    } else {
                        tracing::debug!(%error, cluster, kind, "watch failed again");
                    }
                    tokio::time::sleep(jittered(pause)).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }
}

/// The keys of the objects that are in the index.
struct Known {
    sink: Sink,
    objects: HashSet<Key>,
    /// Those of the list that is being read; `None` while none is.
    listed: Option<HashSet<Key>>,
}

impl Known {
    /// Takes in an event; whether it completes a list.
    fn take_in<K: Resource>(&mut self, kind: &Kind<K>, event: Event<K>) -> bool {
        match event {
            Event::Init => self.listed = Some(HashSet::new()),
            Event::InitApply(object) => {
                let key = self.apply(kind, &object);
                self.listed.get_or_insert_default().extend(key);
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                for key in self.objects.difference(&listed) {
                    self.sink.apply((kind.gone)(key.clone()));
                }
                self.objects = listed;
                return true;
            }
            Event::Apply(object) => {
                self.apply(kind, &object);
            }
            Event::Delete(object) => {
                if let Some(key) = crate::index::object::key(object.meta()) {
                    self.objects.remove(&key);
                    self.sink.apply((kind.gone)(key));
                }
            }
        }
        false
    }

    fn apply<K: Resource>(&mut self, kind: &Kind<K>, object: &K) -> Option<Key> {
        let key = crate::index::object::key(object.meta())?;
        if let Some(change) = (kind.read)(&key, object) {
            self.sink.apply(change);
            self.objects.insert(key.clone());
            Some(key)
        } else {
            if self.objects.remove(&key) {
                self.sink.apply((kind.gone)(key));
            }
            None
        }
    }

    const fn is_listing(&self) -> bool {
        self.listed.is_some()
    }

    fn nothing<K>(&mut self, kind: &Kind<K>) {
        for key in self.objects.drain() {
            self.sink.apply((kind.gone)(key));
        }
    }
}

impl Sink {
    fn apply(&self, change: Change) {
        self.hub.apply(&self.cluster, change);
    }
}

/// 404 for a whole collection.
fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// 410: what a watch or a list was to go on from is no longer kept.
fn is_gone(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
    match error {
        WatchError(status)
        | InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

/// Half to all of a pause, so that replicas do not return all at once.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
