//! How the cost of a request and the memory grow with endpoints, services and connections.

use crate::arguments::ProxyOptions;
use crate::load::Load;
use crate::peer::{Peer, Setup, Speaks};
use crate::process::{Process, free_address};
use crate::report;
use anyhow::Context as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) endpoints: u32,
    pub(crate) services: u32,
    pub(crate) connections: u32,
    pub(crate) cpu_us_per_request: f64,
    pub(crate) per_second: f64,
    pub(crate) rss_kib: u64,
}

/// Endpoints of each service, services, connections.
const SIZES: [(u32, u32, u32); 12] = [
    (10, 1, 64),
    (100, 1, 64),
    (1_000, 1, 64),
    (10_000, 1, 64),
    (3, 10, 64),
    (3, 100, 64),
    (3, 1_000, 64),
    (3, 1, 1),
    (3, 1, 10),
    (3, 1, 100),
    (3, 1, 1_000),
    (3, 1, 9_000),
];

/// Measures the proxy in all sizes.
pub(crate) fn measure(options: &ProxyOptions, directory: &Path) -> anyhow::Result<Vec<Growth>> {
    let port = free_address()?.port();
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("origin").arg("--listen").arg(everywhere.to_string());
    let mut origin = Process::start(command, &directory.join("origin-everywhere.log"))?;
    origin.wait_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let seconds = options.seconds.unwrap_or(if options.quick { 1 } else { 4 });
    SIZES
        .into_iter()
        .map(|size| {
            let (endpoints, services, connections) = size;
            report::progress(&format!(
                "growth: {endpoints} endpoints, {services} services, {connections} connections"
            ));
            one(options, directory, port, size, seconds).with_context(|| format!("{size:?}"))
        })
        .collect()
}

fn one(
    options: &ProxyOptions,
    directory: &Path,
    port: u16,
    (endpoints, services, connections): (u32, u32, u32),
    seconds: u32,
) -> anyhow::Result<Growth> {
    let addresses: Vec<SocketAddr> = (1..=endpoints).map(|n| loopback(n, port)).collect();
    let directory = directory.join("growth");
    let setup = Setup {
        listen: free_address()?,
        endpoints: &addresses,
        speaks: Speaks::Http1,
        directory: &directory,
        services,
    };
    let running = Peer::Tidegate.start_as(options, &setup, &[])?;
    let process = running.process.as_ref().context("not a program")?;
    // Thousands of connections take a while before they are all answered.
    let seconds = if connections > 1_000 { seconds.max(10) } else { seconds };
    let load = if services == 1 {
        Load::Http1 { connections }
    } else {
        Load::Services { connections, services }
    };
    // Connections to the endpoints are made before anything counts.
    load.run(options, running.address, seconds)?;
    let before = process.usage()?;
    let measured = load.run(options, running.address, seconds)?;
    let after = process.usage()?;
    anyhow::ensure!(measured.failed == 0, "{} requests failed", measured.failed);
    anyhow::ensure!(measured.requests > 0, "no request was answered: more --seconds are needed");
    Ok(Growth {
        endpoints,
        services,
        connections,
        cpu_us_per_request: (after.cpu_ns - before.cpu_ns) as f64 / 1e3 / measured.requests as f64,
        per_second: measured.per_second,
        rss_kib: process.resident_kib(),
    })
}

/// The `n`th address of 127.0.0.0/8.
fn loopback(n: u32, port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 0, 0)) + n), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_an_address_of_its_own() {
        assert_eq!(loopback(1, 80).to_string(), "127.0.0.1:80");
        assert_eq!(loopback(10_000, 80).to_string(), "127.0.39.16:80");
    }
}
