//! Workers: threads that serve connections, each with its own listeners, runtime and connections to endpoints, so that
//! nothing on the path of a request is shared but the balancers.

#[cfg(test)]
mod allocations;
pub(crate) mod local;
#[cfg(test)]
mod resting;
pub mod roster;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod testing;

use crate::clock::Clock;
use crate::discovery::ListenerSpec;
use crate::drain::{Drain, IDLE_LINGER, Signal, Step};
use crate::inbound::Ports;
use crate::listener::{self, Bound};
use crate::metrics::{Direction, UNKNOWN, ZoneMetrics};
use crate::outbound::accept;
use crate::outbound::straight::Straight;
use crate::overload::Overload;
use crate::registry::Registry;
use crate::worker::local::LocalService;
use crate::worker::roster::{Patience, Roster};
use balance::time::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::Notify;

/// How often a worker looks for connections that were idle for too long.
const SWEEP: Duration = Duration::from_secs(1);

/// How often a draining worker looks whether it is done.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// How often a fault that repeats with every connection is said.
const COMPLAIN_EVERY: Duration = Duration::from_secs(1);

/// Longer than any connection may be idle.
const NEVER_SO_LONG: Duration = Duration::from_hours(1);

/// The running workers.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<std::thread::JoinHandle<Cut>>,
    /// The bound addresses, in the order of the listeners.
    pub addresses: Vec<SocketAddr>,
}

/// What a drain did not wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Requests without a whole answer.
    pub requests: usize,
    /// Connections that are not HTTP.
    pub connections: usize,
}

impl Cut {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.connections += other.connections;
    }
}

/// Why the workers did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A thread or its runtime did not start.
    #[error("cannot start a worker thread")]
    Thread(#[source] std::io::Error),
}

/// What one worker has.
#[derive(Debug)]
pub(crate) struct Worker {
    registry: Arc<Registry>,
    clock: Clock,
    services: RefCell<HashMap<Arc<str>, Rc<LocalService>>>,
    /// Counts requests for which no service was found.
    unresolved: ZoneMetrics,
    /// Counts calls that are not for the application.
    refused: ZoneMetrics,
    /// The application's own ports.
    ports: Ports,
    /// Addresses that belong to no service.
    straight: Straight,
    /// Ports of this process.
    own_ports: Vec<u16>,
    pub(crate) roster: Roster,
    pub(crate) draining: Cell<bool>,
    /// Told when nothing more is to be accepted.
    closing: Notify,
    /// Callers that are being told that there is no room.
    pub(crate) shedding: Cell<usize>,
    overload: Arc<Overload>,
    /// When it was last said that no connection could be accepted.
    complained: Cell<Option<Timestamp>>,
}

/// What bounds callers: in time, and in number.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long they may take.
    pub patience: Patience,
    /// How many there may be. Shared by all workers.
    pub overload: Arc<Overload>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { patience: Patience::default(), overload: Arc::new(Overload::new(None, None)) }
    }
}

impl Workers {
    /// Binds the listeners and starts `count` workers, whose callers are bounded in time only.
    pub fn start(
        count: usize,
        registry: &Arc<Registry>,
        listeners: &[ListenerSpec],
        signal: &Signal,
    ) -> Result<Self, StartError> {
        Self::start_with(count, registry, listeners, signal, &Limits::default())
    }

    /// The same with other bounds.
    pub fn start_with(
        count: usize,
        registry: &Arc<Registry>,
        listeners: &[ListenerSpec],
        signal: &Signal,
        limits: &Limits,
    ) -> Result<Self, StartError> {
        let (addresses, shares) = listener::bind(listeners, count.max(1))?;
        let mut own_ports: Vec<u16> = addresses.iter().map(SocketAddr::port).collect();
        own_ports.extend(registry.admin_port());
        let mut threads = Vec::with_capacity(shares.len());
        for (number, share) in shares.into_iter().enumerate() {
            let (registry, signal) = (Arc::clone(registry), signal.clone());
            let limits = limits.clone();
            let own_ports = own_ports.clone();
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            let thread = thread
                .spawn(move || run(|| Worker::new(registry, own_ports, limits), share, signal))
                .map_err(StartError::Thread)?;
            threads.push(thread);
        }
        Ok(Self { threads, addresses })
    }

    /// Waits until all workers ended, which they do after the drain, and gives what was under way when the grace period was
    /// over. Blocks the thread.
    pub fn join(self) -> Cut {
        let mut cut = Cut::default();
        for thread in self.threads {
            match thread.join() {
                Ok(own) => cut.add(own),
                Err(_panic) => tracing::error!("a worker thread panicked"),
            }
        }
        cut
    }

    /// Whether all workers ended.
    pub fn finished(&self) -> bool {
        self.threads.iter().all(std::thread::JoinHandle::is_finished)
    }
}

/// As many workers as processors may be used, the control group's quota respected.
pub fn default_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn run(worker: impl FnOnce() -> Worker, listeners: Vec<Bound>, signal: Signal) -> Cut {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(serve(Rc::new(worker()), listeners, signal)),
        Err(error) => {
            tracing::error!(%error, "cannot start the runtime of a worker");
            Cut::default()
        }
    }
}

async fn serve(worker: Rc<Worker>, listeners: Vec<Bound>, signal: Signal) -> Cut {
    let part = signal.join();
    for bound in listeners {
        tokio::task::spawn_local(accept::listen(Rc::clone(&worker), bound));
    }
    let grace = tokio::select! {
        grace = signal.wait() => grace,
        () = sweep(&worker) => return Cut::default(),
    };
    worker.drain(Drain::begin(part, grace, worker.clock.now())).await
}

async fn sweep(worker: &Worker) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let now = worker.clock.now();
        worker.roster.sweep(now);
        if worker.overload.is_pressed() {
            worker.roster.close_idle();
            worker.release_idle();
        }
        worker.ports.sweep(now);
        worker.straight.sweep(now);
        worker.services.borrow_mut().retain(|name, service| {
            let known = worker
                .registry
                .service(name)
                .is_some_and(|known| Arc::ptr_eq(&known, service.shared()));
            if known {
                service.sweep(now);
            } else {
                service.close();
            }
            known
        });
    }
}

impl Worker {
    fn new(registry: Arc<Registry>, own_ports: Vec<u16>, limits: Limits) -> Self {
        let clock = registry.clock();
        Self {
            registry,
            clock,
            services: RefCell::default(),
            unresolved: ZoneMetrics::new(Direction::Outbound, &Arc::from(UNKNOWN), None, None),
            refused: ZoneMetrics::new(Direction::Inbound, &Arc::from(UNKNOWN), None, None),
            ports: Ports::default(),
            straight: Straight::default(),
            own_ports,
            roster: Roster::new(limits.patience, clock),
            draining: Cell::new(false),
            closing: Notify::const_new(),
            shedding: Cell::new(0),
            overload: limits.overload,
            complained: Cell::new(None),
        }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn unresolved(&self) -> &ZoneMetrics {
        &self.unresolved
    }

    pub(crate) fn overload(&self) -> &Arc<Overload> {
        &self.overload
    }

    /// No connection could be accepted, for want of descriptors most likely: those of idle connections are given back.
    pub(crate) fn accept_failed(&self, error: &std::io::Error) {
        let now = self.clock.now();
        if self.complained.get().is_none_or(|before| now.since(before) >= COMPLAIN_EVERY) {
            self.complained.set(Some(now));
            tracing::warn!(%error, "cannot accept connections");
            self.release_idle();
        }
    }

    /// Waits until nothing more is to be accepted.
    pub(crate) async fn closing(&self) {
        self.closing.notified().await;
    }

    /// Closes connections to endpoints that are not in use.
    pub(crate) fn release_idle(&self) {
        let late = self.clock.now().plus(NEVER_SO_LONG);
        for service in self.services.borrow().values() {
            service.sweep(late);
        }
        self.straight.sweep(late);
    }

    /// Counts connections that were brought here and are not for the application.
    pub(crate) fn refused(&self) -> &ZoneMetrics {
        &self.refused
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(crate) fn own_ports(&self) -> &[u16] {
        &self.own_ports
    }

    /// This worker's view of a port of the application.
    pub(crate) fn application(&self, address: SocketAddr) -> Rc<LocalService> {
        self.ports.service(address, &self.registry.place(), self.clock, &self.overload)
    }

    /// What leads straight to an address that belongs to no service.
    pub(crate) fn straight(&self, address: SocketAddr) -> Rc<LocalService> {
        self.straight.service(address, &self.registry.place(), self.clock, &self.overload)
    }

    /// This worker's view of a service.
    pub(crate) fn local(&self, service: &Arc<crate::service::Service>) -> Rc<LocalService> {
        let mut services = self.services.borrow_mut();
        if let Some(local) = services.get(service.name())
            && Arc::ptr_eq(local.shared(), service)
        {
            return Rc::clone(local);
        }
        let overload = Arc::clone(&self.overload);
        let local = Rc::new(LocalService::new(Arc::clone(service), self.clock, overload));
        if let Some(old) = services.insert(Arc::clone(service.name()), Rc::clone(&local)) {
            old.close();
        }
        local
    }

    /// Lets what is under way finish: callers are told to go (GOAWAY, `Connection: close`), what still arrives is served.
    async fn drain(&self, mut drain: Drain) -> Cut {
        self.draining.set(true);
        loop {
            self.roster.drain_http2();
            tokio::time::sleep(DRAIN_CHECK).await;
            let now = self.clock.now();
            self.roster.sweep(now);
            match drain.step(self.roster.seen(), self.roster.open(), now) {
                Step::Leaving if drain.is_lingering_over(now) => {
                    self.roster.drain_idle(IDLE_LINGER, now);
                }
                Step::Leaving => {}
                Step::Closing => {
                    self.closing.notify_waiters();
                    self.roster.drain_all();
                }
                Step::End => return self.roster.under_way(),
            }
        }
    }
}

/// Runs the tasks of HTTP/2 connections on their worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalExecutor;

impl<F> hyper::rt::Executor<F> for LocalExecutor
where
    F: Future<Output: 'static> + 'static,
{
    fn execute(&self, future: F) {
        // On the heap, since the runtime copies a future several times, and the library's take 2 KiB for each request.
        tokio::task::spawn_local(Box::pin(future));
    }
}
