//! What becomes of pods and manifests.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise"
)]

mod idempotence;
mod injection;
mod manifests;
mod support;
