//! What the controller said, kept: the last known good. Messages in, changes out; no time, no network.
//!
//! It outlives the streams it was told by. A new stream is told what is held; what still stands is not sent again, and what
//! is sent replaces what was held, whole.

use super::read::{self, Chosen, Endpoints, Head, Unreadable};
use crate::destinations::DESTINATIONS_MAX;
use crate::discovery::{Change, Destination, Passthrough, Place, ServiceUpdate, Target};
use api::discovery as proto;
use api::discovery::from_controller::Message;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Services that are kept: one for each destination at most, and those whose destination is just being told.
const SERVICES_MAX: usize = 2 * DESTINATIONS_MAX;

/// The last known good.
#[derive(Debug, Default)]
pub struct Mirror {
    /// What this process was told about its place; goes before what the controller says.
    ours: Place,
    place: Place,
    /// What annotations of this proxy's own pod say about all that it calls.
    caller: Option<Chosen>,
    services: HashMap<Arc<str>, Held>,
    /// What is asked for, and what it was said to be.
    destinations: HashMap<Destination, Option<Target>>,
    /// Services that were named on this stream without being held, and asked for again because of it, once.
    missing: HashSet<Arc<str>>,
}

#[derive(Debug)]
struct Held {
    version: u64,
    head: Head,
    endpoints: Endpoints,
    callers: Vec<(Arc<str>, u32)>,
    /// No destination led here yet.
    fresh: bool,
    /// It was asked for again, whole: changes that are still on their way mean nothing.
    awaited: bool,
}

/// What follows from a message.
#[derive(Debug, Default)]
pub struct Heard {
    /// For the data plane, in this order.
    pub changes: Vec<Change>,
    /// To be given up and asked for again, since something between was missed.
    pub again: Vec<Destination>,
    /// What of it could not be used, although the rest could.
    pub refused: Option<String>,
}

/// Why a message was not taken. What was known stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Distrust {
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// It is about far more than was asked for.
    #[error("more than {SERVICES_MAX} services, which nobody asked for")]
    TooMuch,
}

impl Mirror {
    /// Nothing known yet but this.
    pub fn new(ours: Place) -> Self {
        Self { place: ours.clone(), ours, ..Self::default() }
    }

    /// Where this proxy runs, as far as is known.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// What is held already, for the controller.
    pub fn known(&self) -> Vec<proto::Known> {
        let known = |(id, held): (&Arc<str>, &Held)| proto::Known {
            service: id.as_ref().to_owned(),
            version: held.version,
        };
        self.services.iter().map(known).collect()
    }

    /// A stream begins, on which all of `destinations` are asked for.
    pub fn begin(&mut self, destinations: &[Destination]) -> Vec<Change> {
        let wanted: HashSet<&Destination> = destinations.iter().collect();
        self.destinations.retain(|destination, _| wanted.contains(destination));
        for destination in destinations {
            self.subscribe(destination);
        }
        for held in self.services.values_mut() {
            (held.fresh, held.awaited) = (false, false);
        }
        self.missing.clear();
        let mut gone = Vec::new();
        self.drop_unused(&mut gone);
        gone
    }

    /// A destination is asked for.
    pub fn subscribe(&mut self, destination: &Destination) {
        self.destinations.entry(destination.clone()).or_insert(None);
    }

    /// A destination is no longer of interest.
    pub fn forget(&mut self, destination: &Destination) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.destinations.remove(destination).is_some() {
            self.drop_unused(&mut changes);
        }
        changes
    }

    /// Takes a message.
    pub fn hear(&mut self, message: proto::FromController) -> Result<Heard, Distrust> {
        match message.message.ok_or(Unreadable::Empty)? {
            Message::Place(place) => Ok(self.place_changed(&place)),
            Message::Service(service) => self.service(&service),
            Message::Change(change) => self.service_changed(&change),
            Message::Resolved(resolved) => self.resolved(&resolved),
            Message::Callers(callers) => Ok(self.callers_changed(&callers)),
        }
    }

    fn place_changed(&mut self, sent: &proto::Place) -> Heard {
        let mut heard = Heard::default();
        let (ours, theirs) = (self.ours.clone(), read::place(sent));
        let place = Place {
            zone: ours.zone.or(theirs.zone),
            region: ours.region.or(theirs.region),
            node: ours.node.or(theirs.node),
        };
        let caller = match sent.policy.as_ref().map(|sent| read::policy(sent, self.caller.as_ref()))
        {
            None => None,
            Some(Ok(chosen)) => Some(chosen),
            Some(Err(problem)) => {
                heard.refused = Some(format!("policy of this pod: {problem}"));
                self.caller.clone()
            }
        };
        if place != self.place || caller != self.caller {
            (self.place, self.caller) = (place, caller);
            let services = self.services.values().map(|held| self.update(held)).collect();
            heard.changes.push(Change::Place(self.place.clone(), services));
        }
        heard
    }

    fn service(&mut self, sent: &proto::Service) -> Result<Heard, Distrust> {
        let before = self.services.get(sent.id.as_str());
        let head = Head::read(sent, before.map(|held| &held.head.policy))?;
        if before.is_none() && self.services.len() >= SERVICES_MAX {
            return Err(Distrust::TooMuch);
        }
        let held = Held {
            version: sent.version,
            endpoints: read::endpoints(&sent.endpoints)?,
            callers: before.map(|held| held.callers.clone()).unwrap_or_default(),
            fresh: before.is_none_or(|held| held.fresh),
            awaited: false,
            head,
        };
        Ok(self.take(held))
    }

    fn service_changed(&mut self, sent: &proto::ServiceChange) -> Result<Heard, Distrust> {
        let Some(held) = self.services.get_mut(sent.id.as_str()) else {
            return Ok(Heard { again: self.leading_to(&sent.id), ..Heard::default() });
        };
        if held.awaited {
            return Ok(Heard::default());
        }
        if held.version != sent.base {
            held.awaited = true;
            return Ok(Heard { again: self.leading_to(&sent.id), ..Heard::default() });
        }
        let mut endpoints = held.endpoints.clone();
        for removed in &sent.removed {
            endpoints.remove(&read::address(removed)?);
        }
        endpoints.extend(read::endpoints(&sent.upserted)?);
        let head = match &sent.service {
            Some(service) => Head::read(service, Some(&held.head.policy))?,
            None => Head { policy_refused: None, ..held.head.clone() },
        };
        let (callers, fresh) = (held.callers.clone(), held.fresh);
        let version = sent.version;
        Ok(self.take(Held { version, head, endpoints, callers, fresh, awaited: false }))
    }

    fn take(&mut self, held: Held) -> Heard {
        let refused = held.head.policy_refused.clone();
        let refused = refused.map(|problem| format!("policy of {}: {problem}", held.head.id));
        let change = Change::Service(self.update(&held));
        self.missing.remove(&held.head.id);
        self.services.insert(Arc::clone(&held.head.id), held);
        Heard { changes: vec![change], again: Vec::new(), refused }
    }

    fn resolved(&mut self, sent: &proto::Resolved) -> Result<Heard, Distrust> {
        let (destination, target) = read::resolved(sent)?;
        let mut heard = Heard::default();
        let Some(known) = self.destinations.get_mut(&destination) else {
            return Ok(heard); // given up in the meantime
        };
        let before = known.replace(target.clone());
        let left = before.is_some_and(|before| before != target);
        let target = match target {
            Target::Service(id) if self.missed(&id) => {
                if self.missing.insert(id) {
                    heard.again.push(destination.clone());
                }
                Target::Passthrough(Passthrough::Unanswered)
            }
            other => other,
        };
        // Told also when it is what it was: the data plane may have given up waiting in the meantime.
        heard.changes.push(Change::Resolved(destination, target));
        if left {
            self.drop_unused(&mut heard.changes);
        }
        Ok(heard)
    }

    /// Whether a service is not held, although the controller believes that it is: it no longer is, or could not be read.
    fn missed(&mut self, id: &Arc<str>) -> bool {
        match self.services.get_mut(id) {
            Some(held) => {
                held.fresh = false;
                false
            }
            None => true,
        }
    }

    fn callers_changed(&mut self, sent: &proto::Callers) -> Heard {
        let mut heard = Heard::default();
        if let Some(held) = self.services.get_mut(sent.service.as_str()) {
            held.callers = read::callers(sent);
        }
        if let Some(held) = self.services.get(sent.service.as_str()) {
            heard.changes.push(Change::Service(self.update(held)));
        }
        heard
    }

    fn leading_to(&self, id: &str) -> Vec<Destination> {
        let leads = |target: &Option<Target>| matches!(target, Some(Target::Service(service)) if **service == *id);
        let leading = self.destinations.iter().filter(|(_, target)| leads(target));
        leading.map(|(destination, _)| destination.clone()).collect()
    }

    fn update(&self, held: &Held) -> ServiceUpdate {
        let policy = match &self.caller {
            Some(caller) if !held.head.policy.fixed => caller,
            _ => &held.head.policy,
        };
        held.head.update(policy, &held.endpoints, &held.callers)
    }

    /// Services to which no destination leads any more.
    fn drop_unused(&mut self, changes: &mut Vec<Change>) {
        let used: HashSet<&Arc<str>> = self
            .destinations
            .values()
            .filter_map(|target| match target {
                Some(Target::Service(id)) => Some(id),
                _ => None,
            })
            .collect();
        let unused = self.services.extract_if(|id, held| !held.fresh && !used.contains(id));
        changes.extend(unused.map(|(id, _)| Change::Gone(id)));
    }
}
