//! The zone valve: the `balance` crate itself, told what the proxy would tell it.

use crate::policy::{Listed, Outcome, Place, Policy, Sent};
use crate::time::Nanos;
use balance::balancer::{self, Balancer, Pick, Served};
use balance::config::Config;
use balance::endpoint::{EndpointKey, EndpointSpec, ZoneId};
use balance::snapshot::Snapshot;
use balance::time::Timestamp;

/// One balancer with built-in settings.
#[derive(Debug)]
pub(super) struct Valve {
    zone: u8,
    retries: bool,
    balancer: Balancer,
}

impl Valve {
    /// A balancer without endpoints.
    pub(super) fn new(place: Place, retries: bool, now: Nanos) -> Self {
        let balancer = Balancer::new(Config::default(), place.seed, Timestamp::from_nanos(now));
        Self { zone: place.zone, retries, balancer }
    }

    fn spec(&self, listed: &Listed) -> EndpointSpec {
        let same_zone = listed.zone == self.zone;
        EndpointSpec {
            key: EndpointKey(listed.key),
            tier: u8::from(!same_zone),
            same_zone,
            same_region: true,
            zone: Some(ZoneId(u32::from(listed.zone))),
        }
    }
}

impl Policy for Valve {
    fn update(&mut self, listed: &[Listed], now: Nanos) {
        let specs: Vec<EndpointSpec> = listed.iter().map(|endpoint| self.spec(endpoint)).collect();
        self.balancer.update(&specs, Timestamp::from_nanos(now));
    }

    fn pick(&mut self, now: Nanos) -> Option<Sent> {
        self.balancer.pick(Timestamp::from_nanos(now)).map(|pick| sent(pick, now))
    }

    fn ended(&mut self, sent: Sent, outcome: Outcome, now: Nanos) -> Option<Served> {
        let ticket = sent.ticket?;
        let now = Timestamp::from_nanos(now);
        let outcome = match outcome {
            Outcome::Success => balancer::Outcome::Success,
            Outcome::Failure => balancer::Outcome::Failure,
            Outcome::Cancelled => {
                self.balancer.cancelled(ticket, now);
                return None;
            }
        };
        Some(self.balancer.answered(ticket, outcome, now))
    }

    fn retry(&mut self, failed: Served, now: Nanos) -> Option<Sent> {
        if !self.retries {
            return None;
        }
        self.balancer
            .pick_retry(failed, Timestamp::from_nanos(now))
            .ok()
            .map(|pick| sent(pick, now))
    }

    fn next_tick(&self) -> Option<Nanos> {
        Some(self.balancer.next_tick().as_nanos())
    }

    fn tick(&mut self, now: Nanos) {
        self.balancer.tick(Timestamp::from_nanos(now));
    }

    fn snapshot(&self, now: Nanos) -> Option<Snapshot> {
        Some(self.balancer.snapshot(Timestamp::from_nanos(now)))
    }
}

fn sent(pick: Pick, at: Nanos) -> Sent {
    let Pick { endpoint, ticket, .. } = pick;
    Sent {
        server: crate::world::server_of(endpoint.0),
        key: endpoint.0,
        trial: false,
        at,
        ticket: Some(ticket),
    }
}
