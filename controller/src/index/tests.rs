//! The index by examples: objects as the API server sends them, and what proxies are told.

mod build;
mod conditions;
mod destinations;
mod endpoints;
mod findings;
mod packing;
mod policies;
mod remote;
