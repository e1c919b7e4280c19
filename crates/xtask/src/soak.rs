//! Long runs of tests that are short in the ordinary run.

use crate::clock::Stopwatch;
use crate::process;
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Debug, Subcommand)]
pub(crate) enum Soak {
    /// The seeded histories of the balancing core against its slow, obvious model
    Balance {
        /// How many histories
        #[arg(long, default_value_t = 10_000)]
        histories: u32,
        /// Replay the history of this seed alone
        #[arg(long)]
        seed: Option<u64>,
    },
    /// The quick demo with a real Prometheus beside it, which must say what the report says (two minutes on a calm machine)
    Demo,
    /// The whole demo in network namespaces, with redirected connections, beside a real Prometheus with the chart's recording
    /// rules (three minutes on a calm machine). Needs root
    Namespaces,
}

/// Runs it; the exit status is that of the tests.
pub(crate) fn run(what: &Soak) -> anyhow::Result<ExitCode> {
    match what {
        Soak::Balance { histories, seed } => balance(*histories, *seed),
        Soak::Demo => demo("prometheus_agrees_with_the_report"),
        Soak::Namespaces => demo("recording_rules_agree_with_the_report_of_redirected_calls"),
    }
}

fn balance(histories: u32, seed: Option<u64>) -> anyhow::Result<ExitCode> {
    let watch = Stopwatch::start();
    // Not a release build: the core is optimized here as well, and checks its invariants after each call.
    let mut test =
        process::cargo(&["test", "--locked", "-p", "balance", "--test", "histories", "--lib"]);
    test.env("HISTORIES", histories.to_string());
    if let Some(seed) = seed {
        test.env("SEED", seed.to_string());
    }
    process::run(&mut test)?;
    println!("{histories} histories in {:.1?}, no invariant broken", watch.elapsed());
    Ok(ExitCode::SUCCESS)
}

fn demo(name: &str) -> anyhow::Result<ExitCode> {
    let test = [
        "test",
        "--profile",
        "fast",
        "--locked",
        "-p",
        "tests",
        "--test",
        "demo",
        "--",
        "--ignored",
        "--nocapture",
        name,
    ];
    process::run(&mut process::cargo(&test))?;
    Ok(ExitCode::SUCCESS)
}
