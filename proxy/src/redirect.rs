//! `tidegate-proxy redirect`: the kernel's rules that bring a pod's TCP to the proxy.
//!
//! ```text
//! application ── OUTPUT ──┬─ proxy's own user, loopback, skip lists ─▶ as it is
//!                         └─ the rest ─▶ outbound port
//! callers ── PREROUTING ──┬─ admin port, skip lists ─▶ as it is
//!                         └─ the rest ─▶ inbound port
//! ```
//!
//! Both address families, or none and a reason: rules for IPv4 alone would let calls by IPv6 pass the proxy by, unseen.

mod list;
mod plan;
mod tool;

use anyhow::{Context as _, bail};
use api::names::{PROXY_UID, port};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use list::{List, Ports, Subnet};
use plan::Plan;
use std::fmt::Write as _;
use std::fs;
use tool::{Family, Tool};

/// Redirection rules.
#[derive(Clone, Debug, Args)]
pub struct RedirectArguments {
    /// Port that takes the application's own calls
    #[arg(long, env = "TIDEGATE_OUTBOUND_PORT", value_name = "PORT", default_value_t = port::OUTBOUND)]
    outbound_port: u16,

    /// Port that takes the calls to the application
    #[arg(long, env = "TIDEGATE_INBOUND_PORT", value_name = "PORT", default_value_t = port::INBOUND)]
    inbound_port: u16,

    /// Port of the admin server, which is reached as it is
    #[arg(long, env = "TIDEGATE_ADMIN_PORT", value_name = "PORT", default_value_t = port::ADMIN)]
    admin_port: u16,

    /// User id of the proxy, whose own connections are left alone
    #[arg(long, env = "TIDEGATE_PROXY_UID", value_name = "ID", default_value_t = PROXY_UID)]
    proxy_uid: u32,

    /// Destination ports and ranges that the application reaches past the proxy, such as 25,8000-8010
    #[arg(long, env = "TIDEGATE_SKIP_OUTBOUND_PORTS", value_name = "LIST", default_value = "")]
    skip_outbound_ports: List<Ports>,

    /// Destination subnets that the application reaches past the proxy, such as `10.1.0.0/16,fd00::/8`
    #[arg(long, env = "TIDEGATE_SKIP_OUTBOUND_SUBNETS", value_name = "LIST", default_value = "")]
    skip_outbound_subnets: List<Subnet>,

    /// Ports of the application that callers reach past the proxy
    #[arg(long, env = "TIDEGATE_SKIP_INBOUND_PORTS", value_name = "LIST", default_value = "")]
    skip_inbound_ports: List<Ports>,

    /// Subnets whose callers reach the application past the proxy
    #[arg(long, env = "TIDEGATE_SKIP_INBOUND_SUBNETS", value_name = "LIST", default_value = "")]
    skip_inbound_subnets: List<Subnet>,

    /// Whether IPv6 is redirected: auto demands it where the pod has an IPv6 address that others can reach
    #[arg(long, env = "TIDEGATE_REDIRECT_IPV6", value_name = "WHEN", default_value = "auto")]
    ipv6: Ipv6,

    /// Which iptables: auto takes the one that holds the rules already, else the first that works
    #[arg(long, env = "TIDEGATE_IPTABLES", value_name = "KIND", default_value = "auto")]
    iptables: Backend,

    /// Only tell whether the rules are in force; exit status 1 if they are not
    #[arg(long, conflicts_with = "undo")]
    check: bool,

    /// Remove the rules
    #[arg(long)]
    undo: bool,
}

/// Whether IPv6 is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ipv6 {
    /// Where there is something to redirect.
    Auto,
    /// Always.
    On,
    /// Never: only where the pod cannot use IPv6.
    Off,
}

/// Which program sets the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The one that holds the rules already, else the first that works.
    Auto,
    /// `iptables-nft`.
    Nft,
    /// `iptables-legacy`.
    Legacy,
    /// `iptables`, whichever of the two that is.
    Plain,
}

/// Sets, checks or removes the rules, and tells what was done.
pub fn run(arguments: &RedirectArguments) -> anyhow::Result<String> {
    let tools = tools(arguments)?;
    if arguments.undo {
        return undo(&tools);
    }
    if !arguments.check {
        apply(&tools, arguments)?;
    }
    check(&tools, arguments)
}

/// The programs to use: one family after the other.
fn tools(arguments: &RedirectArguments) -> anyhow::Result<Vec<Tool>> {
    let kinds: &[&'static str] = match arguments.iptables {
        Backend::Auto => &["-nft", "-legacy", ""],
        Backend::Nft => &["-nft"],
        Backend::Legacy => &["-legacy"],
        Backend::Plain => &[""],
    };
    let mut working = Vec::new();
    let mut complaints = String::new();
    for kind in kinds {
        let tool = Tool::new(Family::V4, kind);
        match tool.saved() {
            Ok(rules) => working.push((plan::has_chains(&rules), tool)),
            Err(error) => write!(complaints, "; {error}")?,
        }
    }
    let chosen = working.iter().find(|(holds_rules, _)| *holds_rules).or_else(|| working.first());
    let Some((_, ipv4)) = chosen else {
        bail!(
            "no iptables that works for IPv4: run as root with NET_ADMIN and NET_RAW{complaints}"
        );
    };
    let mut tools = vec![*ipv4];
    if arguments.ipv6 != Ipv6::Off {
        let ipv6 = ipv4.of(Family::V6);
        match ipv6.saved() {
            Ok(_) => tools.push(ipv6),
            // With no address to be reached from, nothing can leave by IPv6 either.
            Err(_) if arguments.ipv6 == Ipv6::Auto && !reaches_ipv6() => {}
            Err(error) => {
                return Err(error).context("no rules set: IPv6 would pass the proxy by; load ip6table_nat or give the pod no IPv6");
            }
        }
    }
    Ok(tools)
}

/// Whether this network namespace has an IPv6 address of more than local scope.
fn reaches_ipv6() -> bool {
    /// Scopes of `if_inet6` that no one else can reach: the interface, the link, the host.
    const LOCAL: [&str; 3] = ["01", "10", "20"];
    // A kernel without IPv6 has no such file.
    let addresses = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    addresses
        .lines()
        .any(|line| line.split_whitespace().nth(3).is_some_and(|scope| !LOCAL.contains(&scope)))
}

fn plan(arguments: &RedirectArguments, family: Family) -> Plan {
    let of_family = |subnets: &List<Subnet>| -> Vec<IpNet> {
        let all = subnets.0.iter().map(|subnet| subnet.0);
        all.filter(|subnet| family.is_of(*subnet)).collect()
    };
    Plan {
        outbound_port: arguments.outbound_port,
        inbound_port: arguments.inbound_port,
        admin_port: arguments.admin_port,
        proxy_uid: arguments.proxy_uid,
        skip_outbound_ports: arguments.skip_outbound_ports.0.clone(),
        skip_outbound_subnets: of_family(&arguments.skip_outbound_subnets),
        skip_inbound_ports: arguments.skip_inbound_ports.0.clone(),
        skip_inbound_subnets: of_family(&arguments.skip_inbound_subnets),
    }
}

/// All or nothing: every family is tried out before the first one changes, and a family that fails all the same takes the
/// others' rules with it.
fn apply(tools: &[Tool], arguments: &RedirectArguments) -> anyhow::Result<()> {
    let mut changes = Vec::new();
    for tool in tools {
        let change = plan(arguments, tool.family()).change(&tool.saved()?);
        tool.try_out(&change).context("no rules set")?;
        changes.push((tool, change));
    }
    for (tool, change) in changes {
        if let Err(error) = tool.restore(&change) {
            undo(tools).context("the rules of one address family stayed behind")?;
            return Err(error).context("no rules set");
        }
    }
    Ok(())
}

fn undo(tools: &[Tool]) -> anyhow::Result<String> {
    let mut told = String::new();
    for tool in tools {
        let rules = tool.saved()?;
        let change = plan::removal(&rules);
        match change {
            Some(change) => {
                tool.restore(&change)?;
                writeln!(told, "{tool}: rules removed")?;
            }
            None => writeln!(told, "{tool}: no rules of ours")?,
        }
    }
    Ok(told)
}

fn check(tools: &[Tool], arguments: &RedirectArguments) -> anyhow::Result<String> {
    let mut told = String::new();
    for tool in tools {
        let plan = plan(arguments, tool.family());
        let differences = plan.differences(&tool.saved()?);
        if !differences.is_empty() {
            bail!("{tool}: the rules are not in force: {}", differences.join("; "));
        }
        writeln!(told, "{tool}: {} rules in force", plan.rules().len())?;
    }
    Ok(told)
}
