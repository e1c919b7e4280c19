//! The injector as a process: for the tests, and for the benchmark.

use crate::cluster::Cluster;
use std::net::SocketAddr;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Where it is.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate-injector");

/// A running injector.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) admin: SocketAddr,
    pub(crate) webhook: SocketAddr,
}

/// Starts the program on free ports, and reads from its log which, until it is ready. The kernel ends it with us, also when we
/// are killed.
pub(crate) async fn start(cluster: &Cluster, arguments: &[&str]) -> Running {
    let name = format!("tidegate-kubeconfig-{}-{}", std::process::id(), cluster.url.len());
    let kubeconfig = std::env::temp_dir().join(name + &cluster.url.replace([':', '/'], "-"));
    std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", PROGRAM])
        .args(["serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--log-format=json"])
        .args(arguments)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut addresses = None;
    loop {
        let line = lines.next_line().await.unwrap().unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = |name: &str| line[name].as_str()?.parse().ok();
        addresses = addresses.or_else(|| address("admin").zip(address("webhook")));
        if line["message"] == "ready" {
            break;
        }
    }
    // Read on, or the program stands still once the pipe is full.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    std::fs::remove_file(kubeconfig).unwrap();
    let (admin, webhook) = addresses.unwrap();
    Running { child, admin, webhook }
}
