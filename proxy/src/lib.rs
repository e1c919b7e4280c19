//! The data plane of Tidegate: takes the calls of one application and keeps them inside its zone while that is free.
//!
//! `discovery` says what exists, `registry` holds it, `worker` runs the threads, `outbound` is the path of a request and
//! `upstream` the connections to endpoints.

pub mod clock;
pub mod discovery;
pub mod drain;
pub mod endpoint;
mod listener;
pub mod metrics;
mod outbound;
pub mod registry;
pub mod service;
pub mod settings;
mod upstream;
pub mod worker;
