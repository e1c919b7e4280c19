//! The index and who waits for what: the one shared state of the program.
//!
//! A change marks the mailboxes of those who wait for what it touches. A mailbox holds *which* things to look at again, never
//! what they were: a reader that is slow finds the latest state, and nothing ever queues.

use crate::index::key::{Cluster, Key, ServiceId};
use crate::index::view::View;
use crate::index::{Change, Dirty, Index, Interest};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::Notify;

/// The shared state.
#[derive(Debug)]
pub struct Hub {
    state: Mutex<State>,
    /// Hears of everything: for events and statuses.
    reporter: Arc<Mailbox>,
}

/// What a lock on the hub gives.
#[derive(Debug)]
pub struct State {
    index: Index,
    /// Views that someone holds or held since they last changed.
    views: HashMap<Key, BTreeMap<u16, Arc<View>>>,
    waiting: HashMap<Interest, HashMap<u64, Arc<Mailbox>>>,
    /// Proxies that hold a service, by zone; the empty one is unknown.
    callers: HashMap<ServiceId, BTreeMap<Arc<str>, u32>>,
    /// Counts changes.
    generation: u64,
    next_mailbox: u64,
    streams: usize,
}

/// Things to look at again.
#[derive(Debug, Default)]
pub struct Mailbox {
    dirty: Mutex<BTreeSet<Interest>>,
    wake: Notify,
}

impl Mailbox {
    /// Waits until there is something, and takes all of it. Nothing is lost when this is cancelled.
    pub async fn take(&self) -> Dirty {
        loop {
            let woken = self.wake.notified();
            let dirty = std::mem::take(&mut *self.dirty.lock());
            if !dirty.is_empty() {
                return dirty;
            }
            woken.await;
        }
    }

    /// Takes what there is without waiting.
    pub fn take_now(&self) -> Dirty {
        std::mem::take(&mut *self.dirty.lock())
    }

    /// To be looked at once more.
    pub fn put_back(&self, mut dirty: Dirty) {
        self.dirty.lock().append(&mut dirty);
        self.wake.notify_one();
    }

    fn put(&self, interest: Interest) {
        self.dirty.lock().insert(interest);
        self.wake.notify_one();
    }
}

impl Hub {
    /// A hub around an empty index.
    pub fn new(index: Index) -> Self {
        let state = State {
            index,
            views: HashMap::new(),
            waiting: HashMap::new(),
            callers: HashMap::new(),
            generation: 0,
            next_mailbox: 0,
            streams: 0,
        };
        Self { state: Mutex::new(state), reporter: Arc::default() }
    }

    /// Takes in one object and wakes whom it concerns.
    pub fn apply(&self, cluster: &Cluster, change: Change) {
        let mut state = self.state.lock();
        let dirty = state.index.apply(cluster, change);
        self.publish(&mut state, dirty);
    }

    /// Forgets a remote cluster.
    pub fn forget(&self, cluster: &str) {
        let mut state = self.state.lock();
        let dirty = state.index.forget(cluster);
        self.publish(&mut state, dirty);
    }

    /// Looks at the state. `look` must be quick: everything waits for it.
    pub fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock())
    }

    /// The mailbox that hears of everything; it has one reader.
    pub fn reporter(&self) -> Arc<Mailbox> {
        Arc::clone(&self.reporter)
    }

    /// A waiter that waits for nothing yet.
    pub fn waiter(self: &Arc<Self>) -> Waiter {
        let id = self.look(|state| {
            state.next_mailbox += 1;
            state.streams += 1;
            state.next_mailbox
        });
        Waiter {
            hub: Arc::clone(self),
            id,
            mailbox: Arc::default(),
            interests: HashSet::new(),
            counted: HashMap::new(),
        }
    }

    fn publish(&self, state: &mut State, dirty: Dirty) {
        if dirty.is_empty() {
            return;
        }
        state.generation += 1;
        for interest in dirty {
            if let Interest::Service(key) = &interest {
                state.views.remove(key);
            }
            state.wake(&interest);
            self.reporter.put(interest);
        }
    }
}

impl State {
    /// The index.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// A number that changes with everything.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Number of waiters.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// How many of the proxies that listen here call a service, by zone. Other replicas have other proxies: with several of them
    /// these are samples, whose proportions count.
    pub fn callers(&self, id: &ServiceId) -> BTreeMap<Arc<str>, u32> {
        self.callers.get(id).cloned().unwrap_or_default()
    }

    fn wake(&self, interest: &Interest) {
        for mailbox in self.waiting.get(interest).into_iter().flat_map(HashMap::values) {
            mailbox.put(interest.clone());
        }
    }

    fn count(&mut self, id: &ServiceId, zone: &Arc<str>) {
        *self.callers.entry(id.clone()).or_default().entry(Arc::clone(zone)).or_default() += 1;
        self.wake(&Interest::Callers(id.clone()));
    }

    fn uncount(&mut self, id: &ServiceId, zone: &Arc<str>) {
        let Some(zones) = self.callers.get_mut(id) else { return };
        if let Some(count) = zones.get_mut(zone) {
            *count -= 1;
        }
        zones.retain(|_, count| *count > 0);
        if zones.is_empty() {
            self.callers.remove(id);
        }
        self.wake(&Interest::Callers(id.clone()));
    }

    /// The view of a service; made once for all that ask.
    pub fn view(&mut self, id: &ServiceId) -> Option<Arc<View>> {
        if let Some(view) = self.views.get(&id.service).and_then(|ports| ports.get(&id.port)) {
            return Some(Arc::clone(view));
        }
        let view = Arc::new(self.index.view(id)?);
        self.views.entry(id.service.clone()).or_default().insert(id.port, Arc::clone(&view));
        Some(view)
    }
}

/// Someone who waits for changes. Dropping it ends that.
#[derive(Debug)]
pub struct Waiter {
    hub: Arc<Hub>,
    id: u64,
    mailbox: Arc<Mailbox>,
    interests: HashSet<Interest>,
    /// Services that it is counted as a caller of, and in which zone.
    counted: HashMap<ServiceId, Arc<str>>,
}

impl Waiter {
    /// The hub.
    pub const fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Waits until one of the interests may have changed. Cancel-safe.
    pub async fn changed(&self) -> Dirty {
        self.mailbox.take().await
    }

    /// Waits for these things from now on. What is asked of `state` under the same lock is what changes are counted from.
    pub fn wait_for(&mut self, state: &mut State, wanted: HashSet<Interest>) {
        for interest in self.interests.difference(&wanted) {
            self.stop(state, interest);
        }
        for interest in wanted.difference(&self.interests) {
            let waiting = state.waiting.entry(interest.clone()).or_default();
            waiting.insert(self.id, Arc::clone(&self.mailbox));
        }
        self.interests = wanted;
    }

    /// Counts as a caller of these services, in this zone, from now on.
    pub fn call(&mut self, state: &mut State, zone: &Arc<str>, services: &[ServiceId]) {
        let mut before = std::mem::take(&mut self.counted);
        for id in services {
            match before.remove(id) {
                Some(counted) if counted == *zone => {}
                Some(counted) => {
                    state.uncount(id, &counted);
                    state.count(id, zone);
                }
                None => state.count(id, zone),
            }
            self.counted.insert(id.clone(), Arc::clone(zone));
        }
        for (id, counted) in before {
            state.uncount(&id, &counted);
        }
    }

    fn stop(&self, state: &mut State, interest: &Interest) {
        if let Some(waiting) = state.waiting.get_mut(interest) {
            waiting.remove(&self.id);
            if waiting.is_empty() {
                state.waiting.remove(interest);
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        state.streams -= 1;
        for interest in &self.interests {
            self.stop(&mut state, interest);
        }
        for (id, zone) in &self.counted {
            state.uncount(id, zone);
        }
    }
}
