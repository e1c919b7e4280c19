//! The contract between the programs of Tidegate: what more than one of them must spell the same.
//!
//! Nothing here does anything: names, and the policy that every source (topology file, custom resource, annotation) is
//! parsed into.

pub mod annotations;
#[cfg(feature = "discovery")]
pub mod discovery;
pub mod names;
pub mod policy;
