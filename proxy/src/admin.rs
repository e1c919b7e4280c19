//! What the proxy's admin server shows.

pub mod debug;

use crate::registry::Registry;
use debug::View;
use http::StatusCode;
use kit::admin::{Admin, Readiness, Reply, Route, reply};
use kit::metrics::Metrics;
use std::sync::Arc;

/// The server with all pages of the proxy.
pub fn server(registry: &Arc<Registry>, readiness: &Readiness, metrics: Metrics) -> Admin {
    let (scraped, shown) = (Arc::clone(registry), Arc::clone(registry));
    Admin::new(readiness.clone(), metrics, move || scraped.set_gauges()).route(Route::get(
        "/debug/services",
        "every service: policy, endpoints, last decisions and their numbers (JSON)",
        move |_| services(&shown),
    ))
}

fn services(registry: &Registry) -> Reply {
    match serde_json::to_vec(&View::of(registry)) {
        Ok(json) => reply::json(StatusCode::OK, json),
        Err(error) => {
            reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot write JSON: {error}\n"))
        }
    }
}
