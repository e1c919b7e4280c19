//! The properties live in `tests`, where the ordinary tests replay the corpus. They are taken from there by path, since that crate
//! also links all that talks to a Kubernetes API server.

#![allow(clippy::all, missing_docs, reason = "checked where it lives")]

// The path of a module with a body is where those in it are looked for.
#[path = "../../../tests/src"]
mod tests {
    pub mod deadline;
    pub mod fuzz;
    pub mod wire;
}

pub use tests::{deadline, fuzz, wire};
