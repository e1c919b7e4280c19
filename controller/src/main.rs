//! `tidegate-controller`.

use anyhow::{Context as _, Result};
use clap::Parser as _;
use controller::cli::Cli;

fn main() -> Result<()> {
    let cli = Cli::parse();
    kit::log::init(&levels(&cli.log_level), cli.log_format)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(controller::run::run(cli))
}

/// The client of the API server writes an error for each answer that is one. The watches say the same once, with what follows from it.
fn levels(asked: &str) -> String {
    if asked.contains("tower_http") { asked.to_owned() } else { format!("{asked},tower_http=off") }
}
