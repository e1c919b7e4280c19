//! Network namespaces as hosts: each has its own addresses, IPv4 and IPv6, and a wire to all others. Needs root.

use crate::deadline::{SOON, until};
use crate::folder::Folder;
use crate::metrics::Scrape;
use crate::process::Process;
use crate::programs::{self, Missing};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// The user that a pod's proxy runs as; the rules leave its connections alone.
pub const PROXY: u32 = 4242;
/// The user that applications run as.
pub const APPLICATION: u32 = 1000;

/// Hosts on one wire. They go when the value goes.
#[derive(Debug)]
pub struct Lab {
    name: String,
    hosts: u8,
    folder: Folder,
}

/// A network namespace.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name for `ip netns`.
    pub namespace: String,
    /// Its IPv4 address.
    pub v4: String,
    /// Its IPv6 address, without brackets.
    pub v6: String,
}

impl Lab {
    /// Makes the wire; says what is missing where that is not possible.
    pub fn new() -> Result<Self, Missing> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for tool in ["ip", "iptables-nft", "ip6tables-nft", "setpriv", "curl"] {
            programs::tool(tool)?;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let lab = Self {
            name: format!("tg{}-{number}", std::process::id()),
            hosts: 0,
            folder: Folder::new(),
        };
        let wire = lab.wire();
        if !run("ip", &["netns", "add", &wire]).status.success() {
            return Err(programs::missing("the right to make network namespaces (root)"));
        }
        ip(&format!("-n {wire} link add br0 type bridge"));
        ip(&format!("-n {wire} link set br0 up"));
        // The programs are read by other users than the one who built them, from a folder that these may enter.
        let proxy = lab.folder.path().join("tidegate-proxy");
        std::fs::copy(programs::proxy(), proxy).unwrap();
        std::fs::copy(programs::demo(), lab.demo()).unwrap();
        Ok(lab)
    }

    /// The demo's program, whose backend serves HTTP.
    pub fn demo(&self) -> String {
        self.folder.path().join("demo").display().to_string()
    }

    fn wire(&self) -> String {
        format!("{}-wire", self.name)
    }

    /// Adds a host.
    pub fn host(&mut self) -> Host {
        self.hosts += 1;
        let number = self.hosts;
        let (wire, namespace) = (self.wire(), format!("{}-{number}", self.name));
        ip(&format!("netns add {namespace}"));
        ip(&format!(
            "link add eth0 netns {namespace} type veth peer name port{number} netns {wire}"
        ));
        ip(&format!("-n {wire} link set port{number} master br0 up"));
        let host =
            Host { namespace, v4: format!("10.77.0.{number}"), v6: format!("fd77::{number}") };
        host.ip("link set lo up");
        host.ip("link set eth0 up");
        host.ip(&format!("address add {}/16 dev eth0", host.v4));
        host.ip(&format!("address add {}/64 dev eth0 nodad", host.v6));
        // As in a container: applications listen on any port.
        host.run(0, &["sysctl", "-qw", "net.ipv4.ip_unprivileged_port_start=0"]);
        // Cluster addresses belong to nobody; the kernel only has to let them out as far as the rules.
        host.ip("route add default dev eth0");
        host.ip("-6 route add default dev eth0");
        host
    }

    /// A folder that all users may read.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Sets a host's redirection rules and starts its proxy. `services` and `place` are parts of the topology file.
    pub fn inject(&self, host: &Host, place: &str, services: &str) -> Sidecar {
        self.inject_as("outbound", host, place, services)
    }

    /// The same for a pod whose calls are taken in another way, such as those of a gateway.
    pub fn inject_as(&self, calls: &str, host: &Host, place: &str, services: &str) -> Sidecar {
        let mut text = format!("[proxy]\n{place}\n");
        for (address, direction) in [
            ("127.0.0.1:4240", calls),
            ("[::1]:4240", calls),
            ("0.0.0.0:4243", "inbound"),
            ("[::]:4243", "inbound"),
        ] {
            writeln!(text, "[[listener]]\naddress = \"{address}\"\nredirected = \"{direction}\"")
                .unwrap();
        }
        text.push_str(services);
        let topology = self.folder.write(&format!("{}.toml", host.namespace), &text);
        let process = self.start(host, &["--topology", &topology.display().to_string()]);
        Sidecar { process, host: host.clone(), head: text.replace(services, ""), topology }
    }

    /// Sets a host's redirection rules and starts its proxy, which asks a controller.
    pub fn follow(&self, host: &Host, controller: &str, arguments: &[&str]) -> Sidecar {
        let process = self.start(host, &[&["--controller", controller], arguments].concat());
        Sidecar { process, host: host.clone(), head: String::new(), topology: PathBuf::new() }
    }

    fn start(&self, host: &Host, arguments: &[&str]) -> Process {
        let proxy = self.folder.path().join("tidegate-proxy").display().to_string();
        let rules = host.run(0, &[&proxy, "redirect", "--iptables", "nft"]);
        assert!(rules.contains("in force"), "{rules}");
        let mut command = host.command(PROXY, &proxy);
        command.args(["--workers", "2", "--grace", "20s", "--admin", "0.0.0.0:4291"]);
        command.args(arguments);
        let mut process =
            Process::start(&format!("proxy-{}", host.namespace), &command, self.folder.path());
        until("the proxy is ready", SOON, || {
            if let Some(status) = process.check_running() {
                panic!("the proxy ended ({status}): {}", process.log());
            }
            match host.try_run(APPLICATION, &["curl", "-sf", "http://127.0.0.1:4291/ready"]) {
                output if output.status.success() => Ok(()),
                output => Err(text_of(&output)),
            }
        });
        process
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for number in 1..=self.hosts {
            drop(run("ip", &["netns", "delete", &format!("{}-{number}", self.name)]));
        }
        drop(run("ip", &["netns", "delete", &self.wire()]));
    }
}

/// A proxy with redirection rules in front of it.
#[derive(Debug)]
pub struct Sidecar {
    /// The proxy.
    pub process: Process,
    host: Host,
    head: String,
    topology: PathBuf,
}

impl Sidecar {
    /// What `/metrics` says now.
    pub fn metrics(&self) -> Scrape {
        Scrape::parse(
            &self.host.run(APPLICATION, &["curl", "-sf", "http://127.0.0.1:4291/metrics"]),
        )
    }

    /// Waits until a metric is as expected.
    pub fn counts(&self, name: &str, labels: &[(&str, &str)], expected: f64) {
        until(&format!("{name} {labels:?} = {expected}"), SOON, || {
            let found = self.metrics().sum(name, labels);
            if (found - expected).abs() < 0.5 { Ok(()) } else { Err(found) }
        });
    }

    /// Writes other services into the topology file.
    pub fn set_services(&self, services: &str) {
        let draft = self.topology.with_extension("draft");
        std::fs::write(&draft, format!("{}{services}", self.head)).unwrap();
        std::fs::rename(&draft, &self.topology).unwrap();
    }
}

impl Host {
    /// A program on this host, as a user.
    pub fn command(&self, user: u32, program: &str) -> Command {
        let mut command = Command::new("ip");
        let user = user.to_string();
        let group = if user == "0" { "--keep-groups" } else { "--clear-groups" };
        // A change of the user makes the kernel forget with whom a program is to end.
        command.args(["netns", "exec", &self.namespace, "setpriv", "--pdeathsig", "KILL"]);
        command.args(["--reuid", &user, group]);
        command.arg(program);
        command
    }

    /// Runs a program to its end.
    pub fn try_run(&self, user: u32, command: &[&str]) -> Output {
        let (program, arguments) = command.split_first().unwrap();
        self.command(user, program).args(arguments).output().unwrap()
    }

    /// The same; it must succeed. What it printed.
    pub fn run(&self, user: u32, command: &[&str]) -> String {
        let output = self.try_run(user, command);
        assert!(output.status.success(), "{command:?} ({}): {}", output.status, text_of(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a program that goes on until it is dropped.
    pub fn start(&self, user: u32, name: &str, folder: &Path, command: &[&str]) -> Process {
        let (program, arguments) = command.split_first().unwrap();
        let mut command = self.command(user, program);
        Process::start(name, command.args(arguments), folder)
    }

    fn ip(&self, arguments: &str) {
        ip(&format!("-n {} {arguments}", self.namespace));
    }

    /// Begins to count TCP packets that leave this host, by the user that sends them. Behind the last rule that changes where
    /// a packet goes: before, the kernel names the interface that it was going to take.
    pub fn count_leaving(&self, users: &[u32]) {
        for tool in ["iptables", "ip6tables"] {
            for user in users {
                let user = user.to_string();
                let place = [tool, "-t", "mangle", "-A", "POSTROUTING", "-o", "eth0", "-p", "tcp"];
                let owner = ["-m", "owner", "--uid-owner", &user];
                self.run(0, &[place.as_slice(), owner.as_slice()].concat());
            }
        }
    }

    /// How many did, IPv4 and IPv6.
    pub fn left(&self, user: u32) -> [u64; 2] {
        ["iptables", "ip6tables"].map(|tool| {
            let listed = self.run(0, &[tool, "-t", "mangle", "-nvxL", "POSTROUTING"]);
            let of_user = format!("owner UID match {user}");
            let line = listed.lines().find(|line| line.contains(&of_user)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        })
    }

    /// Loses every packet from now on, without a word to anybody.
    pub fn cut_off(&self) {
        for tool in ["iptables", "ip6tables"] {
            for chain in ["INPUT", "OUTPUT"] {
                self.run(0, &[tool, "-I", chain, "1", "!", interface(chain), "lo", "-j", "DROP"]);
            }
        }
    }

    /// Ends that.
    pub fn reconnect(&self) {
        for tool in ["iptables", "ip6tables"] {
            for chain in ["INPUT", "OUTPUT"] {
                self.run(0, &[tool, "-D", chain, "1"]);
            }
        }
    }
}

fn interface(chain: &str) -> &'static str {
    if chain == "INPUT" { "-i" } else { "-o" }
}

fn ip(arguments: &str) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let output = run("ip", &words);
    assert!(output.status.success(), "ip {arguments}: {}", text_of(&output));
}

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn text_of(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}
