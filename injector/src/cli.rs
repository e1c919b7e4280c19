//! The command line. Every flag is an environment variable too; nothing else of the environment is read.

use crate::offline;
use crate::serve::{self, ServeArguments};
use crate::settings::Settings;
use anyhow::Context as _;
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Adds the Tidegate proxy to pods.
#[derive(Debug, Parser)]
#[command(name = "tidegate-injector", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
enum Command {
    /// Add the proxy to the workloads of a manifest, and print the manifest; what was done goes to standard error
    Inject(Box<InjectArguments>),
    /// Answer the API server: add the proxy to the pods of namespaces that ask for it
    Serve(Box<ServeArguments>),
}

/// Adding the proxy to a manifest.
#[derive(Debug, Args)]
struct InjectArguments {
    /// Manifest: YAML or JSON, any number of documents and lists; - is standard input
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    settings: Settings,
}

/// The whole program. 0: done; 1: failed; 2: a wrong command line.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no failures and go to standard output; clap knows.
        Err(asked) => {
            let status = u8::try_from(asked.exit_code()).unwrap_or(2);
            return if asked.print().is_ok() { ExitCode::from(status) } else { ExitCode::FAILURE };
        }
    };
    let done = match cli.command {
        Command::Inject(arguments) => inject(&arguments),
        Command::Serve(arguments) => serve::run(*arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // With standard error gone there is nobody left to tell.
            drop(writeln!(io::stderr(), "tidegate-injector: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The command line as data: documentation is made from it.
pub fn command() -> clap::Command {
    Cli::command()
}

fn inject(arguments: &InjectArguments) -> anyhow::Result<()> {
    let shown = arguments.file.display();
    let manifest = read(&arguments.file).with_context(|| format!("cannot read {shown}"))?;
    let injected = offline::inject_manifest(&manifest, &arguments.settings)
        .with_context(|| shown.to_string())?;
    for note in injected.notes {
        writeln!(io::stderr(), "{note}")?;
    }
    io::stdout().write_all(injected.manifest.as_bytes())?;
    Ok(())
}

fn read(file: &Path) -> io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    fs::read_to_string(file)
}
