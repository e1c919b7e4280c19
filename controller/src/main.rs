//! `tidegate-controller`.

use anyhow::{Context as _, Result};
use clap::Parser as _;
use controller::cli::Cli;

fn main() -> Result<()> {
    let cli = Cli::parse();
    kit::log::init(&cli.log_level, cli.log_format)?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(controller::run::run(cli))
}
