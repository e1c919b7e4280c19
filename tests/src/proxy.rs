//! A running data plane.

use crate::deadline::{SOON, until};
use crate::folder::Folder;
use crate::metrics::Scrape;
use crate::process::Process;
use crate::topology::Topology;
use crate::{http, ports, programs};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Command;

/// A `tidegate-proxy` with its topology file.
#[derive(Debug)]
pub struct Proxy {
    /// The program.
    pub process: Process,
    /// Where its admin server listens.
    pub admin: SocketAddr,
    folder: Folder,
}

impl Proxy {
    /// Starts it and waits until it is ready.
    pub fn start(topology: &Topology) -> Self {
        Self::start_with(topology, &[])
    }

    /// The same with further arguments.
    pub fn start_with(topology: &Topology, arguments: &[&str]) -> Self {
        Self::start_as(Command::new(programs::proxy()), topology, arguments)
    }

    /// The same with at most that many open files.
    pub fn start_with_files(topology: &Topology, arguments: &[&str], files_max: u32) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -n {files_max}; exec \"$@\"")).arg("sh");
        command.arg(programs::proxy());
        Self::start_as(command, topology, arguments)
    }

    /// Starts one that follows controllers, and waits until it is ready. The application's calls arrive at `outbound`.
    pub fn follow(controllers: &[SocketAddr], outbound: SocketAddr, arguments: &[&str]) -> Self {
        let urls: Vec<String> =
            controllers.iter().map(|controller| format!("http://{controller}")).collect();
        Self::follow_urls(&urls.join(","), outbound, arguments)
    }

    /// The same for controllers that are reached otherwise.
    pub fn follow_urls(urls: &str, outbound: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = Command::new(programs::proxy());
        command.args(["--controller", urls, "--outbound", &outbound.to_string()]);
        command.args(["--inbound", &ports::free().to_string()]);
        Self::begin(command, Folder::new(), arguments)
    }

    /// Starts one by a command to which the arguments are added.
    pub fn start_as(mut command: Command, topology: &Topology, arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let file = folder.write("topology.toml", &topology.text());
        command.arg("--topology").arg(file);
        Self::begin(command, folder, arguments)
    }

    fn begin(mut command: Command, folder: Folder, arguments: &[&str]) -> Self {
        let admin = ports::free();
        command.args(["--admin", &admin.to_string()]).args(arguments);
        let mut process = Process::start("proxy", &command, folder.path());
        until("the proxy is ready", SOON, || {
            if let Some(status) = process.check_running() {
                panic!("the proxy ended ({status}): {}", process.log());
            }
            match http::get(admin, "/ready") {
                Ok((200, _)) => Ok(()),
                other => Err(other),
            }
        });
        Self { process, admin, folder }
    }

    /// Writes another topology file; the proxy notices by itself.
    pub fn write_topology(&self, text: &str) {
        self.folder.write("topology.toml", text);
    }

    /// What `/metrics` says now.
    pub fn metrics(&self) -> Scrape {
        Scrape::parse(&self.metrics_text())
    }

    /// The same as text.
    pub fn metrics_text(&self) -> String {
        let (status, text) = http::get(self.admin, "/metrics").unwrap();
        assert_eq!(status, 200, "{text}");
        text
    }

    /// What `/debug/services` says.
    pub fn debug(&self) -> Value {
        let (status, text) = http::get(self.admin, "/debug/services").unwrap();
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What it says about one service.
    pub fn service(&self, name: &str) -> Option<Value> {
        let all = self.debug();
        let services = all.get("services").and_then(Value::as_array).expect("services");
        services
            .iter()
            .find(|service| service.get("name").is_some_and(|found| found == name))
            .cloned()
    }

    /// State of each endpoint of a service by address, in order of the addresses.
    pub fn states(&self, service: &str) -> Vec<(String, String)> {
        let service = self.service(service).unwrap_or_default();
        let text = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let endpoints = service.get("endpoints").and_then(Value::as_array).into_iter().flatten();
        let mut states: Vec<_> = endpoints
            .map(|endpoint| (text(endpoint, "address"), text(endpoint, "state")))
            .collect();
        states.sort();
        states
    }

    /// Fails when an endpoint of the service is or was ejected.
    pub fn assert_no_ejection(&self, service: &str) {
        let states = self.states(service);
        assert!(!states.is_empty(), "the proxy knows no endpoint of {service}");
        assert!(states.iter().all(|(_, state)| state == "serving"), "{states:?}");
        let ejections = self.metrics().sum("tidegate_ejections_total", &[("service", service)]);
        assert!(ejections < 1.0, "{ejections} ejections");
    }
}
