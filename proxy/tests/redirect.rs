//! The redirection rules in network namespaces of the test's own: counters of the kernel say where packets went. Needs root.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise, and says why it was skipped"
)]

use std::process::{Command, Output};

const PROXY: &str = env!("CARGO_BIN_EXE_tidegate-proxy");

/// A pod and a peer, each a network namespace, and a wire between them. They go when the value goes.
struct Lab {
    pod: String,
    peer: String,
}

impl Lab {
    /// `None`, with the reason printed, where namespaces cannot be made.
    fn new(name: &str) -> Option<Self> {
        for tool in
            ["iptables-nft", "iptables-legacy", "ip6tables-nft", "ip6tables-legacy", "setpriv"]
        {
            if Command::new(tool).arg("--version").output().is_err() {
                println!("skipped: no {tool} here (Debian packages iptables and util-linux)");
                return None;
            }
        }
        let number = std::process::id();
        let lab =
            Self { pod: format!("tg-{name}-{number}-a"), peer: format!("tg-{name}-{number}-b") };
        for namespace in [&lab.pod, &lab.peer] {
            let made = Command::new("ip").args(["netns", "add", namespace]).output();
            if !made.is_ok_and(|output| output.status.success()) {
                println!("skipped: cannot make network namespaces, which needs root and iproute2");
                return None;
            }
        }
        let Self { pod, peer } = &lab;
        ip(&format!("link add eth0 netns {pod} type veth peer name eth0 netns {peer}"));
        for (namespace, last) in [(pod, 1), (peer, 2)] {
            ip(&format!("-n {namespace} link set lo up"));
            ip(&format!("-n {namespace} link set eth0 up"));
            ip(&format!("-n {namespace} address add 10.77.0.{last}/24 dev eth0"));
            ip(&format!("-n {namespace} address add 10.78.0.{last}/24 dev eth0"));
            ip(&format!("-n {namespace} address add fd77::{last}/64 dev eth0 nodad"));
        }
        for tool in ["iptables", "ip6tables"] {
            lab.peer(&format!("{tool} -A INPUT -p tcp"));
            lab.peer(&format!("{tool} -A INPUT -p udp"));
        }
        Some(lab)
    }

    fn redirect(&self, arguments: &str) -> Output {
        run(&format!("ip netns exec {} {PROXY} redirect {arguments}", self.pod))
    }

    fn pod(&self, command: &str) -> String {
        good(&format!("ip netns exec {} {command}", self.pod))
    }

    fn peer(&self, command: &str) -> String {
        good(&format!("ip netns exec {} {command}", self.peer))
    }

    /// Tries to connect from a namespace as a user; nobody listens, and refused is as good as any answer.
    fn call(from: &str, user: u32, protocol: &str, address: &str) {
        let (host, port) = address.rsplit_once(' ').unwrap();
        let dial = format!("echo x > /dev/{protocol}/{host}/{port}");
        let arguments = [
            "netns",
            "exec",
            from,
            "setpriv",
            "--reuid",
            &user.to_string(),
            "--clear-groups",
            "timeout",
            "2",
            "bash",
            "-c",
            &dial,
        ];
        Command::new("ip").args(arguments).output().unwrap();
    }

    /// Packets that came to the peer: TCP and UDP, of both families.
    fn arrived(&self) -> (u64, u64) {
        let mut sums = (0, 0);
        for tool in ["iptables", "ip6tables"] {
            let listed = self.peer(&format!("{tool} -nvxL INPUT"));
            let packets = |protocol: &str| -> u64 {
                let line = listed.lines().find(|line| {
                    line.split_whitespace()
                        .nth(2)
                        .is_some_and(|field| field == protocol || field == number(protocol))
                });
                line.unwrap().split_whitespace().next().unwrap().parse().unwrap()
            };
            sums = (sums.0 + packets("tcp"), sums.1 + packets("udp"));
        }
        sums
    }

    /// How many connections the last rule of a chain of ours has redirected.
    fn redirected(&self, kind: &str, chain: &str) -> [u64; 2] {
        ["iptables", "ip6tables"].map(|tool| {
            let listed = self.pod(&format!("{tool}{kind} -t nat -nvxL {chain}"));
            let line = listed.lines().find(|line| line.contains("REDIRECT")).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in [&self.pod, &self.peer] {
            drop(run(&format!("ip netns delete {namespace}")));
        }
    }
}

fn number(protocol: &str) -> &str {
    if protocol == "tcp" { "6" } else { "17" }
}

fn ip(arguments: &str) {
    good(&format!("ip {arguments}"));
}

fn run(command: &str) -> Output {
    let mut words = command.split_whitespace();
    Command::new(words.next().unwrap()).args(words).output().unwrap()
}

fn good(command: &str) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .concat()
}

/// Addresses of the peer, one of each family.
const BOTH: [&str; 2] = ["10.77.0.2 80", "fd77::2 80"];

#[test]
fn no_tcp_of_the_application_leaves_unproxied() {
    for kind in ["nft", "legacy"] {
        let Some(lab) = Lab::new("all") else { return };
        let set = lab.redirect(&format!("--iptables {kind}"));
        assert!(set.status.success(), "{}", text(&set));
        for address in BOTH {
            Lab::call(&lab.pod, 1000, "tcp", address);
            Lab::call(&lab.pod, 0, "tcp", address);
        }
        let suffix = format!("-{kind}");
        assert_eq!(lab.redirected(&suffix, "TIDEGATE_OUTBOUND"), [2, 2], "{kind}");
        assert_eq!(lab.arrived(), (0, 0), "{kind}: no packet of the application came to the peer");

        for address in BOTH {
            Lab::call(&lab.pod, 4242, "tcp", address);
        }
        assert_eq!(
            lab.redirected(&suffix, "TIDEGATE_OUTBOUND"),
            [2, 2],
            "{kind}: the proxy's own calls are left alone"
        );
        assert_eq!(lab.arrived(), (2, 0), "{kind}");

        for address in ["10.77.0.2 53", "fd77::2 53"] {
            Lab::call(&lab.pod, 1000, "udp", address);
        }
        assert_eq!(lab.arrived(), (2, 2), "{kind}: UDP is untouched");
    }
}

#[test]
fn callers_come_to_the_proxy_but_for_the_admin_port() {
    let Some(lab) = Lab::new("in") else { return };
    let set = lab.redirect("--iptables nft");
    assert!(set.status.success(), "{}", text(&set));
    for address in ["10.77.0.1 80", "fd77::1 80", "10.77.0.1 4291", "fd77::1 4291"] {
        Lab::call(&lab.peer, 1000, "tcp", address);
    }
    assert_eq!(lab.redirected("-nft", "TIDEGATE_INBOUND"), [1, 1]);
    for address in ["127.0.0.1 80", "::1 80", "10.77.0.1 80"] {
        Lab::call(&lab.pod, 1000, "tcp", address);
    }
    assert_eq!(
        lab.redirected("-nft", "TIDEGATE_OUTBOUND"),
        [0, 0],
        "what stays in the pod is left alone"
    );
    assert_eq!(lab.redirected("-nft", "TIDEGATE_INBOUND"), [1, 1]);
}

#[test]
fn skip_lists_of_both_families_hold_both_ways() {
    let Some(lab) = Lab::new("skip") else { return };
    let set = lab.redirect(
        "--iptables nft --skip-outbound-ports 25,8000-8010 --skip-outbound-subnets 10.78.0.0/16,fd77::2/127 \
         --skip-inbound-ports 9000 --skip-inbound-subnets 10.78.0.2",
    );
    assert!(set.status.success(), "{}", text(&set));
    for address in ["10.77.0.2 25", "10.77.0.2 8005", "10.78.0.2 80", "fd77::2 80"] {
        Lab::call(&lab.pod, 1000, "tcp", address);
    }
    assert_eq!(lab.redirected("-nft", "TIDEGATE_OUTBOUND"), [0, 0]);
    assert_eq!(lab.arrived().0, 4);
    Lab::call(&lab.pod, 1000, "tcp", "10.77.0.2 8011");
    assert_eq!(lab.redirected("-nft", "TIDEGATE_OUTBOUND"), [1, 0]);
    for address in ["10.77.0.1 9000", "10.78.0.1 80", "10.77.0.1 80"] {
        Lab::call(&lab.peer, 1000, "tcp", address);
    }
    assert_eq!(
        lab.redirected("-nft", "TIDEGATE_INBOUND"),
        [1, 0],
        "10.78.0.1 is called from 10.78.0.2"
    );
}

#[test]
fn setting_twice_is_setting_once_and_undo_leaves_nothing() {
    for kind in ["nft", "legacy"] {
        let Some(lab) = Lab::new("twice") else { return };
        let saved = || {
            let lines = ["iptables", "ip6tables"]
                .map(|tool| lab.pod(&format!("{tool}-{kind}-save -t nat")));
            lines
                .concat()
                .lines()
                .filter(|line| line.starts_with("-A"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let check = |arguments: &str| {
            lab.redirect(&format!("--iptables {kind} --check {arguments}")).status.success()
        };
        assert!(!check(""), "{kind}: nothing is in force yet");
        assert!(lab.redirect(&format!("--iptables {kind}")).status.success());
        let once = saved();
        assert!(check(""), "{kind}");
        let again = lab.redirect("");
        assert!(again.status.success(), "{kind}: {}", text(&again));
        assert_eq!(saved(), once, "{kind}: found by itself, and not doubled");
        assert!(!check("--skip-outbound-ports 25"), "{kind}: other rules than those in force");

        lab.pod(&format!("ip6tables-{kind} -t nat -F TIDEGATE_OUTBOUND"));
        let broken = lab.redirect(&format!("--iptables {kind} --check"));
        assert_eq!(broken.status.code(), Some(1));
        assert!(text(&broken).contains("IPv6"), "{}", text(&broken));
        assert!(lab.redirect("").status.success());
        assert_eq!(saved(), once, "{kind}: mended");

        assert!(lab.redirect("--undo").status.success());
        assert_eq!(saved(), Vec::<String>::new(), "{kind}");
        assert!(lab.redirect("--undo").status.success(), "{kind}: nothing to undo is no failure");
    }
}

#[test]
fn without_ipv6_rules_there_are_none_at_all() {
    let Some(lab) = Lab::new("half") else { return };
    // A program folder with iptables for IPv4 alone.
    let folder = std::env::temp_dir().join(format!("tidegate-{}", lab.pod));
    std::fs::create_dir_all(&folder).unwrap();
    for tool in ["iptables-nft-save", "iptables-nft-restore"] {
        let program = good(&format!("which {tool}"));
        std::os::unix::fs::symlink(program.trim(), folder.join(tool)).unwrap();
    }
    let half = |arguments: &str| {
        let path = format!("PATH={}", folder.display());
        run(&format!("ip netns exec {} /usr/bin/env {path} {PROXY} redirect {arguments}", lab.pod))
    };
    let refused = half("");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("IPv6 would pass the proxy by"), "{}", text(&refused));
    assert!(!lab.pod("iptables-nft-save -t nat").contains("TIDEGATE"), "no rules for IPv4 either");

    ip(&format!("-n {} address del fd77::1/64 dev eth0", lab.pod));
    let alone = half("");
    assert!(alone.status.success(), "nothing can come or go by IPv6: {}", text(&alone));
    assert!(lab.pod("iptables-nft-save -t nat").contains("TIDEGATE"));
    assert_eq!(half("--undo --ipv6 on").status.code(), Some(1), "asked for, so it must be there");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_list_that_cannot_be_read_changes_nothing() {
    for list in [
        "--skip-outbound-ports 0",
        "--skip-inbound-ports 9-8",
        "--skip-outbound-subnets 10.0.0.0/64",
    ] {
        let refused = run(&format!("{PROXY} redirect {list}"));
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
        assert!(text(&refused).contains("cannot read"), "{}", text(&refused));
    }
}
