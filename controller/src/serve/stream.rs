//! The conversation with one proxy.
//!
//! What is due is kept as a set of things, not as messages: a message is made at the moment at which the proxy can take it, from
//! the state of that moment.

use crate::hub::{Hub, State, Waiter};
use crate::index::key::ServiceId;
use crate::index::place::Proxy;
use crate::index::resolve::{Destination, Target};
use crate::index::view::View;
use crate::index::{Dirty, Interest};
use api::discovery as proto;
use api::discovery::{FromController, FromProxy, from_controller, from_proxy, resolved};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tonic::{Status, Streaming};

/// Destinations of one proxy. Applications call tens of services; what asks for more is told that they are not balanced.
const DESTINATIONS_MAX: usize = 10_000;

/// Changes of the number of callers are gathered for this long: when many come at once, each hears of all.
const GATHER: Duration = Duration::from_secs(1);

/// Something that a proxy is due, in the order in which it is told: a service before the destination that leads to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Place,
    Service(ServiceId),
    Resolved(Destination),
    Callers(ServiceId),
}

/// What a proxy has of a service.
#[derive(Debug)]
enum Held {
    Nothing,
    /// From an earlier stream, perhaps of another replica.
    Version(u64),
    View(Arc<View>),
}

/// One proxy, and what it was told.
#[derive(Debug)]
pub(super) struct Conversation {
    proxy: Proxy,
    waiter: Waiter,
    place: Option<proto::Place>,
    destinations: HashMap<Destination, Subscribed>,
    services: HashMap<ServiceId, Held>,
    /// Versions that the proxy said it holds, until they are asked for.
    known: HashMap<String, u64>,
    due: BTreeSet<Due>,
    /// Callers of each service that depends on them, as last told.
    callers: HashMap<ServiceId, BTreeMap<Arc<str>, u32>>,
    /// Services whose callers changed, and when they become due.
    later: BTreeSet<ServiceId>,
    gathered: Option<Instant>,
}

#[derive(Debug)]
struct Subscribed {
    /// As the proxy wrote it.
    written: proto::Destination,
    /// What it was last told, or is due.
    target: Target,
}

impl Conversation {
    pub(super) fn new(hub: &Arc<Hub>, proxy: Proxy, hello: &proto::Hello) -> Self {
        let known = hello.known.iter().take(DESTINATIONS_MAX);
        Self {
            proxy,
            waiter: hub.waiter(),
            place: None,
            destinations: HashMap::new(),
            services: HashMap::new(),
            known: known.map(|known| (known.service.clone(), known.version)).collect(),
            due: BTreeSet::from([Due::Place]),
            callers: HashMap::new(),
            later: BTreeSet::new(),
            gathered: None,
        }
    }

    pub(super) async fn run(
        mut self,
        mut inbound: Streaming<FromProxy>,
        outbound: Sender<Result<FromController, Status>>,
    ) {
        self.wait();
        loop {
            tokio::select! {
                biased;
                message = inbound.message() => match message {
                    Ok(Some(message)) => self.hear(message),
                    Ok(None) => return,
                    Err(status) => {
                        tracing::debug!(%status, proxy = ?self.proxy.pod, "discovery stream ended");
                        return;
                    }
                },
                dirty = self.waiter.changed() => self.look_again(&dirty),
                () = tokio::time::sleep_until(self.gathered.unwrap_or_else(Instant::now)), if self.gathered.is_some() => {
                    self.gathered = None;
                    self.due.extend(std::mem::take(&mut self.later).into_iter().map(Due::Callers));
                }
                place = outbound.reserve(), if !self.due.is_empty() => {
                    let Ok(place) = place else { return };
                    if let Some(message) = self.next_message() {
                        place.send(Ok(FromController { message: Some(message) }));
                    }
                }
            }
        }
    }

    fn hear(&mut self, message: FromProxy) {
        match message.message {
            Some(from_proxy::Message::Subscribe(proto::Subscribe {
                destination: Some(written),
            })) => {
                self.subscribe(written);
            }
            Some(from_proxy::Message::Unsubscribe(proto::Unsubscribe {
                destination: Some(written),
            })) => {
                if let Some(destination) = parse(&written) {
                    self.destinations.remove(&destination);
                    self.due.remove(&Due::Resolved(destination));
                    self.drop_unused();
                    self.wait();
                    self.call();
                }
            }
            other => {
                tracing::debug!(?other, proxy = ?self.proxy.pod, "a message that means nothing here");
            }
        }
    }

    fn subscribe(&mut self, written: proto::Destination) {
        let Some(destination) = parse(&written) else {
            tracing::debug!(?written, proxy = ?self.proxy.pod, "neither an address nor a name with a port");
            return;
        };
        if self.destinations.len() >= DESTINATIONS_MAX
            && !self.destinations.contains_key(&destination)
        {
            tracing::warn!(proxy = ?self.proxy.pod, limit = DESTINATIONS_MAX, "a proxy asks for too many destinations");
            return;
        }
        let unknown = Target::Passthrough(proto::Passthrough::Unknown);
        self.due.insert(Due::Resolved(destination.clone()));
        self.destinations.insert(destination, Subscribed { written, target: unknown });
        self.wait();
        self.resolve_again();
        self.call();
    }

    /// A destination resolves to something new.
    fn lead_to(&mut self, destination: &Destination, target: Target) {
        if let Target::Service(id) = target {
            let known = self.known.remove(&id.to_string());
            self.services.entry(id.clone()).or_insert_with(|| {
                self.due.insert(Due::Service(id));
                known.map_or(Held::Nothing, Held::Version)
            });
        }
        self.due.insert(Due::Resolved(destination.clone()));
    }

    /// Something changed: what of it concerns this proxy is due.
    fn look_again(&mut self, dirty: &Dirty) {
        let mut moved = false;
        for interest in dirty {
            match interest {
                Interest::Node(_) | Interest::Pod(_) => {
                    self.due.insert(Due::Place);
                    moved = true;
                }
                Interest::Callers(id) => {
                    self.later.insert(id.clone());
                    self.gathered = self.gathered.or_else(|| Some(Instant::now() + GATHER));
                }
                Interest::Service(key) => {
                    let here = self.services.keys().filter(|id| id.service == *key);
                    self.due.extend(here.cloned().map(Due::Service));
                    moved = true;
                }
                Interest::Address(_) => moved = true,
                Interest::Namespace(_) | Interest::Policies => {}
            }
        }
        if moved {
            // In this order: what changes from here on is heard of.
            self.wait();
            self.resolve_again();
            self.drop_unused();
            self.call();
        }
    }

    /// Counts as a caller of what it holds, and hears of the others where that matters.
    fn call(&mut self) {
        let hub = Arc::clone(self.waiter.hub());
        hub.look(|state| {
            let zone: Arc<str> = state.index().place(&self.proxy).zone.into();
            let services: Vec<ServiceId> = self.services.keys().cloned().collect();
            self.waiter.call(state, &zone, &services);
        });
        self.wait();
    }

    fn resolve_again(&mut self) {
        let hub = Arc::clone(self.waiter.hub());
        let namespace = self.proxy.namespace();
        let moved: Vec<(Destination, Target)> = hub.look(|state| {
            let targets = self.destinations.iter().map(|(destination, subscribed)| {
                (destination, subscribed, state.index().resolve(destination, namespace))
            });
            targets
                .filter(|(_, subscribed, target)| subscribed.target != *target)
                .map(|(destination, _, target)| (destination.clone(), target))
                .collect()
        });
        for (destination, target) in moved {
            if let Some(subscribed) = self.destinations.get_mut(&destination) {
                subscribed.target = target.clone();
            }
            self.lead_to(&destination, target);
        }
    }

    /// Services to which no destination leads any more.
    fn drop_unused(&mut self) {
        let used: HashSet<&ServiceId> = self
            .destinations
            .values()
            .filter_map(|subscribed| match &subscribed.target {
                Target::Service(id) => Some(id),
                Target::Passthrough(_) => None,
            })
            .collect();
        self.services.retain(|id, _| used.contains(id));
        self.callers.retain(|id, _| used.contains(id));
        self.due.retain(|due| match due {
            Due::Service(id) | Due::Callers(id) => used.contains(id),
            Due::Place | Due::Resolved(_) => true,
        });
    }

    /// Waits for all that anything told depends on.
    fn wait(&mut self) {
        let hub = Arc::clone(self.waiter.hub());
        hub.look(|state| {
            let namespace = self.proxy.namespace();
            let destinations = self.destinations.keys();
            let mut wanted = destinations
                .flat_map(|destination| state.index().interests(destination, namespace))
                .chain(self.proxy.interests())
                .collect::<HashSet<Interest>>();
            let counted = self.services.keys().filter(|id| counts_callers(state, &self.proxy, id));
            let counted: Vec<Interest> = counted.cloned().map(Interest::Callers).collect();
            wanted.extend(counted);
            self.waiter.wait_for(state, wanted);
        });
    }

    /// The next message that is due, unless it says nothing new.
    fn next_message(&mut self) -> Option<from_controller::Message> {
        let hub = Arc::clone(self.waiter.hub());
        match self.due.pop_first()? {
            Due::Place => {
                let place = hub.look(|state| state.index().place(&self.proxy));
                (self.place.as_ref() != Some(&place)).then(|| {
                    self.place = Some(place.clone());
                    from_controller::Message::Place(place)
                })
            }
            Due::Service(id) => hub.look(|state| self.service_message(state, &id)),
            Due::Resolved(destination) => {
                let subscribed = self.destinations.get(&destination)?;
                let target = match &subscribed.target {
                    Target::Service(id) => resolved::Target::Service(id.to_string()),
                    Target::Passthrough(why) => resolved::Target::Passthrough((*why).into()),
                };
                let destination = Some(subscribed.written.clone());
                let resolved = proto::Resolved { destination, target: Some(target) };
                Some(from_controller::Message::Resolved(resolved))
            }
            Due::Callers(id) => hub.look(|state| self.callers_message(state, &id)),
        }
    }

    fn service_message(
        &mut self,
        state: &mut State,
        id: &ServiceId,
    ) -> Option<from_controller::Message> {
        let held = self.services.get_mut(id)?;
        // Gone in between: the destination's change is on its way.
        let view = state.view(id)?;
        let message = match held {
            Held::Version(version) if *version == view.version() => None,
            Held::View(old) if old.version() == view.version() => None,
            Held::View(old) => Some(from_controller::Message::Change(view.since(old))),
            Held::Nothing | Held::Version(_) => {
                Some(from_controller::Message::Service(view.service.clone()))
            }
        };
        *held = Held::View(view);
        if counts_callers(state, &self.proxy, id) {
            self.due.insert(Due::Callers(id.clone()));
        }
        message
    }

    fn callers_message(
        &mut self,
        state: &mut State,
        id: &ServiceId,
    ) -> Option<from_controller::Message> {
        if !counts_callers(state, &self.proxy, id) {
            return None;
        }
        let callers = state.callers(id);
        if self.callers.get(id) == Some(&callers) {
            return None;
        }
        let zones = callers.iter().map(|(zone, count)| (zone.to_string(), *count)).collect();
        self.callers.insert(id.clone(), callers);
        Some(from_controller::Message::Callers(proto::Callers { service: id.to_string(), zones }))
    }
}

fn counts_callers(state: &mut State, proxy: &Proxy, id: &ServiceId) -> bool {
    state.view(id).is_some_and(|view| state.index().counts_callers(proxy, &view))
}

fn parse(written: &proto::Destination) -> Option<Destination> {
    use proto::destination::Destination as Written;
    match written.destination.as_ref()? {
        Written::Address(address) => address.parse().ok().map(Destination::Address),
        Written::Name(name) => Destination::name(name),
    }
}
