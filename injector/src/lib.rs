//! Adds the Tidegate proxy to pods: in a manifest, and in a cluster as an admission webhook.
//!
//! `decide` says what is to be done with a pod, `patch` how; both are pure. The rest carries them out: `offline` on a manifest,
//! `serve` in a cluster, where `webhook` answers the API server, `certificate` keeps what it is answered with, and `bare` looks
//! for pods that were never asked about.

pub mod bare;
pub mod certificate;
pub mod cli;
mod clock;
pub mod decide;
pub mod inject;
pub mod metrics;
pub mod namespaces;
mod nearest;
pub mod offline;
pub mod options;
pub mod patch;
pub mod pod;
pub mod quantity;
pub mod serve;
pub mod settings;
pub mod webhook;
