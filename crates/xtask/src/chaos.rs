//! `cargo xtask chaos`: faults under load.

use crate::process;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use clap::Args;
use std::process::{Command, ExitCode};

/// What the faults are made with.
const TOOLS: [Tool; 4] = [
    Tool { program: "unshare", package: "util-linux" },
    Tool { program: "ip", package: "iproute2" },
    Tool { program: "iptables", package: "iptables" },
    Tool { program: "faketime", package: "faketime" },
];

#[derive(Debug, Args)]
pub(crate) struct ChaosArguments {
    /// 15 seconds for each fault instead of 60
    #[arg(long)]
    quick: bool,
    /// Only faults whose name contains this
    #[arg(long)]
    only: Option<String>,
}

/// Builds the programs, and lets one fault after the other strike in a network namespace that nobody else is in.
pub(crate) fn run(arguments: &ChaosArguments) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    let missing = tools::programs(&TOOLS, true);
    anyhow::ensure!(missing.is_empty(), "these are needed: {}", missing.join("; "));
    process::run(&mut process::cargo(&["build", "--locked", "-p", "proxy", "--bins"]))?;
    process::run(&mut process::cargo(&["build", "--locked", "-p", "tests", "--example", "chaos"]))?;
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command.arg(workspace.target.join("debug/examples/chaos"));
    command.arg(if arguments.quick { "15" } else { "60" }).args(&arguments.only);
    command.env("TIDEGATE_BIN", workspace.target.join("debug"));
    process::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}
