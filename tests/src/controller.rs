//! A running controller.

use crate::deadline::{SOON, until};
use crate::folder::Folder;
use crate::metrics::Scrape;
use crate::process::Process;
use crate::{http, ports, programs};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

/// A `tidegate-controller`.
#[derive(Debug)]
pub struct Controller {
    /// The program.
    pub process: Process,
    /// Where proxies connect.
    pub discovery: SocketAddr,
    /// Where `/v1/endpoints` is.
    pub view: SocketAddr,
    /// Where its admin server listens.
    pub admin: SocketAddr,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    folder: Folder,
}

impl Controller {
    /// Starts one that believes proxies who they are, and waits until it is ready.
    pub fn start(kubeconfig: &str) -> Self {
        Self::start_with(kubeconfig, &["--trust-proxies"])
    }

    /// The same with other arguments.
    pub fn start_with(kubeconfig: &str, arguments: &[&str]) -> Self {
        let controller = Self::begin(kubeconfig, arguments);
        controller.until_ready();
        controller
    }

    /// Starts it and does not wait.
    pub fn begin(kubeconfig: &str, arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let (discovery, view, admin) = (ports::free(), ports::free(), ports::free());
        let mut arguments: Vec<String> =
            arguments.iter().map(|argument| (*argument).to_owned()).collect();
        for (flag, address) in [("--discovery", discovery), ("--view", view), ("--admin", admin)] {
            arguments.extend([flag.to_owned(), address.to_string()]);
        }
        let kubeconfig = folder.write("kubeconfig", kubeconfig);
        let process = launch(&arguments, &kubeconfig, &folder);
        Self { process, discovery, view, admin, arguments, kubeconfig, folder }
    }

    /// Starts it again at the same addresses, after it was killed.
    pub fn restart(&mut self) {
        self.process = launch(&self.arguments, &self.kubeconfig, &self.folder);
        self.until_ready();
    }

    /// Waits until it has listed everything.
    pub fn until_ready(&self) {
        until("the controller is ready", SOON, || {
            if self.is_ready() { Ok(()) } else { Err(self.process.log()) }
        });
    }

    /// Whether `/ready` says so.
    pub fn is_ready(&self) -> bool {
        matches!(http::get(self.admin, "/ready"), Ok((200, _)))
    }

    /// What `/metrics` says now.
    pub fn metrics(&self) -> Scrape {
        let (status, text) = http::get(self.admin, "/metrics").unwrap();
        assert_eq!(status, 200, "{text}");
        Scrape::parse(&text)
    }

    /// The longest time for which a watch of a cluster has failed by now.
    pub fn stale_seconds(&self, cluster: &str) -> f64 {
        let metrics = self.metrics();
        let labels = [("cluster", cluster)];
        let watches = metrics.select("tidegate_discovery_stale_seconds", &labels);
        watches.map(|watch| watch.value).fold(0.0, f64::max)
    }
}

fn launch(arguments: &[String], kubeconfig: &std::path::Path, folder: &Folder) -> Process {
    let mut command = Command::new(programs::controller());
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    Process::start("controller", &command, folder.path())
}
