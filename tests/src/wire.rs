//! The wire table: what may arrive from callers and endpoints, byte by byte, and what has to come of it. One table, used against
//! our proxy in the ordinary tests and against other proxies by `cargo xtask differential`.
//!
//! ```text
//!   row: bytes in ──▶ proxy under test ──▶ scripted origin, which parses strictly and notes every request
//!                          │
//!            answers and end of the connection ──▶ Outcome ──▶ checked against the row, or written down
//! ```

mod accept;
pub mod http2;
pub mod origin;
pub mod row;
pub mod rows;
pub mod run;
pub mod strict;
