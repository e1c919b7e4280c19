//! What the proxy's admin server shows.

pub mod debug;
pub mod discovery;

use crate::discovery::controller::status::Status;
use crate::discovery::metrics::set_gauges;
use crate::registry::Registry;
use debug::View;
use http::StatusCode;
use kit::admin::{Admin, Readiness, Reply, Route, reply};
use kit::metrics::Metrics;
use std::sync::Arc;

/// What there is to show.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The services.
    pub registry: Arc<Registry>,
    /// How it stands with the controller, if there is one.
    pub status: Option<Arc<Status>>,
}

/// The server with all pages of the proxy.
pub fn server(shown: Shown, readiness: &Readiness, metrics: Metrics) -> Admin {
    let scraped = shown.clone();
    Admin::new(readiness.clone(), metrics, move || scraped.set_gauges()).route(Route::get(
        "/debug/services",
        "every service: policy, endpoints, last decisions and their numbers (JSON)",
        move |_| services(&shown),
    ))
}

impl Shown {
    fn set_gauges(&self) {
        self.registry.set_gauges();
        if let (Some(status), Some(destinations)) = (&self.status, self.registry.destinations()) {
            set_gauges(status, destinations);
        }
    }
}

fn services(shown: &Shown) -> Reply {
    match serde_json::to_vec(&View::of(shown)) {
        Ok(json) => reply::json(StatusCode::OK, json),
        Err(error) => {
            reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write JSON: {error}\n"))
        }
    }
}
