//! Simulator.
fn main() {}
