//! The machine for the demo's processes, while others work on it too.
//!
//! A load that is to be answered within milliseconds stands still when compilers have all processors for a quarter of a
//! second, and the mesh is blamed for it. Linux shares the processors between sessions before it looks at processes
//! (autogroups, sched(7)): so each process of the demo gets a session of its own, and that session goes before others where
//! this is allowed.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

/// How nice the demo's sessions and processes are; 0 is usual, -20 the least.
const NICE: i32 = -10;

/// Where a session says how nice it is.
const AUTOGROUP: &str = "/proc/self/autogroup";

/// Arguments of `demo own-session`, with which the demo starts its processes.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnSession {
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program, in a session of its own.
pub(crate) fn become_program(arguments: OwnSession) -> anyhow::Result<Infallible> {
    // It fails for the leader of a process group only, which keeps its session then.
    if rustix::process::setsid().is_ok() {
        prefer_session();
    }
    let mut command = arguments.command.into_iter();
    let program = command.next().context("no program is named")?;
    let error = Command::new(&program).args(command).exec();
    Err(error).with_context(|| format!("cannot start {}", Path::new(&program).display()))
}

/// Goes before other sessions. Without the right to it, or on a kernel without autogroups, all stay alike.
fn prefer_session() {
    let preferred = std::fs::write(AUTOGROUP, NICE.to_string());
    drop(preferred);
}

/// Lets this process go before others, and with it those that it starts; whether that is allowed.
pub(crate) fn prefer_process() -> bool {
    rustix::process::setpriority_process(None, NICE).is_ok()
}

/// The command that starts a program in a session of its own. `own` is this program.
pub(crate) fn in_own_session(own: &Path, program: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(own);
    command.args(["own-session", "--"]).arg(program);
    command
}

/// What came of it, for the user.
pub(crate) fn describe(preferred: bool) -> &'static str {
    if preferred {
        "Its processes go before others on this machine (sessions of their own, nice -10)."
    } else {
        "Its processes have sessions of their own, but may not go before others (that takes root or CAP_SYS_NICE): other work on this \
         machine may show in the figures."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_keeps_its_arguments() {
        use clap::Parser as _;
        let command = in_own_session(Path::new("/own/demo"), Path::new("/bin/proxy"));
        let mut line: Vec<OsString> = vec![command.as_std().get_program().into()];
        line.extend(command.as_std().get_args().map(OsString::from));
        line.extend(["--admin", "127.0.0.1:1"].map(OsString::from));
        let parsed = crate::arguments::Cli::try_parse_from(line).unwrap().command;
        let Some(crate::arguments::Command::OwnSession(parsed)) = parsed else {
            panic!("another command")
        };
        assert_eq!(parsed.command, ["/bin/proxy", "--admin", "127.0.0.1:1"].map(OsString::from));
    }
}
