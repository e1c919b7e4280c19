//! Developer commands. `cargo xtask --help` lists them; `cargo demo` is short for `cargo xtask demo`.
#![expect(clippy::print_stdout, reason = "a command line tool talks on standard output")]

mod bench;
mod chaos;
mod ci;
mod clock;
mod demo;
mod differential;
mod environment;
mod process;
mod soak;
mod tidy;
mod tools;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Developer commands of Tidegate.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up what the tests need, then run every check that continuous integration runs
    Test(ci::TestArguments),
    /// Check the rules of the source tree: imports, sizes, names, dependencies, links
    Tidy,
    /// Build the proxy and the demo with optimizations, then run the demo (cargo demo --help lists its arguments)
    #[command(disable_help_flag = true)]
    Demo {
        /// Arguments of the demo
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Measure what things cost, beside their peers
    Bench {
        #[command(subcommand)]
        what: bench::Bench,
    },
    /// Send the wire table through Tidegate, Envoy, HAProxy and nginx, and write docs/wire.md (two minutes)
    Differential,
    /// Let endpoints, network, clock, descriptors and memory fail under load (20 minutes; --quick: 6). Needs root
    Chaos(chaos::ChaosArguments),
    /// Run one kind of long test
    Soak {
        #[command(subcommand)]
        what: soak::Soak,
    },
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Test(arguments) => ci::run(&arguments),
        Command::Tidy => tidy::run(),
        Command::Demo { arguments } => demo::run(&arguments),
        Command::Bench { what } => bench::run(&what),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Differential => differential::run(),
        Command::Soak { what } => soak::run(&what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn all_arguments_of_demo_are_passed_on() {
        let cli =
            Cli::try_parse_from(["cargo xtask", "demo", "--help", "-x", "backend", "--quick"]);
        let Command::Demo { arguments } = cli.unwrap().command else { panic!("another command") };
        assert_eq!(arguments, ["--help", "-x", "backend", "--quick"]);
    }
}
