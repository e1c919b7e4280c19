//! What any program of Tidegate needs to be a process. Everything here runs on a current-thread runtime too.

pub mod admin;
pub mod log;
pub mod metrics;
#[cfg(any(test, feature = "page"))]
pub mod page;
pub mod shutdown;
