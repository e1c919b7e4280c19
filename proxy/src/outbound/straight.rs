//! Requests for an address that belongs to no service: they go where the caller dialled, over connections that are kept like
//! those of services. Connections as a whole are passed on unread instead; this is for those that turned out to carry requests
//! for different services, and for those whose service went away while they were open.

use crate::clock::Clock;
use crate::discovery::{EndpointUpdate, Place, ServiceUpdate};
use crate::metrics::UNKNOWN;
use crate::overload::Overload;
use crate::service::Service;
use crate::worker::local::LocalService;
use balance::time::Timestamp;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Addresses whose connections are kept. What goes to further ones opens its own.
const ADDRESSES_MAX: usize = 1024;

/// An address that no request went to for this time is forgotten.
const IDLE: Duration = Duration::from_mins(1);

/// What leads straight to an address, as one worker sees it.
#[derive(Debug, Default)]
pub(crate) struct Straight(RefCell<HashMap<SocketAddr, Used>>);

#[derive(Debug)]
struct Used {
    service: Rc<LocalService>,
    at: Timestamp,
}

impl Straight {
    /// What leads to an address.
    pub(crate) fn service(
        &self,
        address: SocketAddr,
        place: &Place,
        clock: Clock,
        overload: &Arc<Overload>,
    ) -> Rc<LocalService> {
        let mut all = self.0.borrow_mut();
        let now = clock.now();
        if let Some(used) = all.get_mut(&address).filter(|used| used.service.is_at(place)) {
            used.at = now;
            return Rc::clone(&used.service);
        }
        let endpoints = vec![EndpointUpdate::at(address)];
        let update = ServiceUpdate::unbalanced(UNKNOWN.into(), address, endpoints);
        let service = Arc::new(Service::new(&update, place, clock));
        let service = Rc::new(LocalService::new(service, clock, Arc::clone(overload)));
        if all.len() < ADDRESSES_MAX || all.contains_key(&address) {
            let used = Used { service: Rc::clone(&service), at: now };
            if let Some(old) = all.insert(address, used) {
                old.service.close();
            }
        }
        service
    }

    /// Closes what was idle for too long.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.0.borrow_mut().retain(|_, used| {
            let idle = now.since(used.at) >= IDLE;
            if idle {
                used.service.close();
            } else {
                used.service.sweep(now);
            }
            !idle
        });
    }
}
