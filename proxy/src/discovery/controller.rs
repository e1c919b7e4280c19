//! The controller as the source of services: one stream, on which it is asked for what the application uses.
//!
//! ```text
//!               ┌───────── pause, all replicas failed ◀────────┐
//!               ▼                                              │
//!   resolve ─▶ open ─▶ [hello, what is held] ─▶ stream ──lost──┴─▶ next replica
//!                                                 │
//!   destinations ── wanted ──▶ subscribe          └─▶ mirror ─▶ changes ─▶ registry
//! ```
//!
//! Whatever happens here, the data plane goes on with what it knows.

pub mod connect;
pub mod mirror;
pub mod read;
pub mod replicas;
pub mod status;

use crate::destinations::{Destinations, SWEEP, Wanted};
use crate::discovery::metrics::DiscoveryMetrics;
use crate::discovery::{Change, Destination};
use crate::registry::Registry;
use api::discovery as proto;
use api::discovery::{FromController, FromProxy, from_proxy};
use connect::{Controller, Open};
use mirror::Mirror;
use replicas::{Replica, Replicas};
use status::Status;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// Messages that wait for the stream; while there are more, no further wishes are taken.
const OUTBOX: usize = 64;

/// Follows the controller, for ever.
#[derive(Debug)]
pub struct Follower {
    controller: Controller,
    hello: proto::Hello,
    registry: Arc<Registry>,
    status: Arc<Status>,
    metrics: DiscoveryMetrics,
    mirror: Mirror,
    replicas: Replicas,
    /// Whether something was heard on the present stream.
    connected: bool,
    /// Whether a first attempt has ended, well or badly.
    tried: watch::Sender<bool>,
}

/// Who this proxy says it is. Its token, where it has one, goes before that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is wrong with the name of a pod.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no name of a pod: write NAMESPACE/NAME")]
pub struct NoPod;

impl FromStr for Pod {
    type Err = NoPod;

    fn from_str(text: &str) -> Result<Self, NoPod> {
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(NoPod),
        }
    }
}

impl Follower {
    /// A follower that keeps `registry` up to date, which must be one that is asked on demand.
    pub fn new(controller: Controller, pod: Pod, registry: &Arc<Registry>) -> Self {
        let ours = registry.place();
        let hello = proto::Hello {
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            pod_namespace: pod.namespace,
            pod_name: pod.name,
            node: ours.node.as_deref().unwrap_or_default().to_owned(),
            known: Vec::new(),
        };
        Self {
            controller,
            hello,
            registry: Arc::clone(registry),
            status: Arc::new(Status::new(registry.clock())),
            metrics: DiscoveryMetrics::default(),
            mirror: Mirror::new(ours),
            replicas: Replicas::default(),
            connected: false,
            tried: watch::Sender::new(false),
        }
    }

    /// How it stands.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    /// Becomes true when the first stream is open, or all replicas were tried in vain.
    pub fn tried(&self) -> watch::Receiver<bool> {
        self.tried.subscribe()
    }

    /// Follows, for ever.
    pub async fn follow(mut self) {
        self.metrics.up.set(0.0);
        loop {
            self.resolve().await;
            let lived = match self.replicas.next_to_try() {
                None => {
                    self.failed("its name has no address");
                    None
                }
                Some(replica) => Box::pin(self.attempt(replica)).await,
            };
            if let Some(pause) = self.replicas.failed(lived, fastrand::f64()) {
                if lived.is_none() {
                    self.given_up();
                }
                tokio::time::sleep(pause).await;
            }
        }
    }

    async fn resolve(&mut self) {
        let (found, failure) = self.controller.resolve().await;
        if let Some(failure) = failure {
            self.failed(&failure.to_string());
        }
        // Those of before may still be good when none are found now.
        if !found.is_empty() {
            self.replicas.resolved(found, fastrand::f64());
        }
    }

    /// One attempt, and the stream while it lasts. How long it lasted, if it came about: a controller that has something to
    /// say says it at once, and one that refuses says nothing.
    async fn attempt(&mut self, to: Replica) -> Option<Duration> {
        let hello = proto::Hello { known: self.mirror.known(), ..self.hello.clone() };
        let hello = FromProxy { message: Some(from_proxy::Message::Hello(hello)) };
        let replica = to.address;
        let open = match self.controller.open(to, hello).await {
            Ok(open) => open,
            Err(error) => {
                self.failed(&error.to_string());
                return None;
            }
        };
        let why = self.converse(replica, open).await;
        if !self.connected {
            self.failed(&format!("{replica}: {why}"));
            return None;
        }
        self.connected = false;
        self.metrics.up.set(0.0);
        let lived = self.status.lost(why.clone());
        let lived_for = humantime::format_duration(Duration::from_secs(lived.as_secs()));
        tracing::warn!(%replica, lived = %lived_for, why, "the stream of the controller ended; what is known stays in force");
        Some(lived)
    }

    /// Talks until the stream ends. Why it did.
    async fn converse(
        &mut self,
        replica: SocketAddr,
        Open { sender, mut inbound }: Open,
    ) -> String {
        let registry = Arc::clone(&self.registry);
        let Some(destinations) = registry.destinations() else {
            return "nothing is asked on demand here".to_owned();
        };
        let asked = destinations.begin();
        let _listening = Listening(destinations);
        apply(&registry, &self.mirror.begin(&asked));
        let mut outbox: VecDeque<FromProxy> = asked.iter().map(subscribe).collect();
        let mut sweeps = tokio::time::interval(SWEEP);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        sweeps.reset();
        loop {
            tokio::select! {
                biased;
                message = inbound.message() => match message {
                    Ok(Some(message)) => {
                        self.is_connected(replica);
                        outbox.extend(self.hear(message));
                    }
                    Ok(None) => return "the controller ended it".to_owned(),
                    Err(status) => return format!("{}: {}", status.code(), status.message()),
                },
                room = sender.reserve(), if !outbox.is_empty() => match (room, outbox.pop_front()) {
                    (Ok(room), Some(message)) => room.send(message),
                    _ => return "the connection is closed".to_owned(),
                },
                wanted = destinations.wanted(), if outbox.len() < OUTBOX => match wanted {
                    Some(wanted) => outbox.extend(wanted.iter().map(|wanted| self.want(wanted))),
                    None => return "too many destinations at once".to_owned(),
                },
                // What is forgotten comes back as a wish.
                _ = sweeps.tick() => drop(registry.sweep()),
            }
        }
    }

    /// Something was heard.
    fn is_connected(&mut self, replica: SocketAddr) {
        if std::mem::replace(&mut self.connected, true) {
            return;
        }
        tracing::info!(%replica, "connected to the controller");
        if self.status.connected(replica) {
            self.metrics.resyncs.increment(1);
        }
        self.metrics.up.set(1.0);
        self.end_first_try();
    }

    fn hear(&mut self, message: FromController) -> Vec<FromProxy> {
        self.metrics.updates.increment(1);
        let heard = match self.mirror.hear(message) {
            Ok(heard) => heard,
            Err(distrust) => {
                self.metrics.errors.increment(1);
                tracing::error!(%distrust, "a message of the controller is not taken; what is known stays in force");
                return Vec::new();
            }
        };
        if let Some(refused) = heard.refused {
            self.metrics.errors.increment(1);
            tracing::error!(
                refused,
                "a policy cannot be read by this version; the one before stays in force"
            );
        }
        apply(&self.registry, &heard.changes);
        if !heard.again.is_empty() {
            self.status.resynced();
            self.metrics.resyncs.increment(1);
        }
        let given_up = heard.again.iter().map(unsubscribe);
        given_up.chain(heard.again.iter().map(subscribe)).collect()
    }

    fn want(&mut self, wanted: &Wanted) -> FromProxy {
        match wanted {
            Wanted::Subscribe(destination) => {
                self.mirror.subscribe(destination);
                subscribe(destination)
            }
            Wanted::Unsubscribe(destination) => {
                apply(&self.registry, &self.mirror.forget(destination));
                unsubscribe(destination)
            }
        }
    }

    fn failed(&self, why: &str) {
        if self.status.failed(why) {
            tracing::warn!(why, "a replica of the controller cannot be reached");
        }
    }

    /// No replica works: nobody is to wait for one.
    fn given_up(&self) {
        self.status.gone();
        if let Some(destinations) = self.registry.destinations() {
            destinations.give_up();
        }
        self.end_first_try();
    }

    fn end_first_try(&self) {
        self.tried.send_if_modified(|tried| !std::mem::replace(tried, true));
    }
}

/// While it exists, what is wanted is noted for the stream.
struct Listening<'a>(&'a Destinations);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn apply(registry: &Registry, changes: &[Change]) {
    for change in changes {
        registry.change(change);
    }
}

fn subscribe(destination: &Destination) -> FromProxy {
    let destination = Some(read::written(destination));
    FromProxy { message: Some(from_proxy::Message::Subscribe(proto::Subscribe { destination })) }
}

fn unsubscribe(destination: &Destination) -> FromProxy {
    let destination = Some(read::written(destination));
    FromProxy {
        message: Some(from_proxy::Message::Unsubscribe(proto::Unsubscribe { destination })),
    }
}
