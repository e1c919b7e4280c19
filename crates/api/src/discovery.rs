//! The discovery protocol between proxies and controller: messages, client and server of `proto/discovery.proto`.
//!
//! The code is generated and checked in, so that nobody needs a protobuf compiler:
//! `cargo run -p api --example generate_discovery` writes it, a test compares.

#[rustfmt::skip]
#[allow(
    clippy::all, clippy::pedantic, clippy::restriction, clippy::nursery, missing_docs, unreachable_pub,
    unused_qualifications, single_use_lifetimes, trivial_casts, rustdoc::all, rust_2018_idioms,
    clippy::allow_attributes, clippy::allow_attributes_without_reason,
    reason = "generated"
)]
mod generated;

pub use generated::*;
