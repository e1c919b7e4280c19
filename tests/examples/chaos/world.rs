//! A proxy in zone a, with three endpoints there and three in zone b, each a process with an address of its own.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use tests::deadline::{SOON, until};
use tests::process::ends_with_us;
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{http, ports, programs};

/// Endpoints of the own zone come first.
pub(crate) const LOCAL: [usize; 3] = [0, 1, 2];
pub(crate) const ALL: usize = 6;

pub(crate) struct World {
    pub(crate) proxy: Proxy,
    pub(crate) target: SocketAddr,
    pub(crate) endpoints: Vec<Endpoint>,
}

pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) process: Child,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // It may have been killed already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl World {
    /// Starts it; `wrapper` is put before the proxy's own command.
    pub(crate) fn start(wrapper: &[&str], arguments: &[&str]) -> Self {
        let endpoints: Vec<_> = (0..ALL).map(Endpoint::start).collect();
        let target = ports::free();
        let known = endpoints.iter().enumerate();
        let topology = topology(target, known.map(|(number, endpoint)| (number, endpoint.address)));
        let command = match wrapper.split_first() {
            None => Command::new(programs::proxy()),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(programs::proxy());
                command
            }
        };
        let proxy = Proxy::start_as(command, &topology, arguments);
        Self { proxy, target, endpoints }
    }

    /// Tells the proxy which endpoints there are, each with its number.
    pub(crate) fn tell(&self, known: impl Iterator<Item = (usize, SocketAddr)>) {
        self.proxy.write_topology(&topology(self.target, known).text());
    }

    pub(crate) fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.proxy.process.id());
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    }
}

fn topology(target: SocketAddr, known: impl Iterator<Item = (usize, SocketAddr)>) -> Topology {
    let empty =
        Topology::zone("a").listener(target, "chaos").service("chaos", "protocol = \"http1\"");
    known.fold(empty, |topology, (number, address)| {
        topology.endpoint(address, if LOCAL.contains(&number) { "a" } else { "b" })
    })
}

impl Endpoint {
    pub(crate) fn start(number: usize) -> Self {
        let port = ports::free().port();
        let address: SocketAddr = format!("127.0.0.{}:{port}", 11 + number).parse().unwrap();
        let endpoint = Self { address, process: spawn(address) };
        endpoint.wait();
        endpoint
    }

    pub(crate) fn restart(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        self.process = spawn(self.address);
        self.wait();
    }

    fn wait(&self) {
        let address = self.address;
        until("the endpoint listens", SOON, || TcpStream::connect(address).map(|_| ()));
    }

    pub(crate) fn mode(&self, mode: &str) {
        assert_eq!(
            http::connect(self.address)
                .map(|mut stream| {
                    use std::io::{Read as _, Write as _};
                    stream
                        .write_all(format!("GET /_mode/{mode} HTTP/1.1\r\n\r\n").as_bytes())
                        .unwrap();
                    stream.read(&mut [0; 100]).unwrap() > 0
                })
                .ok(),
            Some(true)
        );
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }
}

fn spawn(address: SocketAddr) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["endpoint", &address.to_string()]);
    ends_with_us(&command).stdin(Stdio::null()).spawn().unwrap()
}
