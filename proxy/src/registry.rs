//! All services that the proxy knows, found by name or host, or by where the application wants to go.

use crate::clock::Clock;
use crate::destinations::{Answer, Destinations, Known};
use crate::discovery::{Change, Destination, Passthrough, Place, ServiceUpdate, Target, World};
use crate::port_list::PortList;
use crate::service::Service;
use arc_swap::ArcSwap;
use balance::time::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
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
    /// Ports whose connections are not looked into, where a service does not say what it speaks.
    opaque_ports: PortList,
    /// The port of the admin server, which nobody reaches through the proxy.
    admin_port: Option<u16>,
    /// Held while something is taken over: one at a time.
    applying: Mutex<()>,
    /// What was asked of a controller; `None` where a topology file says everything.
    destinations: Option<Destinations>,
}

#[derive(Clone, Debug, Default)]
struct Index {
    place: Place,
    by_name: HashMap<Arc<str>, Arc<Service>>,
    by_host: HashMap<Arc<str>, Arc<Service>>,
    by_address: HashMap<SocketAddr, Arc<Service>>,
}

impl Registry {
    /// A registry that knows nothing yet, and will be told whole worlds.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            index: ArcSwap::default(),
            opaque_ports: PortList::server_first(),
            admin_port: None,
            version: AtomicU64::new(0),
            applying: Mutex::new(()),
            destinations: None,
        }
    }

    /// A registry that knows nothing yet, and will be told by a controller about what is asked for.
    pub fn on_demand(clock: Clock, place: Place) -> Self {
        let index = Index { place, ..Index::default() };
        Self {
            index: ArcSwap::from_pointee(index),
            destinations: Some(Destinations::default()),
            ..Self::new(clock)
        }
    }

    /// The same with other ports whose connections are not looked into.
    #[must_use]
    pub fn with_opaque_ports(mut self, ports: PortList) -> Self {
        self.opaque_ports = ports;
        self
    }

    /// The same with an admin server that nobody is to reach through the proxy.
    #[must_use]
    pub fn with_admin_port(mut self, port: u16) -> Self {
        self.admin_port = Some(port);
        self
    }

    pub(crate) fn admin_port(&self) -> Option<u16> {
        self.admin_port
    }

    /// Whether connections to this port are not looked into, where the service does not say what it speaks.
    pub(crate) fn is_opaque(&self, port: u16) -> bool {
        self.opaque_ports.contains(port)
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
            for address in &update.addresses {
                next.by_address.insert(*address, Arc::clone(&service));
            }
            next.by_host
                .entry(update.name.to_ascii_lowercase().into())
                .or_insert_with(|| Arc::clone(&service));
            next.by_name.insert(Arc::clone(&update.name), service);
        }
        self.index.store(Arc::new(next));
        self.outdate();
    }

    /// Takes what a controller said.
    pub fn change(&self, change: &Change) {
        let _one_at_a_time = self.applying.lock();
        match change {
            Change::Place(place, services) => {
                let mut next = self.index.load().as_ref().clone();
                next.place = place.clone();
                for update in services {
                    if let Some(service) = next.by_name.get(&update.name) {
                        service.update(update, place);
                    }
                }
                self.index.store(Arc::new(next));
            }
            Change::Service(update) => self.put(update),
            Change::Gone(name) => {
                let mut next = self.index.load().as_ref().clone();
                if let Some(service) = next.by_name.remove(name) {
                    service.retire();
                    self.index.store(Arc::new(next));
                }
            }
            Change::Resolved(destination, target) => self.settle(destination, target),
        }
    }

    fn put(&self, update: &ServiceUpdate) {
        let before = self.index.load();
        if let Some(service) = before.by_name.get(&update.name) {
            return service.update(update, &before.place);
        }
        let service = Service::new(update, &before.place, self.clock);
        let mut next = before.as_ref().clone();
        next.by_name.insert(Arc::clone(&update.name), Arc::new(service));
        self.index.store(Arc::new(next));
    }

    fn settle(&self, destination: &Destination, target: &Target) {
        let answer = match target {
            Target::Service(name) => match self.service(name) {
                Some(service) => Answer::Balanced(service),
                None => Answer::Passthrough(Passthrough::Unknown),
            },
            Target::Passthrough(why) => Answer::Passthrough(*why),
        };
        let destinations = self.destinations.as_ref();
        if destinations.is_some_and(|destinations| destinations.answer(destination, answer)) {
            self.outdate();
        }
    }

    /// What was looked up so far may be wrong.
    fn outdate(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Where something goes. Waits for the controller when nobody asked before, but not for long. What is returned beside
    /// the answer is to be touched whenever the answer is used again.
    pub async fn find(&self, destination: &Destination) -> (Answer, Option<Arc<Known>>) {
        let Some(destinations) = &self.destinations else {
            return (self.find_in_topology(destination), None);
        };
        let (known, evicted) = destinations.find(destination);
        if evicted {
            self.outdate();
        }
        (known.answer().await, Some(known))
    }

    fn find_in_topology(&self, destination: &Destination) -> Answer {
        let (service, otherwise) = match destination {
            Destination::Address(address) => (
                self.service_of_address(*address)
                    .or_else(|| self.service_of_host(&address.ip().to_string())),
                Answer::Passthrough(Passthrough::Unknown),
            ),
            Destination::Name(host, _) => (self.service_of_host(host), Answer::Refused),
        };
        service.map_or(otherwise, Answer::Balanced)
    }

    /// Forgets destinations that were idle for long and returns them.
    pub fn sweep(&self) -> Vec<Destination> {
        let idle = self.destinations.as_ref().map(Destinations::sweep).unwrap_or_default();
        if !idle.is_empty() {
            self.outdate();
        }
        idle
    }

    /// What was asked of a controller; `None` where a topology file says everything.
    pub const fn destinations(&self) -> Option<&Destinations> {
        self.destinations.as_ref()
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

    /// The service that is reached by an address; `None` when no service is known to have it.
    fn service_of_address(&self, address: SocketAddr) -> Option<Arc<Service>> {
        self.index.load().by_address.get(&address).map(Arc::clone)
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
