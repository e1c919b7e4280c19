//! `cargo xtask test`: everything that must hold before a change lands, in one command from a clean clone.

mod tally;

use crate::clock::Stopwatch;
use crate::workspace::Workspace;
use crate::{environment, process, tools};
use anyhow::Context as _;
use clap::Args;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use tally::Tally;

#[derive(Debug, Args)]
pub(crate) struct TestArguments {
    /// Install nothing: what a missing tool would test is skipped and listed (not allowed when CI is set)
    #[arg(long)]
    no_install: bool,
}

/// One run, step by step. A step that fails does not keep the later ones from telling what they know.
struct Run {
    workspace: Workspace,
    failed: Vec<&'static str>,
    missing: Vec<String>,
    tally: Tally,
}

/// Where tests write which of them were skipped and why; without this variable they fail instead.
const SKIPS: &str = "TIDEGATE_SKIPS";

/// Runs all steps; the last line is `N passed, N failed, N skipped`.
pub(crate) fn run(arguments: &TestArguments) -> anyhow::Result<ExitCode> {
    let watch = Stopwatch::start();
    let ci = environment::is_ci();
    process::run(&mut process::cargo(&["fetch", "--locked"]))
        .context("cannot fetch the dependencies")?;
    let workspace = Workspace::load()?;
    let mut run =
        Run { workspace, failed: Vec::new(), missing: Vec::new(), tally: Tally::default() };
    run.step("tools", |run| run.tools(ci, !arguments.no_install));
    run.cargo("format", &["fmt", "--all", "--check"], &[]);
    run.cargo("tidy", &["run", "--quiet", "--locked", "-p", "xtask", "--", "tidy"], &[]);
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    run.cargo("clippy", &clippy, &[]);
    run.cargo("build", &["build", "--workspace", "--bins", "--tests", "--locked"], &[]);
    run.step("test", |run| run.test(ci));
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    run.cargo("doc", &doc, &[("RUSTDOCFLAGS", "-D warnings")]);
    Ok(run.summary(watch))
}

impl Run {
    /// Runs a step and says how long it took.
    fn step(&mut self, name: &'static str, body: impl FnOnce(&mut Self) -> anyhow::Result<()>) {
        println!("\n== {name}");
        let watch = Stopwatch::start();
        let result = body(self);
        let seconds = watch.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("== {name}: ok in {seconds:.1} s"),
            Err(error) => {
                println!("== {name}: FAILED in {seconds:.1} s: {error:#}");
                self.failed.push(name);
            }
        }
    }

    fn cargo(&mut self, name: &'static str, arguments: &[&str], variables: &[(&str, &str)]) {
        self.step(name, |_| {
            process::run(process::cargo(arguments).envs(variables.iter().copied()))
        });
    }

    /// In continuous integration a missing tool is a failure, so that no test is left out unseen.
    fn tools(&mut self, ci: bool, may_install: bool) -> anyhow::Result<()> {
        self.missing = tools::for_tests(&self.workspace, may_install);
        for reason in &self.missing {
            println!("missing: {reason}");
        }
        anyhow::ensure!(!ci || self.missing.is_empty(), "{} tools are missing", self.missing.len());
        Ok(())
    }

    fn test(&mut self, ci: bool) -> anyhow::Result<()> {
        let skips = self.workspace.target.join("skipped-tests.txt");
        fs::write(&skips, "").with_context(|| format!("cannot write {}", skips.display()))?;
        let test = ["test", "--workspace", "--locked", "--no-fail-fast"];
        let mut command = process::cargo(&test);
        command.env("TIDEGATE_TOOLS", tools::folder(&self.workspace));
        command.env("TIDEGATE_BIN", self.workspace.target.join("debug"));
        if !ci {
            command.env(SKIPS, &skips);
        }
        let result = self.tally.follow(&mut command);
        self.tally.add_skips(&read_lines(&skips)?);
        result
    }

    fn summary(&self, watch: Stopwatch) -> ExitCode {
        println!("\n== summary, {:.0} s in all", watch.elapsed().as_secs_f64());
        for reason in &self.missing {
            println!("could not be set up: {reason}");
        }
        for skip in &self.tally.skips {
            println!("skipped: {skip}");
        }
        if !self.failed.is_empty() {
            println!("failed steps: {}", self.failed.join(", "));
        }
        println!("{}", self.tally);
        if self.failed.is_empty() && self.tally.is_good() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl Tally {
    /// Runs the tests, shows what they print and counts.
    fn follow(&mut self, command: &mut Command) -> anyhow::Result<()> {
        let name = process::describe(command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {name}"))?;
        let output = child.stdout.take().context("the tests have no output")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("the tests print no text")?;
            println!("{line}");
            self.add(&line);
        }
        let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
        anyhow::ensure!(status.success(), "{name}: {status}");
        Ok(())
    }
}

fn read_lines(path: &Path) -> anyhow::Result<Vec<String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}
