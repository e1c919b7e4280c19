//! The balancing core in a simulated cluster, beside models of its peers.
//!
//! A [`world::Run`] is a [`scenario::Scenario`], a [`policy::PolicyKind`] and a seed; what comes out is
//! [`measure::Measured`]. The zone valve in it is the `balance` crate, the same code as in the proxy. Everything else builds
//! on that: [`verify`] holds the zone valve to its bounds, [`compare`] sets it beside its peers, [`random`] does so in
//! scenarios that no one chose, [`trace`] draws one run, [`report`] writes the results down.
#![expect(
    clippy::indexing_slicing,
    reason = "the world is made of tables, and an index outside of one is a bug of this crate"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "simulated times and counts are far inside the range of their types"
)]

pub mod time;

pub mod world;

pub mod fault;
pub mod scenario;

pub mod policy;

pub mod measure;

pub mod jobs;
pub mod table;

pub mod verify;

pub mod compare;
pub mod random;

pub mod trace;

pub mod report;
