//! Running other programs.

use crate::environment;
use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A command of the cargo that runs us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(environment::cargo());
    command.args(arguments);
    for name in environment::told_by_cargo() {
        command.env_remove(name);
    }
    command
}

/// Runs a program to its end with our own output; an error when it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = describe(command);
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot start {name}"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// What a program prints; an error with its messages when it fails.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = describe(command);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}\n{}", output.status, errors.trim_end());
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no text"))
}

/// The first program of this name in the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    environment::search_path().iter().map(|folder| folder.join(program)).find(|path| is_file(path))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}

/// The command line for messages.
pub(crate) fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
