//! The Helm chart, the demo's manifests and the images, as far as they can be checked without a cluster.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise"
)]

mod confinement;
mod monitoring;
mod rbac;
mod rendering;
mod settings;
