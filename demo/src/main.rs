//! The failure demo: three zones on one machine, real proxies, real load, one zone made to fail and healed again.
//!
//! ```text
//!   demo ─┬─ demo backend ×9   three zones of three scripted servers, switched over HTTP while they run
//!         ├─ tidegate-proxy    one per zone and policy, all policies against the same backends
//!         └─ demo load         oha, one per zone and policy: 100 requests a second each
//! ```
//!
//! Every part is a process of its own on loopback. The proxies are known only by their command line, their topology
//! file, `/metrics` and `/debug/services`.

mod arguments;
mod backend;
mod children;
mod clock;
mod exposition;
mod fault;
mod fetch;
mod hold;
mod load;
mod measure;
mod namespaces;
mod observe;
mod policy;
mod ports;
mod priority;
mod report;
mod run;
mod timeline;
mod verdict;
mod view;
mod world;

use std::process::ExitCode;

use arguments::{Cli, Command};
use clap::Parser as _;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None if cli.run.network.namespaces && !cli.run.network.network_ready => {
            namespaces::enter().map(|()| ExitCode::FAILURE)
        }
        None => on_runtime(run::run(cli.run)),
        Some(Command::Backend(arguments)) => {
            on_runtime(backend::serve(arguments)).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::Load(arguments)) => {
            on_runtime(load::run(arguments)).map(|()| ExitCode::SUCCESS)
        }
        Some(Command::OwnSession(arguments)) => {
            priority::become_program(arguments).map(|never| match never {})
        }
    };
    outcome.unwrap_or_else(|error| {
        run::say_error(&error);
        ExitCode::from(2)
    })
}

/// Everything here is little work on many sockets: one thread, so that the machine is left to the proxies.
fn on_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}
