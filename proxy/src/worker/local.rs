//! What one worker keeps of the services: endpoints with this worker's own connections. Nothing here is shared between
//! threads, so that a request takes no lock but its balancer's and counts no shared references.

use crate::clock::Clock;
use crate::discovery::Place;
use crate::endpoint::{Endpoint, key};
use crate::metrics::ZoneMetrics;
use crate::overload::Overload;
use crate::service::{Service, State};
use crate::settings::Settings;
use crate::upstream::Connections;
use balance::endpoint::EndpointKey;
use balance::time::Timestamp;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A service as one worker sees it.
#[derive(Debug)]
pub(crate) struct LocalService {
    shared: Arc<Service>,
    clock: Clock,
    overload: Arc<Overload>,
    view: RefCell<View>,
    version: Cell<u64>,
}

#[derive(Debug)]
struct View {
    state: Arc<State>,
    /// By slot; filled when an endpoint is first picked.
    endpoints: Vec<Option<Rc<LocalEndpoint>>>,
}

/// An endpoint as one worker sees it.
#[derive(Debug)]
pub(crate) struct LocalEndpoint {
    shared: Arc<Endpoint>,
    connections: Rc<Connections>,
}

impl LocalService {
    pub(crate) fn new(shared: Arc<Service>, clock: Clock, overload: Arc<Overload>) -> Self {
        let version = Cell::new(shared.version());
        let view = RefCell::new(View { state: shared.state(), endpoints: Vec::new() });
        Self { shared, clock, overload, view, version }
    }

    pub(crate) fn shared(&self) -> &Arc<Service> {
        &self.shared
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// What counts requests that reach no endpoint.
    pub(crate) fn nowhere(&self) -> Arc<ZoneMetrics> {
        Arc::clone(&self.view.borrow().state.nowhere)
    }

    /// Whether it is seen from there.
    pub(crate) fn is_at(&self, place: &Place) -> bool {
        self.view.borrow().state.place() == place
    }

    /// Reads something of the settings.
    pub(crate) fn setting<T>(&self, read: impl FnOnce(&Settings) -> T) -> T {
        read(&self.view.borrow().state.settings)
    }

    /// The endpoint that the balancer picked; `None` when it was removed since.
    pub(crate) fn endpoint(&self, key: EndpointKey) -> Option<Rc<LocalEndpoint>> {
        self.refresh();
        let mut view = self.view.borrow_mut();
        let slot = key::slot(key);
        if let Some(Some(endpoint)) = view.endpoints.get(slot)
            && endpoint.shared.key() == key
        {
            return Some(Rc::clone(endpoint));
        }
        let shared = Arc::clone(view.state.endpoint(key)?);
        let connections = Rc::new(Connections::new(&self.overload));
        let endpoint = Rc::new(LocalEndpoint { shared, connections });
        if view.endpoints.len() <= slot {
            view.endpoints.resize(slot + 1, None);
        }
        if let Some(place) = view.endpoints.get_mut(slot) {
            *place = Some(Rc::clone(&endpoint));
        }
        Some(endpoint)
    }

    /// Takes over what changed: connections of removed endpoints are closed, those of the others stay.
    fn refresh(&self) {
        let version = self.shared.version();
        if self.version.replace(version) == version {
            return;
        }
        let mut view = self.view.borrow_mut();
        let View { state, endpoints } = &mut *view;
        *state = self.shared.state();
        for place in endpoints {
            let Some(endpoint) = place else { continue };
            let now = state.endpoint(endpoint.shared.key());
            match now {
                Some(shared) if Arc::ptr_eq(shared, &endpoint.shared) => {}
                Some(shared) => {
                    let connections = Rc::clone(&endpoint.connections);
                    *place =
                        Some(Rc::new(LocalEndpoint { shared: Arc::clone(shared), connections }));
                }
                None => {
                    endpoint.connections.close();
                    *place = None;
                }
            }
        }
    }

    /// Closes what was idle for too long. To be called about once a second.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.refresh();
        for endpoint in self.view.borrow().endpoints.iter().flatten() {
            endpoint.connections.sweep(now);
        }
    }

    /// Closes all idle connections: the service is gone.
    pub(crate) fn close(&self) {
        for endpoint in self.view.borrow().endpoints.iter().flatten() {
            endpoint.connections.close();
        }
    }
}

impl LocalEndpoint {
    pub(crate) fn shared(&self) -> &Endpoint {
        &self.shared
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }
}
