//! The proxies under test, each with one worker thread and the same three upstream endpoints.

mod envoy;
mod haproxy;
mod nginx;
mod tidegate;

use crate::arguments::ProxyOptions;
use crate::process::{Process, free_address};
use anyhow::Context as _;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A proxy of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// No proxy: the load goes to the origin.
    Direct,
    /// A relay that copies bytes.
    Relay,
    /// A bare hyper proxy.
    Hyper,
    /// The proxy under test.
    Tidegate,
    /// Envoy.
    Envoy,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
}

/// What a proxy speaks on both of its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// HTTP/1.1 on both sides.
    Http1,
    /// HTTP/2 on both sides, except where a peer cannot: nginx speaks HTTP/1.1 to the endpoints.
    Http2,
    /// gRPC: HTTP/2 on both sides, nginx included.
    Grpc,
    /// Bytes.
    Tcp,
}

/// What a peer is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setup<'a> {
    pub(crate) listen: SocketAddr,
    pub(crate) endpoints: &'a [SocketAddr],
    pub(crate) speaks: Speaks,
    pub(crate) directory: &'a Path,
    /// More than one: services `s0`, `s1` and so on with the same endpoints, told apart by `Host`.
    pub(crate) services: u32,
}

/// A running peer.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) peer: Peer,
    pub(crate) address: SocketAddr,
    pub(crate) process: Option<Process>,
    /// The second proxy of two in a row.
    pub(crate) behind: Option<Process>,
}

impl Peer {
    pub(crate) const ALL: [Self; 7] = [
        Self::Direct,
        Self::Relay,
        Self::Hyper,
        Self::Tidegate,
        Self::Envoy,
        Self::Haproxy,
        Self::Nginx,
    ];

    /// The name in tables and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
            Self::Hyper => "hyper",
            Self::Tidegate => "tidegate",
            Self::Envoy => "envoy",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// The version it prints of itself.
    pub(crate) fn version(self, options: &ProxyOptions) -> String {
        let (program, flag) = match self {
            Self::Direct | Self::Relay | Self::Hyper => {
                return format!("this build, {}", env!("CARGO_PKG_VERSION"));
            }
            Self::Tidegate => (options.tidegate.as_path(), "--version"),
            Self::Envoy => (options.envoy.as_path(), "--version"),
            Self::Haproxy => (Path::new("haproxy"), "-v"),
            Self::Nginx => (Path::new("nginx"), "-v"),
        };
        let Ok(output) = Command::new(program).arg(flag).output() else {
            return "not found".to_owned();
        };
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
    }

    /// Starts it and waits until it listens.
    pub(crate) fn start(
        self,
        options: &ProxyOptions,
        endpoints: &[SocketAddr],
        speaks: Speaks,
        directory: &Path,
    ) -> anyhow::Result<Running> {
        let directory = directory.join(format!("{}-{speaks:?}", self.name()));
        let listen = free_address()?;
        let setup = Setup { listen, endpoints, speaks, directory: &directory, services: 1 };
        self.start_as(options, &setup, &[])
    }

    /// Starts it in a given setup, under the control of another program if one is named.
    pub(crate) fn start_as(
        self,
        options: &ProxyOptions,
        setup: &Setup<'_>,
        under: &[OsString],
    ) -> anyhow::Result<Running> {
        let Setup { listen, directory, .. } = *setup;
        fs::create_dir_all(directory)?;
        let command = match self {
            Self::Direct => {
                let address = *setup.endpoints.first().context("no endpoint")?;
                return Ok(Running { peer: self, address, process: None, behind: None });
            }
            Self::Relay => forwarder("relay", setup)?,
            Self::Hyper => forwarder("hyper", setup)?,
            Self::Tidegate => tidegate::command(&options.tidegate, setup)?,
            Self::Envoy => envoy::command(&options.envoy, setup)?,
            Self::Haproxy => haproxy::command(setup)?,
            Self::Nginx => nginx::command(setup)?,
        };
        let log = directory.join("log");
        let mut process = Process::start(controlled(command, under), &log)?;
        let listens = process.wait_listening(listen);
        listens
            .with_context(|| format!("{} does not start, see {}", self.name(), log.display()))?;
        Ok(Running { peer: self, address: listen, process: Some(process), behind: None })
    }
}

/// The same command with another program before it.
fn controlled(command: Command, under: &[OsString]) -> Command {
    let [program, arguments @ ..] = under else { return command };
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    outer
}

/// One of this program's own reference proxies.
fn forwarder(kind: &str, setup: &Setup<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(kind).arg("--listen").arg(setup.listen.to_string());
    for endpoint in setup.endpoints {
        command.arg("--upstream").arg(endpoint.to_string());
    }
    if kind == "hyper" && setup.speaks != Speaks::Http1 {
        command.arg("--http2");
    }
    Ok(command)
}

/// Writes a configuration file and returns its path.
fn write(setup: &Setup<'_>, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = setup.directory.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
