//! The programs that read and set the kernel's rules.

use ipnet::IpNet;
use std::fmt;
use std::io::{self, Write as _};
use std::process::{Command, Output, Stdio};

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const fn is_of(self, net: IpNet) -> bool {
        matches!((self, net), (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_)))
    }
}

/// iptables for one family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    family: Family,
    /// `-nft`, `-legacy` or nothing, as in the programs' names.
    kind: &'static str,
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        write!(f, "{family} ({})", self.program(""))
    }
}

/// Why the rules could not be read or set.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolError {
    /// The program did not run.
    #[error("cannot run {program}: {error}")]
    Run {
        /// Its name.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// The program refused.
    #[error("{program}: {said}")]
    Refused {
        /// Its name.
        program: String,
        /// What it said.
        said: String,
    },
}

impl Tool {
    pub(super) const fn new(family: Family, kind: &'static str) -> Self {
        Self { family, kind }
    }

    pub(super) const fn of(self, family: Family) -> Self {
        Self { family, kind: self.kind }
    }

    pub(super) const fn family(self) -> Family {
        self.family
    }

    /// The rules of the nat table in force.
    pub(super) fn saved(self) -> Result<String, ToolError> {
        let output = self.run("-save", &["-t", "nat"], "")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether a transaction would be taken.
    pub(super) fn try_out(self, change: &str) -> Result<(), ToolError> {
        self.run("-restore", &["--noflush", "--wait", "5", "--test"], change).map(drop)
    }

    /// Carries out a transaction, as a whole or not at all.
    pub(super) fn restore(self, change: &str) -> Result<(), ToolError> {
        self.run("-restore", &["--noflush", "--wait", "5"], change).map(drop)
    }

    fn program(self, what: &str) -> String {
        let family = match self.family {
            Family::V4 => "iptables",
            Family::V6 => "ip6tables",
        };
        format!("{family}{}{what}", self.kind)
    }

    fn run(self, what: &str, arguments: &[&str], input: &str) -> Result<Output, ToolError> {
        let program = self.program(what);
        let failed = |error| ToolError::Run { program: program.clone(), error };
        let output = fed(&program, arguments, input).map_err(failed)?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(", ");
        Err(ToolError::Refused {
            program,
            said: if said.is_empty() { output.status.to_string() } else { said },
        })
    }
}

fn fed(program: &str, arguments: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // It said no before it read everything; its own words tell more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
    }
    child.wait_with_output()
}
