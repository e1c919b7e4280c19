//! How far what is known may lie behind: per cluster, and per kind of object.

use crate::index::key::Cluster;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// The health of all watches. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Health {
    watches: Arc<Mutex<BTreeMap<(Cluster, &'static str), Watch>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    synced: bool,
    failing_since: Option<Instant>,
    /// Its cluster is no longer followed: nothing fails there.
    forgotten: bool,
}

/// The health of one watch.
#[derive(Clone, Debug)]
pub(super) struct Gauge {
    health: Health,
    key: (Cluster, &'static str),
    synced: Arc<AtomicBool>,
}

impl Health {
    /// The gauge of one watch, which from now on must sync before its cluster counts as synced.
    pub(super) fn gauge(&self, cluster: &Cluster, kind: &'static str) -> Gauge {
        let key = (cluster.clone(), kind);
        self.watches.lock().insert(key.clone(), Watch::default());
        Gauge { health: self.clone(), key, synced: Arc::default() }
    }

    /// Forgets a cluster. It is still told of, as nothing that fails: what was told before would otherwise stand for ever.
    pub(super) fn forget(&self, cluster: &Cluster) {
        let mut watches = self.watches.lock();
        let here = watches.iter_mut().filter(|((other, _), _)| other == cluster);
        here.for_each(|(_, watch)| *watch = Watch { forgotten: true, ..Watch::default() });
    }

    /// Whether every watch of the cluster has had a complete list once.
    pub fn is_synced(&self, cluster: &Cluster) -> bool {
        let watches = self.watches.lock();
        let mut here = watches.iter().filter(|((other, _), _)| other == cluster).peekable();
        here.peek().is_some() && here.all(|(_, watch)| watch.synced)
    }

    /// For each watch its cluster, its kind, and for how many seconds it has failed by now; 0 while it works.
    pub fn stale_seconds(&self, now: Instant) -> Vec<(Cluster, &'static str, f64)> {
        let watches = self.watches.lock();
        let stale = watches.iter().map(|((cluster, kind), watch)| {
            let since = watch.failing_since.map(|since| now.saturating_duration_since(since));
            (cluster.clone(), *kind, since.unwrap_or_default().as_secs_f64())
        });
        stale.collect()
    }
}

impl Gauge {
    /// What the watch is of, for logs.
    pub(super) fn name(&self) -> (&str, &'static str) {
        (self.key.0.as_str(), self.key.1)
    }

    /// A complete list has been taken in.
    pub(super) fn synced(&self) {
        self.synced.store(true, Ordering::Release);
        self.change(|watch| {
            watch.synced = true;
            watch.failing_since = None;
        });
    }

    /// The server answered.
    pub(super) fn works(&self) {
        self.change(|watch| watch.failing_since = None);
    }

    /// The server did not answer, or not with what was asked for. Whether that is new.
    pub(super) fn fails(&self, now: Instant) -> bool {
        let mut new = false;
        self.change(|watch| {
            new = watch.failing_since.is_none();
            watch.failing_since = watch.failing_since.or(Some(now));
        });
        new
    }

    fn change(&self, change: impl FnOnce(&mut Watch)) {
        // A forgotten cluster's last words change nothing.
        let mut watches = self.health.watches.lock();
        if let Some(watch) = watches.get_mut(&self.key).filter(|watch| !watch.forgotten) {
            change(watch);
        }
    }
}
