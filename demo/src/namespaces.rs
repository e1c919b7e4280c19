//! `--namespaces`: backends and callers as pods. Each is a network namespace with an address of its own, and what a caller sends
//! to the service's cluster address is redirected to its proxy by the rules that pods get.
//!
//! ```text
//! a network of its own ─┬─ br0 ── the demo: control, scrapes
//!                       ├─ a pod for each backend      10.77.0.1 … 9, port 80
//!                       └─ a pod for each proxy        10.77.0.10 …: load ─▶ 10.96.0.1:80 ─ rules ─▶ proxy ─▶ backends
//! ```
//!
//! All of it lives in a network and a mount namespace that nobody else is in, and is gone with the demo's last process.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::Context as _;

/// What callers dial: the service's address in the cluster.
pub(crate) const SERVICE_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)), 80);

/// The user that a pod's proxy runs as: the rules leave its connections alone.
const PROXY_USER: &str = "4242";

/// The ports of a pod's proxy.
const OUTBOUND: u16 = 4240;
const ADMIN: u16 = 4291;

/// Tells the demo that it is in the network of its own.
pub(crate) const READY: &str = "--network-ready";

const SETUP: &str = "mkdir -p /run/netns && mount -t tmpfs tidegate-demo /run/netns && ip link set lo up && \
    ip link add br0 type bridge && ip link set br0 up && ip address add 10.77.255.254/16 dev br0 && exec \"$@\"";

/// Becomes this program once more, in a network of its own. Returns only when that fails.
pub(crate) fn enter() -> anyhow::Result<()> {
    let user = output(Command::new("id").arg("-u"))?;
    anyhow::ensure!(
        user.trim() == "0",
        "--namespaces makes network namespaces and sets their rules, which only root may: \
         sudo target/fast/demo --namespaces, or leave it out"
    );
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private", "sh", "-c", SETUP, "sh"]);
    command.arg(program).args(std::env::args_os().skip(1)).arg(READY);
    Err(command.exec()).context("cannot start unshare (Debian package util-linux)")
}

/// A pod.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    namespace: String,
    address: Ipv4Addr,
}

impl Pod {
    /// Makes one.
    pub(crate) fn make(number: u8) -> anyhow::Result<Self> {
        let pod =
            Self { namespace: format!("pod-{number}"), address: Ipv4Addr::new(10, 77, 0, number) };
        let Self { namespace, address } = &pod;
        let inside = |arguments: &str| ip(&format!("-n {namespace} {arguments}"));
        ip(&format!("netns add {namespace}"))?;
        ip(&format!("link add eth0 netns {namespace} type veth peer name port{number}"))?;
        ip(&format!("link set port{number} master br0 up"))?;
        inside("link set lo up")?;
        inside("link set eth0 up")?;
        inside(&format!("address add {address}/16 dev eth0"))?;
        // Cluster addresses belong to nobody; the kernel only has to let them out as far as the rules.
        inside("route add default dev eth0")?;
        Ok(pod)
    }

    /// Where its application listens.
    pub(crate) fn application(&self) -> SocketAddr {
        (self.address, 80).into()
    }

    /// Where its proxy listens: to callers that name the service, and to admins.
    pub(crate) fn proxy(&self) -> [SocketAddr; 2] {
        [(Ipv4Addr::LOCALHOST, OUTBOUND).into(), (self.address, ADMIN).into()]
    }

    /// Arguments of `ip` that let a program run in it.
    pub(crate) fn arguments(&self, program: &Path) -> Vec<OsString> {
        ["netns".into(), "exec".into(), self.namespace.clone().into(), program.into()].into()
    }

    /// Sets the rules by which its connections reach the proxy; gives the arguments of `ip` that start the proxy there.
    pub(crate) fn inject(&self, proxy: &Path) -> anyhow::Result<Vec<OsString>> {
        let mut rules = Command::new("ip");
        rules.args(self.arguments(proxy)).arg("redirect");
        output(&mut rules).context("cannot set the rules of a pod")?;
        let mut arguments = self.arguments(Path::new("setpriv"));
        // It may read what belongs to whoever built it.
        let rights = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"];
        let user = ["--reuid", PROXY_USER, "--clear-groups"];
        arguments.extend(user.into_iter().chain(rights).map(OsString::from));
        arguments.push(proxy.into());
        Ok(arguments)
    }
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    output(Command::new("ip").args(arguments.split_whitespace())).map(|_| ())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let named = format!("{command:?}");
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot start {named}"))?;
    anyhow::ensure!(
        status.success(),
        "{named} failed: {}",
        String::from_utf8_lossy(&stderr).trim()
    );
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}
