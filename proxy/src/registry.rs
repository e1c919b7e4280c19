//! All services that the proxy knows, found by name or host.

use crate::clock::Clock;
use crate::discovery::{Place, World};
use crate::service::Service;
use arc_swap::ArcSwap;
use balance::time::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Shortest and longest pause of the ticker: balancers are ticked about once a second each, at times of their own choice.
const TICK_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// All services that the proxy knows.
#[derive(Debug)]
pub struct Registry {
    clock: Clock,
    index: ArcSwap<Index>,
    /// Rises with each change of the index, so that a connection may keep what it looked up while this stays the same.
    version: AtomicU64,
    /// Held while a world is taken over: one at a time.
    applying: Mutex<()>,
}

#[derive(Debug, Default)]
struct Index {
    place: Place,
    by_name: HashMap<Arc<str>, Arc<Service>>,
    by_host: HashMap<Arc<str>, Arc<Service>>,
}

impl Registry {
    /// A registry that knows nothing yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            index: ArcSwap::default(),
            version: AtomicU64::new(0),
            applying: Mutex::new(()),
        }
    }

    /// Takes a whole new state: services and endpoints not in it are gone, those that stay keep what was learnt about them.
    pub fn apply(&self, world: &World) {
        let _one_at_a_time = self.applying.lock();
        let before = self.index.load_full();
        let mut next = Index { place: world.place.clone(), ..Index::default() };
        for update in &world.services {
            let service = match before.by_name.get(&update.name) {
                Some(service) => {
                    service.update(update, &world.place);
                    Arc::clone(service)
                }
                None => Arc::new(Service::new(update, &world.place, self.clock)),
            };
            for host in &update.hosts {
                next.by_host.insert(host.to_ascii_lowercase().into(), Arc::clone(&service));
            }
            next.by_host
                .entry(update.name.to_ascii_lowercase().into())
                .or_insert_with(|| Arc::clone(&service));
            next.by_name.insert(Arc::clone(&update.name), service);
        }
        self.index.store(Arc::new(next));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever a lookup may give another answer.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The service of that name.
    pub fn service(&self, name: &str) -> Option<Arc<Service>> {
        self.index.load().by_name.get(name).map(Arc::clone)
    }

    /// The service that a `Host` names; its port is not looked at.
    pub(crate) fn service_of_host(&self, host: &str) -> Option<Arc<Service>> {
        let index = self.index.load();
        let found = index.by_host.get(host);
        found.or_else(|| index.by_host.get(host.to_ascii_lowercase().as_str())).map(Arc::clone)
    }

    /// All services, by name.
    pub fn services(&self) -> Vec<Arc<Service>> {
        let mut services: Vec<_> = self.index.load().by_name.values().map(Arc::clone).collect();
        services.sort_by(|a, b| a.name().cmp(b.name()));
        services
    }

    /// Where this proxy runs, as far as it was told.
    pub fn place(&self) -> Place {
        self.index.load().place.clone()
    }

    /// Sets the gauges of all services. To be called before a scrape.
    pub fn set_gauges(&self) {
        for service in self.services() {
            service.set_gauges();
        }
    }

    /// Ticks all balancers when they are due, for ever. To be run once, outside the workers.
    pub async fn tick(&self) {
        loop {
            let now = self.clock.now();
            let services = self.index.load_full();
            let next = services.by_name.values().map(|service| service.tick(now)).min();
            tokio::time::sleep(pause(next, now)).await;
        }
    }
}

fn pause(next: Option<Timestamp>, now: Timestamp) -> Duration {
    let (shortest, longest) = TICK_PAUSE;
    next.map_or(longest, |next| next.since(now)).clamp(shortest, longest)
}
