//! The comparison: all peers up, rounds interleaved, medians over rounds.

use crate::arguments::ProxyOptions;
use crate::load::Measured;
use crate::peer::{Peer, Running};
use crate::process::{Process, Usage, free_address};
use crate::report::{self, Measurements, Row, Sample};
use crate::work::{self, Work};
use crate::{counts, growth, memory};
use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Measures everything the options ask for.
pub(crate) fn run(options: &ProxyOptions) -> anyhow::Result<()> {
    let peers = chosen_peers(options)?;
    let directory = PathBuf::from("target/bench");
    std::fs::create_dir_all(&directory).context("cannot make target/bench")?;
    // Absolute, since nginx reads what it includes relative to a folder of its own.
    let directory = directory.canonicalize()?;
    let machine = report::machine(
        &peers.iter().map(|peer| (*peer, peer.version(options))).collect::<Vec<_>>(),
    );
    report::say(&machine);
    let endpoints = start_origin(&directory)?;
    let mut rows = Vec::new();
    for work in chosen_work(options) {
        rows.extend(measure_work(options, work, &peers, &endpoints.addresses, &directory)?);
        report::print_work(work, &rows);
    }
    let mut result = Measurements { rows, ..Measurements::default() };
    if options.work.is_none() {
        result.memory = memory::measure(options, &peers, &endpoints.addresses, &directory)?;
        result.counts = counts::count(options, &peers, &endpoints.addresses, &directory)?;
        if !options.quick && peers.contains(&Peer::Tidegate) {
            result.growth = growth::measure(options, &directory)?;
        }
    }
    report::print_rest(&result);
    let verdicts = report::verdicts(&result);
    report::print_verdicts(&verdicts);
    if let Some(file) = &options.json {
        report::write_json(file, &result)?;
    }
    if let Some(file) = &options.report {
        report::write_markdown(file, &machine, &result, &verdicts)?;
    }
    Ok(())
}

fn chosen_peers(options: &ProxyOptions) -> anyhow::Result<Vec<Peer>> {
    let unknown: Vec<&String> = options
        .peers
        .iter()
        .filter(|name| Peer::ALL.iter().all(|peer| peer.name() != name.as_str()))
        .collect();
    if !unknown.is_empty() {
        bail!("no peer named {unknown:?}; known: {}", Peer::ALL.map(Peer::name).join(", "));
    }
    let chosen = |peer: &Peer| {
        options.peers.is_empty() || options.peers.iter().any(|name| name == peer.name())
    };
    Ok(Peer::ALL.into_iter().filter(chosen).collect())
}

fn chosen_work(options: &ProxyOptions) -> impl Iterator<Item = &'static Work> {
    let part = options.work.clone().unwrap_or_default();
    work::ALL.iter().filter(move |work| work.name.contains(&part))
}

/// The origin and the three addresses it listens on.
struct Origin {
    addresses: Vec<SocketAddr>,
    _process: Process,
}

fn start_origin(directory: &Path) -> anyhow::Result<Origin> {
    let port = free_address()?.port();
    let addresses: Vec<SocketAddr> =
        (1..=3).map(|host| SocketAddr::from(([127, 0, 0, host], port))).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("origin");
    for address in &addresses {
        command.arg("--listen").arg(address.to_string());
    }
    let mut process = Process::start(command, &directory.join("origin.log"))?;
    for address in &addresses {
        process.wait_listening(*address).context("the origin does not start")?;
    }
    Ok(Origin { addresses, _process: process })
}

fn measure_work(
    options: &ProxyOptions,
    work: &Work,
    peers: &[Peer],
    endpoints: &[SocketAddr],
    directory: &Path,
) -> anyhow::Result<Vec<Row>> {
    let rounds = options.rounds.unwrap_or(if options.quick { 1 } else { 3 });
    let seconds = options.seconds.unwrap_or(if options.quick { 2 } else { 4 });
    let mut rows = Vec::new();
    let mut running = Vec::new();
    for peer in peers.iter().filter(|peer| work.suits(**peer)) {
        running.push(start(options, work, *peer, endpoints, directory)?);
        rows.push(Row { work: work.name, peer: *peer, samples: Vec::new() });
    }
    for peer in &running {
        // Connections, caches and branch predictors are warm before anything counts.
        work.load
            .run(options, peer.address, 1)
            .with_context(|| format!("{} with {}", work.name, peer.peer.name()))?;
    }
    for round in 1..=rounds {
        for (peer, row) in running.iter().zip(&mut rows) {
            report::progress(&format!(
                "{}, round {round} of {rounds}: {}",
                work.name,
                peer.peer.name()
            ));
            let sample = sample(options, work, peer, seconds);
            row.samples
                .push(sample.with_context(|| format!("{} with {}", work.name, peer.peer.name()))?);
        }
    }
    Ok(rows)
}

/// One proxy, or two in a row.
fn start(
    options: &ProxyOptions,
    work: &Work,
    peer: Peer,
    endpoints: &[SocketAddr],
    directory: &Path,
) -> anyhow::Result<Running> {
    if !work.two {
        return peer.start(options, endpoints, work.speaks, directory);
    }
    let behind = peer.start(options, endpoints, work.speaks, &directory.join("behind"))?;
    let first = peer.start(options, &[behind.address], work.speaks, directory)?;
    Ok(Running { behind: behind.process, ..first })
}

impl Running {
    /// What all its processes have used so far.
    fn usage(&self) -> anyhow::Result<Usage> {
        let mut sum = Usage::default();
        for process in self.process.iter().chain(&self.behind) {
            let used = process.usage()?;
            sum.cpu_ns += used.cpu_ns;
            sum.switches += used.switches;
        }
        Ok(sum)
    }
}

fn sample(
    options: &ProxyOptions,
    work: &Work,
    peer: &Running,
    seconds: u32,
) -> anyhow::Result<Sample> {
    let before = peer.usage()?;
    let measured: Measured = work.load.run(options, peer.address, seconds)?;
    let after = peer.usage()?;
    if measured.requests == 0 {
        bail!("no request was answered with success");
    }
    let requests = measured.requests as f64;
    Ok(Sample {
        cpu_us_per_request: (after.cpu_ns - before.cpu_ns) as f64 / 1e3 / requests,
        switches_per_request: (after.switches - before.switches) as f64 / requests,
        rss_kib: peer.process.as_ref().map_or(0, Process::resident_kib),
        measured,
    })
}
