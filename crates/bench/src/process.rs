//! Child processes that end with their owner, and what `/proc` says about them.

use anyhow::{Context as _, bail};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running program; killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time of all its threads, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Voluntary and involuntary context switches of all its threads.
    pub(crate) switches: u64,
}

impl Process {
    /// Starts `command`, its output going to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let out =
            fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let err = out.try_clone()?;
        let name = command.get_program().to_owned();
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .with_context(|| format!("cannot start {}: is it installed?", name.display()))?;
        Ok(Self { child })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program accepts connections on `address`.
    pub(crate) fn wait_listening(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        for _ in 0..400 {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status} before it listened on {address}");
            }
            if TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok() {
                return Ok(());
            }
            pause(Duration::from_millis(25));
        }
        bail!("it does not listen on {address} within 10s")
    }

    /// What the process and its children have used so far.
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for id in family(self.id()) {
            for task in fs::read_dir(format!("/proc/{id}/task"))? {
                let task = task?.path();
                // A thread may end between the listing and the reading: it then counts no more, as in its owner's sum.
                let schedstat = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
                sum.cpu_ns += schedstat
                    .split_whitespace()
                    .next()
                    .and_then(|word| word.parse().ok())
                    .unwrap_or(0);
                let status = fs::read_to_string(task.join("status")).unwrap_or_default();
                sum.switches += status
                    .lines()
                    .filter(|line| line.contains("ctxt_switches"))
                    .filter_map(last_number)
                    .sum::<u64>();
            }
        }
        Ok(sum)
    }

    /// Asks the program to end, and waits until it has; with a program in control of another, the controlled one is asked.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        let id = family(self.id()).last().copied().unwrap_or_else(|| self.id());
        let asked = Command::new("kill").arg("-TERM").arg(id.to_string()).status()?;
        anyhow::ensure!(asked.success(), "cannot end process {id}");
        self.child.wait()?;
        Ok(())
    }

    /// Resident memory of the process and its children, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let resident = |id: u32| {
            let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            status
                .lines()
                .find(|line| line.starts_with("VmRSS:"))
                .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
                .unwrap_or(0)
        };
        family(self.id()).into_iter().map(resident).sum::<u64>()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        for id in family(self.id()).into_iter().skip(1) {
            // A child that is already gone needs no killing.
            drop(Command::new("kill").arg("-9").arg(id.to_string()).stderr(Stdio::null()).status());
        }
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The process and its children, the process first.
fn family(id: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    std::iter::once(id)
        .chain(children.split_whitespace().filter_map(|word| word.parse().ok()))
        .collect()
}

fn last_number(line: &str) -> Option<u64> {
    line.split_whitespace().last()?.parse().ok()
}

/// A port of 127.0.0.1 that nobody listens on.
pub(crate) fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The only place where the harness waits without a condition.
#[expect(clippy::disallowed_methods, reason = "a benchmark's own thread has nothing else to do")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
