//! What the tests of whole programs need: starting them, scripted peers, real peers, and reading what the programs tell.
//!
//! A test starts [`origin::Origin`]s, writes a [`topology::Topology`], starts a [`proxy::Proxy`] with it, sends requests by
//! [`curl`] or another real client, and reads [`metrics`] and [`proxy::Proxy::service`]. Everything ends with its value.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise and says what it does"
)]

pub mod backend;
pub mod certificate;
pub mod chart;
pub mod controller;
pub mod curl;
pub mod deadline;
pub mod folder;
pub mod fuzz;
pub mod grpc;
pub mod http;
pub mod kubernetes;
pub mod lab;
pub mod listener;
pub mod load;
pub mod metrics;
pub mod origin;
pub mod ports;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod topology;
pub mod wire;
