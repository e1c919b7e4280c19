//! One destination service: its balancer, its endpoints and what is counted about it. Shared by all workers.

pub(crate) mod again;

use crate::admin::debug;
use crate::clock::Clock;
use crate::discovery::{EndpointProtocol, EndpointUpdate, Place, ServiceUpdate};
use crate::endpoint::{Counts, Endpoint, key};
use crate::latency::{Latencies, Quantiles};
use crate::metrics::{Direction, ServiceMetrics, ZoneMetrics};
use crate::settings::Settings;
use arc_swap::ArcSwap;
use balance::balancer::{Balancer, Connection, Outcome, Pick, Served, Ticket};
use balance::config::LoadBand;
use balance::endpoint::{EndpointKey, EndpointSpec, Locality};
use balance::event::{Change, Event};
use balance::snapshot::{EndpointSnapshot, EndpointState, Snapshot};
use balance::time::Timestamp;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::display;

/// Decisions kept for `/debug`.
const DECISIONS: usize = 50;

/// One destination service.
#[derive(Debug)]
pub struct Service {
    name: Arc<str>,
    clock: Clock,
    /// Held for nanoseconds and never over an await.
    balancer: Mutex<Balancer>,
    state: ArcSwap<State>,
    /// Rises with each change of `state`, so that workers see a change without touching the state.
    version: AtomicU64,
    decisions: Mutex<VecDeque<Decision>>,
    latencies: Mutex<Latencies>,
    metrics: ServiceMetrics,
}

/// What discovery and policy say about a service now.
#[derive(Debug)]
pub struct State {
    direction: Direction,
    /// What governs its requests.
    pub settings: Settings,
    /// The endpoints by slot.
    pub endpoints: Vec<Option<Arc<Endpoint>>>,
    /// Keys are made of this and a slot; it never falls.
    generation: u32,
    /// What is counted by zone of the endpoint.
    zones: HashMap<Option<Arc<str>>, Arc<ZoneMetrics>>,
    /// Counts what reaches no endpoint.
    pub nowhere: Arc<ZoneMetrics>,
    place: Place,
}

/// A change inside the balancer, kept for people.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// How many there were up to this one, since the service became known.
    pub number: u64,
    /// What changed, when, and the numbers behind it.
    pub event: Event,
    /// The endpoint that it is about, if it is about one and the endpoint still exists.
    pub endpoint: Option<SocketAddr>,
}

/// A service at one moment, for `/debug` and tests.
#[derive(Debug)]
pub struct ServiceSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// When the snapshot was taken.
    pub at: Timestamp,
    /// Endpoints and settings.
    pub state: Arc<State>,
    /// What the balancer knows.
    pub balancer: Snapshot,
    /// The last changes, oldest first.
    pub decisions: Vec<Decision>,
    /// How long local and remote requests took lately.
    pub latencies: [Option<Quantiles>; 2],
}

impl Service {
    /// A service as discovery describes it, seen from `place`.
    pub(crate) fn new(update: &ServiceUpdate, place: &Place, clock: Clock) -> Self {
        Self::directed(Direction::Outbound, update, place, clock)
    }

    /// A port of the application.
    pub(crate) fn inbound(update: &ServiceUpdate, place: &Place, clock: Clock) -> Self {
        Self::directed(Direction::Inbound, update, place, clock)
    }

    fn directed(direction: Direction, update: &ServiceUpdate, place: &Place, clock: Clock) -> Self {
        let now = clock.now();
        let settings = Settings::new(update, place);
        let balancer = Balancer::new(settings.config.clone(), fastrand::u64(..), now);
        let nowhere =
            Arc::new(ZoneMetrics::new(direction, &update.name, place.zone.as_ref(), None));
        let state = State {
            direction,
            settings,
            endpoints: Vec::new(),
            generation: 0,
            zones: HashMap::new(),
            nowhere,
            place: place.clone(),
        };
        let service = Self {
            name: Arc::clone(&update.name),
            clock,
            balancer: Mutex::new(balancer),
            state: ArcSwap::from_pointee(state),
            version: AtomicU64::new(0),
            decisions: Mutex::new(VecDeque::with_capacity(DECISIONS)),
            latencies: Mutex::default(),
            metrics: ServiceMetrics::new(direction, &update.name),
        };
        service.update(update, place);
        service
    }

    /// Takes a new description. Endpoints that stay keep what was learnt about them, removed ones get no new request from
    /// now on. Not to be called twice at the same time.
    pub(crate) fn update(&self, update: &ServiceUpdate, place: &Place) {
        let now = self.clock.now();
        let before = self.state.load();
        let settings = Settings::new(update, place);
        let state = before.next(update, place, settings);
        let specs: Vec<EndpointSpec> = state.present().map(|endpoint| endpoint.spec).collect();
        let configured = before.settings.config != state.settings.config;
        let config = state.settings.config.clone();
        // New endpoints are known to the workers before the balancer can pick them.
        self.state.store(Arc::new(state));
        self.version.fetch_add(1, Ordering::Release);
        let mut balancer = self.balancer.lock();
        if configured {
            balancer.configure(config, now);
        }
        balancer.update(&specs, now);
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Changes with each change of the endpoints or settings.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Endpoints and settings as they are now.
    pub fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    pub(crate) fn metrics(&self) -> &ServiceMetrics {
        &self.metrics
    }

    /// See [`Balancer::pick`].
    pub(crate) fn pick(&self, now: Timestamp) -> Option<Pick> {
        self.balancer.lock().pick(now)
    }

    /// See [`Balancer::pick_connection`].
    pub(crate) fn pick_connection(&self, now: Timestamp) -> Option<Pick> {
        self.balancer.lock().pick_connection(now)
    }

    /// See [`Balancer::answered`].
    pub(crate) fn answered(&self, ticket: Ticket, outcome: Outcome, now: Timestamp) -> Served {
        self.balancer.lock().answered(ticket, outcome, now)
    }

    /// See [`Balancer::cancelled`].
    pub(crate) fn cancelled(&self, ticket: Ticket, now: Timestamp) -> bool {
        self.balancer.lock().cancelled(ticket, now)
    }

    /// See [`Balancer::body_failed`].
    pub(crate) fn body_failed(&self, served: Served, now: Timestamp) {
        self.balancer.lock().body_failed(served, now);
    }

    /// Counts how long a request took, from its headers to the end of its response.
    pub(crate) fn lasted(&self, locality: Option<Locality>, started: Timestamp, now: Timestamp) {
        let took = now.since(started);
        self.metrics.lasted(locality, took.as_secs_f64());
        if let Some(locality) = locality {
            self.latencies.lock().record(locality, took, now);
        }
    }

    /// See [`Balancer::connected`].
    pub(crate) fn connected(&self, ticket: Ticket, now: Timestamp) -> Connection {
        self.balancer.lock().connected(ticket, now)
    }

    /// See [`Balancer::disconnected`].
    pub(crate) fn disconnected(&self, connection: Connection, outcome: Outcome, now: Timestamp) {
        self.balancer.lock().disconnected(connection, outcome, now);
    }

    /// Lets the valve move if that is due, and takes over what changed. Returns when the next tick is due.
    pub(crate) fn tick(&self, now: Timestamp) -> Timestamp {
        let (events, next) = {
            let mut balancer = self.balancer.lock();
            if balancer.next_tick() <= now {
                balancer.tick(now);
            }
            (balancer.take_events(), balancer.next_tick())
        };
        if !events.is_empty() {
            self.record(&events);
        }
        next
    }

    /// Everything there is to see.
    pub fn snapshot(&self) -> ServiceSnapshot {
        let at = self.clock.now();
        let (balancer, events) = {
            let mut balancer = self.balancer.lock();
            (balancer.snapshot(at), balancer.take_events())
        };
        self.record(&events);
        ServiceSnapshot {
            name: Arc::clone(&self.name),
            at,
            state: self.state(),
            balancer,
            decisions: self.decisions.lock().iter().copied().collect(),
            latencies: self.latencies.lock().quantiles(at),
        }
    }

    /// Whether requests, bodies of their answers, or connections are under way.
    pub(crate) fn is_busy(&self) -> bool {
        let balanced = self.balancer.lock().snapshot(self.clock.now()).endpoints;
        balanced.iter().any(|seen| seen.outstanding > 0 || seen.connections > 0)
            || self.state.load().present().any(|endpoint| endpoint.counts.open_bodies() > 0)
    }

    /// The service is gone: what was said about it in gauges is no longer so.
    pub(crate) fn retire(&self) {
        self.metrics.set_pool(0.0, 0);
        for zone in self.state.load().zones.values() {
            zone.set_endpoints([0; 5]);
        }
    }

    /// Sets the gauges that only a snapshot knows. To be called before a scrape.
    pub fn set_gauges(&self) {
        let snapshot = self.snapshot();
        let (signal, band) = match snapshot.state.settings.config.load {
            LoadBand::Normalized { low, high } => ("normalized", (low, high)),
            LoadBand::Outstanding { low, high } => ("outstanding", (low, high)),
        };
        let numbers = snapshot.balancer.numbers;
        self.metrics.set_valve(signal, numbers.load, band);
        let remote = snapshot.balancer.endpoints.iter();
        let remote = remote
            .filter(|endpoint| endpoint.active && endpoint.locality == Locality::Remote)
            .count();
        self.metrics.set_pool(numbers.share, u32::try_from(remote).unwrap_or(u32::MAX));
        let mut zones: HashMap<&Option<Arc<str>>, [u32; 5]> =
            snapshot.state.zones.keys().map(|zone| (zone, [0; 5])).collect();
        for (endpoint, seen) in snapshot.endpoints() {
            let counts = zones.entry(&endpoint.update.zone).or_default();
            count(counts, seen);
        }
        for (zone, counts) in zones {
            if let Some(metrics) = snapshot.state.zones.get(zone) {
                metrics.set_endpoints(counts);
            }
        }
    }

    fn record(&self, events: &[Event]) {
        let state = self.state.load();
        for event in events {
            let endpoint = state.about(event.change);
            self.count(event.change, endpoint.map(|endpoint| &endpoint.zone));
            let address = endpoint.map(|endpoint| endpoint.address);
            let (change, reason) = debug::names(event.change);
            let (reason, shown) = (reason.map(display), address.map(display));
            tracing::info!(service = %self.name, change = %change, reason, endpoint = shown,
                share = event.numbers.share, load = event.numbers.load, reach = event.numbers.reach, "pool");
            let mut decisions = self.decisions.lock();
            let number = decisions.back().map_or(1, |last| last.number + 1);
            if decisions.len() >= DECISIONS {
                decisions.pop_front();
            }
            decisions.push_back(Decision { number, event: *event, endpoint: address });
        }
    }

    fn count(&self, change: Change, zone: Option<&Arc<ZoneMetrics>>) {
        match (change, zone) {
            (Change::Widen { reason }, _) => self.metrics.pool_changed(true, reason),
            (Change::Narrow { reason }, _) => self.metrics.pool_changed(false, reason),
            (Change::Ejected { cause, .. }, Some(zone)) => zone.ejected(cause),
            (Change::Probed { success, .. }, Some(zone)) => zone.probed(success),
            _ => {}
        }
    }
}

impl ServiceSnapshot {
    /// The endpoints in the order of discovery, each with what the balancer knows about it.
    pub fn endpoints(&self) -> impl Iterator<Item = (&Arc<Endpoint>, &EndpointSnapshot)> {
        self.balancer
            .endpoints
            .iter()
            .filter_map(|seen| Some((self.state.endpoint(seen.key)?, seen)))
    }
}

impl State {
    /// Where this proxy runs.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The endpoint of a key, if it is still there.
    pub fn endpoint(&self, key: EndpointKey) -> Option<&Arc<Endpoint>> {
        let endpoint = self.endpoints.get(key::slot(key))?.as_ref()?;
        (endpoint.key() == key).then_some(endpoint)
    }

    /// The endpoints that exist.
    pub fn present(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.endpoints.iter().flatten()
    }

    /// The state after an update. An endpoint is the same as before when its address, protocol and workload are.
    fn next(&self, update: &ServiceUpdate, place: &Place, settings: Settings) -> Self {
        let moved = self.place.zone != place.zone;
        let zone_metrics = |zone: Option<&Arc<str>>| {
            let source = match self.direction {
                Direction::Outbound => place.zone.as_ref(),
                // Where its callers are, only they know.
                Direction::Inbound => None,
            };
            Arc::new(ZoneMetrics::new(self.direction, &update.name, source, zone))
        };
        let mut next = Self {
            direction: self.direction,
            settings,
            endpoints: vec![None; self.endpoints.len()],
            generation: self.generation,
            zones: if moved { HashMap::new() } else { self.zones.clone() },
            nowhere: if moved { zone_metrics(None) } else { Arc::clone(&self.nowhere) },
            place: place.clone(),
        };
        let known: HashMap<(SocketAddr, EndpointProtocol), &Arc<Endpoint>> = self
            .present()
            .map(|endpoint| ((endpoint.address, endpoint.protocol), endpoint))
            .collect();
        let mut fresh = Vec::new();
        for described in &update.endpoints {
            match known.get(&(described.address, update.protocol)) {
                Some(endpoint) if endpoint.update.is_same_workload(described) => {
                    next.keep(endpoint, described, place, &zone_metrics);
                }
                _ => fresh.push(described),
            }
        }
        for described in fresh {
            next.add(described, update.protocol, place, &zone_metrics);
        }
        next
    }

    fn keep(
        &mut self,
        endpoint: &Arc<Endpoint>,
        described: &EndpointUpdate,
        place: &Place,
        zone_metrics: &impl Fn(Option<&Arc<str>>) -> Arc<ZoneMetrics>,
    ) {
        let Some(spec) = self.settings.spec(endpoint.key(), described, place) else { return };
        let zone = self.zone(described, zone_metrics);
        let same = endpoint.update == *described
            && endpoint.spec == spec
            && Arc::ptr_eq(&endpoint.zone, &zone);
        let kept = if same {
            Arc::clone(endpoint)
        } else {
            let counts = Arc::clone(&endpoint.counts);
            let (address, protocol) = (endpoint.address, endpoint.protocol);
            Arc::new(Endpoint { address, protocol, update: described.clone(), spec, zone, counts })
        };
        if let Some(slot) = self.endpoints.get_mut(key::slot(endpoint.key())) {
            *slot = Some(kept);
        }
    }

    fn add(
        &mut self,
        described: &EndpointUpdate,
        protocol: EndpointProtocol,
        place: &Place,
        zone_metrics: &impl Fn(Option<&Arc<str>>) -> Arc<ZoneMetrics>,
    ) {
        if self.present().any(|endpoint| endpoint.address == described.address) {
            return; // named twice
        }
        let free = self.endpoints.iter().position(Option::is_none).unwrap_or_else(|| {
            self.endpoints.push(None);
            self.endpoints.len() - 1
        });
        self.generation += 1;
        let key = key::new(u32::try_from(free).unwrap_or(u32::MAX), self.generation);
        let Some(spec) = self.settings.spec(key, described, place) else { return };
        let zone = self.zone(described, zone_metrics);
        let counts = Arc::new(Counts::default());
        let update = described.clone();
        let endpoint =
            Endpoint { address: described.address, protocol, update, spec, zone, counts };
        if let Some(slot) = self.endpoints.get_mut(free) {
            *slot = Some(Arc::new(endpoint));
        }
    }

    fn zone(
        &mut self,
        described: &EndpointUpdate,
        zone_metrics: &impl Fn(Option<&Arc<str>>) -> Arc<ZoneMetrics>,
    ) -> Arc<ZoneMetrics> {
        let entry = self.zones.entry(described.zone.clone());
        Arc::clone(entry.or_insert_with_key(|zone| zone_metrics(zone.as_ref())))
    }

    fn about(&self, change: Change) -> Option<&Arc<Endpoint>> {
        match change {
            Change::Ejected { endpoint, .. }
            | Change::Probe { endpoint }
            | Change::Probed { endpoint, .. }
            | Change::Restored { endpoint }
            | Change::RemoteJoined { endpoint, .. }
            | Change::RemoteLeft { endpoint, .. } => self.endpoint(endpoint),
            Change::Widen { .. }
            | Change::Narrow { .. }
            | Change::Reason { .. }
            | Change::Hold { .. } => None,
        }
    }
}

/// Adds an endpoint to the counts known, active, serving, ejected, probing.
fn count(counts: &mut [u32; 5], seen: &EndpointSnapshot) {
    let [known, active, serving, ejected, probing] = counts;
    *known += 1;
    *active += u32::from(seen.active);
    match seen.state {
        EndpointState::Serving => *serving += 1,
        EndpointState::Ejected => *ejected += 1,
        EndpointState::Probing => *probing += 1,
    }
}
