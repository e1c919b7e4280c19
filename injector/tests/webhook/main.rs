//! The webhook as API servers see it: over TLS, with a certificate that it keeps itself, beside its replicas.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise"
)]

mod bare;
mod caller;
mod certificate;
mod cluster;
mod process;
mod program;
mod reviews;
mod support;
