//! The demo's scripted server as a process: HTTP/1.1 and HTTP/2, switched over HTTP.

use crate::deadline::SOON;
use crate::folder::Folder;
use crate::process::Process;
use crate::{http, programs};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;

/// A running `demo backend`.
#[derive(Debug)]
pub struct Backend {
    /// The program.
    pub process: Process,
    /// Where it listens.
    pub address: SocketAddr,
    _folder: Folder,
}

impl Backend {
    /// Starts it with the given latency of an answer.
    pub fn start(zone: &str, latency: &str) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), zone, latency)
    }

    /// The same at another address of this machine.
    pub fn start_at(ip: IpAddr, zone: &str, latency: &str) -> Self {
        let folder = Folder::new();
        let mut command = Command::new(programs::demo());
        let listen = SocketAddr::new(ip, 0).to_string();
        command.args(["backend", "--listen", &listen, "--zone", zone, "--latency", latency]);
        let mut process = Process::start("backend", &command, folder.path());
        let address = process.until_printed(SOON, |line| {
            line.split(|c: char| c.is_whitespace() || c == '/')
                .find_map(|word| word.parse::<SocketAddr>().ok())
        });
        Self { process, address, _folder: folder }
    }

    /// Switches its behaviour, for example `fail-percent=100`.
    pub fn switch(&self, query: &str) {
        let request = format!(
            "POST /_control?{query} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let answer = http::send(self.address, request.as_bytes()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
