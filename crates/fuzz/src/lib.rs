//! The properties live in `tests`, where the ordinary tests replay the corpus. They are taken from there by path, since that crate
//! also links all that talks to a Kubernetes API server.

#![allow(clippy::all, missing_docs, reason = "checked where it lives")]

#[path = "../../../tests/src/deadline.rs"]
pub mod deadline;
#[path = "../../../tests/src/fuzz.rs"]
pub mod fuzz;
#[path = "../../../tests/src/wire.rs"]
pub mod wire;
