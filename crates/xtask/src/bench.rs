//! `cargo xtask bench`: what things cost, measured beside their peers.

use crate::process;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use clap::Subcommand;
use std::process::{Command, ExitCode};

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// CPU per request, latency and memory of the proxy beside Envoy, HAProxy and nginx (--help lists its arguments)
    #[command(disable_help_flag = true)]
    Proxy {
        /// Arguments of the harness
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Latency of the injector's webhook at 200 reviews a second, and failed calls while its certificates are renewed (a minute)
    #[command(disable_help_flag = true)]
    Injector {
        /// Arguments of the harness
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// How soon proxies hear of changes from the controller, and its memory and CPU, in a small and a large cluster on a real
    /// API server
    Controller {
        /// Divides the number of services and proxies
        #[arg(long, default_value_t = 1)]
        divisor: u32,
    },
}

/// Builds what is measured with all optimizations, sets up its peers, and measures.
pub(crate) fn run(what: &Bench) -> anyhow::Result<ExitCode> {
    match what {
        Bench::Proxy { arguments } => proxy(arguments),
        Bench::Injector { arguments } => injector(arguments),
        Bench::Controller { divisor } => controller(*divisor),
    }
}

/// The peers and the loads.
const PEERS: [Tool; 6] = [
    Tool { program: "haproxy", package: "haproxy" },
    Tool { program: "nginx", package: "nginx" },
    Tool { program: "wrk", package: "wrk" },
    Tool { program: "h2load", package: "nghttp2-client" },
    Tool { program: "valgrind", package: "valgrind" },
    Tool { program: "strace", package: "strace" },
];

fn proxy(arguments: &[String]) -> anyhow::Result<ExitCode> {
    process::run(&mut process::cargo(&[
        "build",
        "--release",
        "--locked",
        "--bins",
        "-p",
        "proxy",
        "-p",
        "bench",
    ]))?;
    let workspace = Workspace::load()?;
    let mut command = Command::new(workspace.target.join("release/bench"));
    command.arg("proxy").args(arguments).current_dir(&workspace.root);
    let asks_for_help = arguments.iter().any(|argument| argument == "--help" || argument == "-h");
    if !asks_for_help {
        let missing = tools::programs(&PEERS, true);
        anyhow::ensure!(missing.is_empty(), "these are needed: {}", missing.join("; "));
        command.env("TIDEGATE_ENVOY", tools::envoy(&workspace)?);
        command.env("TIDEGATE_PROXY", workspace.target.join("release/tidegate-proxy"));
    }
    process::run(&mut command)?;
    Ok(ExitCode::SUCCESS)
}

fn controller(divisor: u32) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    let missing = tools::cluster(&workspace);
    anyhow::ensure!(missing.is_empty(), "these are needed: {}", missing.join("; "));
    let build = ["build", "--profile", "fast", "--locked", "-p", "controller", "--bins"];
    process::run(&mut process::cargo(&build))?;
    let run =
        ["run", "--profile", "fast", "--locked", "-p", "tests", "--example", "controller_scale"];
    let mut command = process::cargo(&run);
    command.env("TIDEGATE_BIN", workspace.target.join("fast"));
    command.env("TIDEGATE_TOOLS", tools::folder(&workspace));
    process::run(command.arg("--").arg(divisor.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn injector(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let bench =
        ["bench", "--profile", "fast", "--locked", "-p", "injector", "--bench", "reviews", "--"];
    process::run(process::cargo(&bench).args(arguments))?;
    Ok(ExitCode::SUCCESS)
}
