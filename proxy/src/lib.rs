//! The data plane of Tidegate: takes the calls of one application and keeps them inside its zone while that is free.
//!
//! `cli` reads the command line, `run` is the process, `why` asks a running one, `redirect` sets the
//! kernel's rules; `admin` shows what goes on inside.
//! `discovery` says what exists, `registry` and `destinations` hold it, `worker` runs the threads, `outbound` is the path of a request and
//! `upstream` the connections to endpoints.

pub mod admin;
pub mod cli;
pub mod clock;
pub mod destinations;
pub mod discovery;
pub mod drain;
pub mod endpoint;
pub mod flood;
#[doc(hidden)]
pub mod fuzzing;
mod inbound;
pub mod latency;
mod listener;
pub mod metrics;
mod outbound;
pub mod overload;
pub mod port_list;
pub mod redirect;
pub mod registry;
pub mod run;
pub mod service;
pub mod settings;
mod tunnel;
mod upstream;
pub mod why;
pub mod worker;
