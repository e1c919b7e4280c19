//! What is counted, not timed: user instructions (callgrind) and system calls (strace) of one HTTP/1.1 request. Both are the
//! difference between a long and a short run, so that start and end do not count.

use crate::arguments::ProxyOptions;
use crate::load::h2load;
use crate::peer::{Peer, Setup, Speaks};
use crate::process::free_address;
use crate::report;
use anyhow::Context as _;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

const SHORT: u32 = 4_000;
const LONG: u32 = 16_000;

/// Counts of one peer, each of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) peer: Peer,
    /// User instructions, with 64 connections.
    pub(crate) instructions: f64,
    /// System calls with 1 and with 64 connections.
    pub(crate) calls: [f64; 2],
}

/// What counts.
#[derive(Clone, Copy, Debug)]
enum Tool {
    Callgrind,
    Strace,
}

/// Counts for the proxy and for the bare stack that it is built on.
pub(crate) fn count(
    options: &ProxyOptions,
    peers: &[Peer],
    endpoints: &[SocketAddr],
    directory: &Path,
) -> anyhow::Result<Vec<Counts>> {
    let counted = peers.iter().copied().filter(|peer| matches!(peer, Peer::Hyper | Peer::Tidegate));
    counted
        .map(|peer| {
            report::progress(&format!("counting: {}", peer.name()));
            let subject = Subject { options, peer, endpoints, directory };
            Ok(Counts {
                peer,
                instructions: subject.each(Tool::Callgrind, 64)?,
                calls: [subject.each(Tool::Strace, 1)?, subject.each(Tool::Strace, 64)?],
            })
        })
        .collect()
}

/// Whose requests are counted.
struct Subject<'a> {
    options: &'a ProxyOptions,
    peer: Peer,
    endpoints: &'a [SocketAddr],
    directory: &'a Path,
}

impl Subject<'_> {
    /// What one request costs.
    fn each(&self, tool: Tool, connections: u32) -> anyhow::Result<f64> {
        let short = self.total(tool, connections, SHORT)?;
        Ok((self.total(tool, connections, LONG)? - short) / f64::from(LONG - SHORT))
    }

    /// What a run of so many requests costs, start and end included.
    fn total(&self, tool: Tool, connections: u32, requests: u32) -> anyhow::Result<f64> {
        let name = self.peer.name();
        let directory = self.directory.join(format!("{name}-{tool:?}"));
        fs::create_dir_all(&directory)?;
        let out = directory.join("counted");
        let setup = Setup {
            listen: free_address()?,
            endpoints: self.endpoints,
            speaks: Speaks::Http1,
            directory: &directory,
            services: 1,
        };
        let running = self.peer.start_as(self.options, &setup, &tool.command(&out))?;
        h2load::exactly(running.address, connections, requests)?;
        running.process.context("not a program")?.end()?;
        let text = fs::read_to_string(&out).with_context(|| format!("no {}", out.display()))?;
        tool.parse(&text).with_context(|| format!("{tool:?} of {name} counted nothing"))
    }
}

impl Tool {
    /// What stands before the counted program, for a total in the file `out`.
    fn command(self, out: &Path) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Callgrind => {
                &["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-file="]
            }
            Self::Strace => &["strace", "-f", "-c", "-o", ""],
        };
        let mut command: Vec<OsString> = words.iter().map(OsString::from).collect();
        if let Some(last) = command.last_mut() {
            last.push(out);
        }
        command
    }

    /// The total that the tool wrote.
    fn parse(self, text: &str) -> Option<f64> {
        match self {
            // "==12== Collected : 123456"
            Self::Callgrind => {
                text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
            }
            // "100.00    0.123456           2     60123       141 total": the fourth column.
            Self::Strace => {
                let line = text.lines().find(|line| line.trim_end().ends_with(" total"))?;
                line.split_whitespace().nth(3)?.parse().ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_found() {
        let callgrind = "==7== \n==7== Events    : Ir\n==7== Collected : 987654321\n==7==\n";
        assert_eq!(Tool::Callgrind.parse(callgrind), Some(987_654_321.0));
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n 60.00    0.1           2     40000           sendto\n\
                      ------ ----------- ----------- --------- --------- ------\n100.00    0.2           2     60123       141 total\n";
        assert_eq!(Tool::Strace.parse(strace), Some(60_123.0));
        assert_eq!(Tool::Strace.parse("nothing"), None);
    }
}
