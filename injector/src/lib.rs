//! Adds the Tidegate proxy to pods, in a manifest.
//!
//! `decide` says what is to be done with a pod, `patch` how; both are pure. The rest carries them out.

pub mod annotations;
pub mod cli;
pub mod decide;
pub mod inject;
pub mod offline;
pub mod options;
pub mod patch;
pub mod pod;
pub mod quantity;
pub mod settings;
