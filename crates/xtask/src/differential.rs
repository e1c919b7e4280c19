//! `cargo xtask differential`: the wire table through Tidegate and its peers.

use crate::process;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use std::process::ExitCode;

const PEERS: [Tool; 2] =
    [Tool { program: "haproxy", package: "haproxy" }, Tool { program: "nginx", package: "nginx" }];

/// Sets up the peers, sends the rows through them, and writes `docs/wire.md`.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    let missing = tools::programs(&PEERS, true);
    anyhow::ensure!(missing.is_empty(), "these are needed: {}", missing.join("; "));
    let envoy = tools::envoy(&workspace)?;
    process::run(&mut process::cargo(&["build", "--locked", "-p", "proxy", "--bins"]))?;
    let run = ["run", "--locked", "-p", "tests", "--example", "differential"];
    let mut command = process::cargo(&run);
    command.env("TIDEGATE_ENVOY", envoy).env("TIDEGATE_BIN", workspace.target.join("debug"));
    process::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
