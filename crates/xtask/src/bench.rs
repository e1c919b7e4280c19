//! `cargo xtask bench`: what things cost, measured beside their peers.

use crate::process;
use crate::tools::{self, Tool};
use crate::workspace::Workspace;
use anyhow::Context as _;
use clap::Subcommand;
use std::fs;
use std::path::{Path, PathBuf};
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
    /// How soon proxies hear of changes from the controller, and its memory and CPU: with a real API server, and in a large
    /// cluster with a simulated one
    Controller {
        /// Divides the number of services and proxies
        #[arg(long, default_value_t = 1)]
        divisor: u32,
        /// Writes the tables into this file, between its lines `<!-- bench controller -->` and `<!-- end of bench controller -->`
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
}

/// Builds what is measured with all optimizations, sets up its peers, and measures.
pub(crate) fn run(what: &Bench) -> anyhow::Result<ExitCode> {
    match what {
        Bench::Proxy { arguments } => proxy(arguments),
        Bench::Injector { arguments } => injector(arguments),
        Bench::Controller { divisor, report } => controller(*divisor, report.as_deref()),
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

fn controller(divisor: u32, report: Option<&Path>) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    let missing = tools::cluster(&workspace);
    anyhow::ensure!(missing.is_empty(), "these are needed: {}", missing.join("; "));
    let packages = ["-p", "controller", "-p", "proxy", "-p", "tests"];
    let mut build = process::cargo(&["build", "--profile", "fast", "--locked", "--bins"]);
    process::run(build.args(["--example", "controller_scale"]).args(packages))?;
    let (folder, tables) =
        (workspace.target.join("fast"), workspace.target.join("bench-controller.md"));
    let mut command = Command::new(folder.join("examples/controller_scale"));
    command.env("TIDEGATE_BIN", &folder).env("TIDEGATE_TOOLS", tools::folder(&workspace));
    process::run(command.arg(divisor.to_string()).arg(&tables))?;
    if let Some(file) = report {
        let tables = fs::read_to_string(&tables).context("the measurement wrote no tables")?;
        let command = format!("cargo xtask bench controller --report {}", file.display());
        let text = format!("\nMade by `{command}`.\n\n{tables}\n");
        replace_between(file, "bench controller", &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Replaces the text between `<!-- NAME -->` and `<!-- end of NAME -->`.
fn replace_between(file: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let (start, end) = (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"));
    let missing = || format!("{} has no lines '{start}' and '{end}'", file.display());
    let old = fs::read_to_string(file).with_context(missing)?;
    let (before, rest) = old.split_once(&start).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    fs::write(file, format!("{before}{start}\n{text}\n{end}{after}"))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn injector(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let bench =
        ["bench", "--profile", "fast", "--locked", "-p", "injector", "--bench", "reviews", "--"];
    process::run(process::cargo(&bench).args(arguments))?;
    Ok(ExitCode::SUCCESS)
}
