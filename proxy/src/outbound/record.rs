//! What is learnt from a request: by the balancer at the response headers, by the metrics at the end of the body. An
//! [`Exchange`] is finished exactly once, also when the request is dropped at any await.

use crate::metrics::{Class, Open, Protocol};
use crate::outbound::body::request::Upload;
use crate::outbound::classify::Origin;
use crate::service::again::Again;
use crate::worker::local::{LocalEndpoint, LocalService};
use balance::balancer::{Outcome, Pick, RetryRefused, Served, Ticket};
use balance::endpoint::Locality;
use balance::reason::Reason;
use balance::time::Timestamp;
use std::rc::Rc;

/// One request of a caller, from its headers to the end of its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    service: Rc<LocalService>,
    protocol: Protocol,
    started: Timestamp,
    attempt: Option<Attempt>,
    upload: Upload,
    /// The caller wishes to go on in another protocol, and may.
    wishes_upgrade: bool,
    /// Counted in flight, where that is to be seen.
    in_flight: Option<Open>,
    /// Not for a probe, which says nothing about how callers are served.
    counted: bool,
    finished: bool,
}

/// The attempt that is under way, or was the last one.
#[derive(Debug)]
struct Attempt {
    endpoint: Rc<LocalEndpoint>,
    locality: Locality,
    /// Present until the headers arrive or the attempt fails, if the balancer chose it.
    ticket: Option<Ticket>,
}

impl Exchange {
    pub(crate) fn begin(
        service: Rc<LocalService>,
        protocol: Protocol,
        upload: Upload,
        started: Timestamp,
    ) -> Self {
        let in_flight = service.shared().metrics().request_began();
        Self {
            service,
            protocol,
            started,
            attempt: None,
            upload,
            wishes_upgrade: false,
            in_flight,
            counted: true,
            finished: false,
        }
    }

    /// An answer is passed on: the request is not sent again.
    pub(crate) fn settle(&self) {
        self.upload.settle();
    }

    pub(crate) fn wish_upgrade(&mut self) {
        self.wishes_upgrade = true;
    }

    /// It is a probe: nothing of it is counted.
    pub(crate) fn is_probe(&mut self) {
        self.in_flight = None;
        self.counted = false;
    }

    pub(crate) fn wishes_upgrade(&self) -> bool {
        self.wishes_upgrade
    }

    pub(crate) fn service(&self) -> &Rc<LocalService> {
        &self.service
    }

    pub(crate) fn upload(&self) -> &Upload {
        &self.upload
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.service.clock().now()
    }

    /// Picks an endpoint for the first attempt.
    pub(crate) fn pick(&mut self) -> Option<Rc<LocalEndpoint>> {
        // An endpoint may be removed between the pick and its lookup; the next pick cannot return it again.
        for _ in 0..PICKS_MAX {
            let pick = self.service.shared().pick(self.started)?;
            if let Some(endpoint) = self.take(pick) {
                return Some(endpoint);
            }
        }
        None
    }

    /// Picks another endpoint for a further attempt.
    pub(crate) fn pick_again(
        &mut self,
        again: Again<'_>,
        now: Timestamp,
    ) -> Result<Rc<LocalEndpoint>, RetryRefused> {
        for _ in 0..PICKS_MAX {
            let pick = self.service.shared().pick_again(again, now)?;
            if let Some(endpoint) = self.take(pick) {
                return Ok(endpoint);
            }
        }
        Err(RetryRefused::NoOther)
    }

    fn take(&mut self, pick: Pick) -> Option<Rc<LocalEndpoint>> {
        let shared = self.service.shared();
        let Some(endpoint) = self.service.endpoint(pick.endpoint) else {
            shared.cancelled(pick.ticket, self.started);
            return None;
        };
        shared.metrics().picked(pick.locality, pick.reason);
        if let Some((locality, reason)) = pick.would {
            shared.metrics().would_pick(locality, reason);
        }
        endpoint.shared().counts.picked();
        self.attempt = Some(Attempt {
            endpoint: Rc::clone(&endpoint),
            locality: pick.locality,
            ticket: Some(pick.ticket),
        });
        Some(endpoint)
    }

    /// Goes to an endpoint without asking the balancer, which learns nothing of it.
    pub(crate) fn take_spare(&mut self, endpoint: &Rc<LocalEndpoint>, locality: Locality) {
        self.service.shared().metrics().picked(locality, Reason::Retry);
        endpoint.shared().counts.picked();
        self.attempt = Some(Attempt { endpoint: Rc::clone(endpoint), locality, ticket: None });
    }

    /// The response headers arrived, or the attempt failed by the endpoint's fault.
    pub(crate) fn answered(&mut self, outcome: Outcome, now: Timestamp) -> Option<Served> {
        let ticket = self.attempt.as_mut()?.ticket.take()?;
        Some(self.service.shared().answered(ticket, outcome, now))
    }

    /// The attempt failed by somebody else's fault: nothing is learnt about the endpoint.
    pub(crate) fn excused(&mut self) {
        if let Some(ticket) = self.attempt.as_mut().and_then(|attempt| attempt.ticket.take()) {
            // No time has passed for the balancer, so that a slow caller does not look like a stalled endpoint.
            self.service.shared().cancelled(ticket, self.started);
        }
    }

    /// The body failed by the endpoint's fault, or its trailers report a failure.
    pub(crate) fn body_failed(&self, served: Served, now: Timestamp) {
        self.service.shared().body_failed(served, now);
    }

    /// Counts the request.
    pub(crate) fn finish(&mut self, class: Class, now: Timestamp) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        self.in_flight = None;
        if !self.counted {
            return;
        }
        match &self.attempt {
            Some(attempt) => attempt.endpoint.shared().zone.requested(self.protocol, class),
            None => self.service.nowhere().requested(self.protocol, class),
        }
        let locality = self.attempt.as_ref().map(|attempt| attempt.locality);
        self.service.shared().lasted(locality, self.started, now);
    }

    /// Counts a request that failed without an answer of an endpoint.
    pub(crate) fn fail(&mut self, origin: Origin) {
        let now = self.now();
        let class = match origin {
            Origin::Endpoint => Class::Failure,
            Origin::Caller | Origin::Proxy => Class::Rejected,
        };
        self.finish(class, now);
    }
}

/// Picks for an attempt before it is given up.
const PICKS_MAX: usize = 3;

impl Drop for Exchange {
    /// The caller went away: neither success nor failure, unless the endpoint had kept it waiting for too long.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let now = self.now();
        let ticket = self.attempt.as_mut().and_then(|attempt| attempt.ticket.take());
        // An endpoint that still waits for the caller's body has kept nobody waiting.
        let waited_until = if self.upload.is_complete() { now } else { self.started };
        let stalled =
            ticket.is_some_and(|ticket| self.service.shared().cancelled(ticket, waited_until));
        self.finish(if stalled { Class::Failure } else { Class::Cancelled }, now);
    }
}
