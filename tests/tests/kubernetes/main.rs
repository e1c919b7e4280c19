//! The controller against a real Kubernetes API server, with the rights that the chart gives it.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise and says what it measured"
)]

mod effects;
mod follow;
mod mesh;
mod policies;
mod proxies;
mod remote;
mod trouble;
mod view;
