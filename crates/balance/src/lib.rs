//! The zone valve.
//!
//! A [`Balancer`](balancer::Balancer) belongs to one caller and one service. It is told which endpoints exist, which were
//! picked and how their requests ended, and answers one question: **which endpoint takes the next request, and why**.
//!
//! The crate is pure: no clock, no I/O, no global, no thread. Time ([`time::Timestamp`]) and the seed of all randomness
//! are arguments, so any history can be replayed bit for bit, in the proxy, in the simulator and in a test.
#![no_std]

extern crate alloc;

pub mod balancer;
pub mod config;
pub mod endpoint;
pub mod event;
pub mod reason;
pub mod snapshot;
pub mod time;
