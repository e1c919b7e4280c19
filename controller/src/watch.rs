//! Kubernetes' objects, followed: each kind of each cluster by one watch that goes on whatever happens.

mod follow;
pub mod health;
pub mod home;
mod probe;
pub mod remote;
