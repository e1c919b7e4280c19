//! Processes that end with the demo, however it ends.
//!
//! | the demo ends by | its children end because |
//! |---|---|
//! | finishing, an error, Ctrl-C, SIGTERM, a panic | each [`Child`] is killed when it is dropped |
//! | SIGKILL | its own programs see their standard input end; a [`Keeper`] kills the others |

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use tokio::process::{ChildStdin, Command};

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    log: PathBuf,
    process: tokio::process::Child,
    /// Whether its end was told.
    told: bool,
    /// Held apart, since waiting for a process closes the standard input that it has.
    #[expect(dead_code, reason = "held for its drop")]
    stdin: Option<ChildStdin>,
}

impl Child {
    /// Starts a program. What it prints goes to `NAME.log` in `logs`; its standard input ends when the demo does.
    pub(crate) fn start(name: &str, command: &mut Command, logs: &Path) -> anyhow::Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let out = file.with_context(|| format!("cannot write {}", log.display()))?;
        let error = out.try_clone().context("cannot open a log twice")?;
        command.stdin(Stdio::piped()).stdout(out).stderr(error).kill_on_drop(true);
        // Its session is its own soon (see `priority`), so that Ctrl-C in the terminal reaches the demo alone, which ends its
        // children in order; it cannot become one in a process group of its own.
        let process = command.spawn();
        let program = command.as_std().get_program().display().to_string();
        let mut process = process.with_context(|| format!("cannot start {program} as {name}"))?;
        let stdin = process.stdin.take();
        Ok(Self { name: name.to_owned(), log, process, told: false, stdin })
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file with what it printed.
    pub(crate) fn log(&self) -> std::path::Display<'_> {
        self.log.display()
    }

    /// Its process id while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// An error that says why, when it has ended though it should not have.
    pub(crate) fn check_running(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.died(status)),
            Err(error) => Err(error).with_context(|| format!("cannot ask after {}", self.name)),
        }
    }

    /// The same, once only: whoever plays with it may end it.
    pub(crate) fn ended(&mut self) -> Option<anyhow::Error> {
        let error = self.check_running().err().filter(|_| !self.told)?;
        self.told = true;
        Some(error)
    }

    /// Waits until it ends by itself; an error when it fails or takes longer than `limit`.
    pub(crate) async fn finish(mut self, limit: Duration) -> anyhow::Result<()> {
        match tokio::time::timeout(limit, self.process.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.died(status)),
            Ok(Err(error)) => Err(error).with_context(|| format!("cannot wait for {}", self.name)),
            Err(_) => anyhow::bail!("{} did not end within {limit:?}", self.name),
        }
    }

    /// Kills it, as a crash would.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    fn died(&self, status: ExitStatus) -> anyhow::Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LINES_SHOWN).collect();
        let tail: String =
            lines.iter().rev().fold(String::new(), |tail, line| tail + "\n  " + line);
        anyhow::anyhow!("{} ended ({status}); the end of {}:{tail}", self.name, self.log.display())
    }
}

/// Lines of its log that the error about a dead child shows.
const LINES_SHOWN: usize = 8;

/// A shell that kills the given processes when this process is gone without having been able to do so.
#[derive(Debug)]
pub(crate) struct Keeper(
    #[cfg_attr(not(test), expect(dead_code, reason = "held for its drop"))] tokio::process::Child,
);

impl Keeper {
    /// Starts it over some processes; drop it before them.
    pub(crate) fn over(processes: impl Iterator<Item = u32>) -> anyhow::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", "cat >/dev/null; kill -9 \"$@\"", "tidegate-demo-keeper"]);
        command.args(processes.map(|id| id.to_string()));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        Ok(Self(command.process_group(0).spawn().context("cannot start sh")?))
    }
}

/// Ends when standard input does; never when `wanted` is false.
pub(crate) async fn stdin_ended(wanted: bool) {
    let (ended, wait) = tokio::sync::oneshot::channel::<()>();
    if !wanted {
        std::future::pending::<()>().await;
    }
    // A thread, since standard input cannot be read asynchronously; it ends with the process.
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 64];
        while std::io::stdin().lock().read(&mut buffer).is_ok_and(|read| read > 0) {}
        drop(ended);
    });
    drop(wait.await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Deadline;

    fn is_alive(id: u32) -> bool {
        let status = std::process::Command::new("kill")
            .args(["-0", &id.to_string()])
            .stderr(Stdio::null())
            .status();
        status.unwrap().success()
    }

    async fn until_dead(id: u32) {
        let deadline = Deadline::within(Duration::from_secs(20));
        while is_alive(id) {
            assert!(!deadline.is_over(), "process {id} still lives");
            tokio::task::yield_now().await;
        }
    }

    fn sleeper(name: &str) -> Child {
        let name = format!("tidegate-demo-{}-{name}", std::process::id());
        Child::start(&name, Command::new("sleep").arg("600"), &std::env::temp_dir()).unwrap()
    }

    #[tokio::test]
    async fn a_child_ends_when_it_is_dropped() {
        let child = sleeper("dropped");
        let id = child.id().unwrap();
        assert!(is_alive(id));
        let log = child.log.clone();
        drop(child);
        until_dead(id).await;
        std::fs::remove_file(log).unwrap();
    }

    #[tokio::test]
    async fn a_keeper_ends_what_it_keeps_when_its_input_ends() {
        let mut child = sleeper("kept");
        let mut keeper = Keeper::over(child.id().into_iter()).unwrap();
        drop(keeper.0.stdin.take());
        child.process.wait().await.unwrap();
        std::fs::remove_file(&child.log).unwrap();
    }

    #[tokio::test]
    async fn a_child_that_died_says_what_it_printed() {
        let name = format!("tidegate-demo-{}-dead", std::process::id());
        let mut command = Command::new("sh");
        let mut child = Child::start(
            &name,
            command.args(["-c", "echo no such zone; exit 3"]),
            &std::env::temp_dir(),
        )
        .unwrap();
        child.process.wait().await.unwrap();
        let error = child.check_running().unwrap_err().to_string();
        assert!(child.ended().is_some() && child.ended().is_none(), "told once");
        std::fs::remove_file(&child.log).unwrap();
        assert!(error.contains("no such zone") && error.contains('3'), "{error}");
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error =
            Child::start("proxy", &mut Command::new("/nowhere/proxy"), &std::env::temp_dir())
                .unwrap_err();
        std::fs::remove_file(std::env::temp_dir().join("proxy.log")).unwrap();
        assert!(format!("{error:#}").contains("/nowhere/proxy"), "{error:#}");
    }
}
