//! `bench`: what a request costs in the proxy, beside real Envoy, HAProxy and nginx on the same work in the same run.
//!
//! The figure that holds on a noisy machine is **CPU time of the proxy process per request**; requests per second and
//! latencies are printed beside it. Rounds are interleaved (A B C A B C ...), medians are taken over rounds, and ratios are
//! to Envoy of the same run.

mod arguments;
mod counts;
mod growth;
mod load;
mod memory;
mod peer;
mod process;
mod report;
mod rounds;
mod server;
mod work;

use arguments::{Arguments, Command};
use clap::Parser;

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Proxy(options) => rounds::run(&options),
        Command::Origin(options) => server::origin::run(&options),
        Command::Hyper(options) => server::hyper_proxy::run(&options),
        Command::Oha(options) => load::run_oha(&options.arguments),
        Command::Relay(options) => server::relay::run(&options),
    }
}
