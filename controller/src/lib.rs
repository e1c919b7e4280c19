//! Kubernetes objects in, endpoint streams out.
//!
//! ```text
//! API servers ──watch──▶ hub (index, mailboxes) ──serve──▶ proxies, people
//!                          └──report──▶ events and statuses at the API server
//! ```
//!
//! Stateless: replicas that see the same objects tell the same, and none of them is missed by proxies that know their services.

pub mod cli;
pub mod run;

pub mod crd;
pub mod hub;
pub mod index;
pub mod report;
pub mod serve;
pub mod watch;

pub mod clock;
pub mod metrics;
