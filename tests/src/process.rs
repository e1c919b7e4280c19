//! Programs that end with the test.

use crate::deadline::until;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A running program, killed when this is dropped. What it prints goes to a file.
#[derive(Debug)]
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
}

impl Process {
    /// Starts it; `name` is for messages and names its log in `folder`.
    pub fn start(name: &str, command: &Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let errors = output.try_clone().unwrap();
        let mut command = ends_with_us(command);
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child =
            child.unwrap_or_else(|error| panic!("cannot start {name} ({command:?}): {error}"));
        Self { child, name: name.to_owned(), log }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The first match of `find` in the lines that it prints; fails when it ends before or takes too long.
    pub fn until_printed<T>(&mut self, limit: Duration, find: impl Fn(&str) -> Option<T>) -> T {
        let name = self.name.clone();
        until(&format!("{name} says that it is ready"), limit, || {
            let log = self.log();
            match log.lines().find_map(&find) {
                Some(found) => Ok(found),
                None => self
                    .check_running()
                    .map_or(Err(log), |status| panic!("{name} ended ({status}): {}", self.log())),
            }
        })
    }

    /// Its exit status if it has ended.
    pub fn check_running(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it ends by itself.
    pub fn exit_status(&mut self, limit: Duration) -> ExitStatus {
        let name = self.name.clone();
        until(&format!("{name} ends"), limit, || self.check_running().ok_or_else(|| self.log()))
    }

    /// Sends a signal by name: `TERM`, `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.id().to_string()]).status();
        assert!(status.unwrap().success(), "kill -s {name} {}", self.name);
    }

    /// Resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.status("VmRSS:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Processor time that it has used, all threads together.
    pub fn cpu(&self) -> Duration {
        /// Linux counts in hundredths of a second for programs, whatever the kernel's own clock.
        const TICKS_PER_SECOND: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // After the name, which may hold anything, come the state and ten fields, then time in user and kernel mode.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND)
    }

    /// Most memory in KiB that it ever had resident.
    pub fn resident_kib_max(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Kills it as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The same program, which the kernel ends with the thread that starts it: also when the test is killed, nothing stays behind.
pub fn ends_with_us(command: &Command) -> Command {
    let mut ending = Command::new("setpriv");
    ending.args(["--pdeathsig", "KILL", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => ending.env(name, value),
            None => ending.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        ending.current_dir(folder);
    }
    ending
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("--- {} printed:\n{}", self.name, self.log());
        }
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
