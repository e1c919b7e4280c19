//! `cargo demo`: one command from a clone to the running demo.

use crate::process;
use crate::workspace::Workspace;
use anyhow::Context as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Builds the programs that the demo starts, then becomes the demo.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let build = ["build", "--profile", "fast", "--locked", "--bins", "-p", "proxy", "-p", "demo"];
    process::run(&mut process::cargo(&build))?;
    let program = Workspace::load()?.target.join("fast/demo");
    // Replacing this process leaves signals and the exit status to the demo alone.
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
