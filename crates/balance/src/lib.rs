//! The zone valve.
//!
//! A [`Balancer`](balancer::Balancer) belongs to one caller and one service. It is told which endpoints exist, which were
//! picked and how their requests ended, and answers one question: **which endpoint takes the next request, and why**.
//!
//! The crate is pure: no clock, no I/O, no global, no thread. Time ([`time::Timestamp`]) and the seed of all randomness
//! are arguments, so any history can be replayed bit for bit, in the proxy, in the simulator and in a test.
//!
//! ```text
//! request ─ pick ── probe due? ── yes ─→ one ejected endpoint
//!                       └ no → plan of the policy → candidates → the cheaper one
//!         ─ dispatch ── outstanding + 1 ; a pile-up drops the valve at once
//!         ─ answered ── outstanding − 1 ; latency, verdict, breaker, failure cap
//! tick (1 s ± 20 %) ── baseline → failure cap → load valve → share and reach
//! ```
#![no_std]

extern crate alloc;

pub mod balancer;
pub mod config;
pub mod endpoint;
pub mod event;
pub mod reason;
pub mod snapshot;
pub mod time;

mod alarm;
mod baseline;
mod breaker;
mod extent;
mod failure_cap;
mod group;
mod hold;
mod number;
mod plan;
mod pool;
mod random;
mod requests;
mod retry;
mod slots;
mod spill;
mod valve;
