//! Memory: at rest, with idle connections, during a burst and after it.

use crate::arguments::ProxyOptions;
use crate::peer::{Peer, Running, Speaks};
use crate::process::{Process, pause};
use crate::report;
use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const IDLE_CONNECTIONS: usize = 1000;
const BURST: usize = 5000;
/// In this time a proxy knows that a connection is idle, and its allocator has given back what that freed.
const IDLE_SECONDS: u64 = 20;
/// The proxy holds two sockets a request: this stays under a limit of 20,000 open files.
const _: () = assert!(BURST * 2 + IDLE_CONNECTIONS < 19_000);

/// Resident memory of one peer, in KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) peer: Peer,
    pub(crate) start: u64,
    pub(crate) per_idle_connection: f64,
    pub(crate) before_burst: u64,
    pub(crate) burst_peak: u64,
    pub(crate) after_burst: u64,
    /// Seconds between the end of the burst and `after_burst`.
    pub(crate) rest_seconds: u64,
}

/// Measures every peer that is a program, one after the other.
pub(crate) fn measure(
    options: &ProxyOptions,
    peers: &[Peer],
    endpoints: &[SocketAddr],
    directory: &Path,
) -> anyhow::Result<Vec<Memory>> {
    let programs = peers.iter().filter(|peer| !matches!(peer, Peer::Direct | Peer::Relay));
    programs
        .map(|peer| {
            report::progress(&format!("memory: {}", peer.name()));
            let running = peer.start(options, endpoints, Speaks::Http1, directory)?;
            measure_one(&running, if options.quick { 15 } else { 60 })
                .with_context(|| format!("memory of {}", peer.name()))
        })
        .collect()
}

fn measure_one(running: &Running, rest_seconds: u64) -> anyhow::Result<Memory> {
    let process = running.process.as_ref().context("not a program")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let start = process.resident_kib();
    // The first requests build what stays: pools, buffers, metrics. They are not the cost of a connection.
    drop(runtime.block_on(answered(running.address, 20, "/"))?);
    let warm = process.resident_kib();
    let idle = runtime.block_on(answered(running.address, IDLE_CONNECTIONS, "/"))?;
    pause(Duration::from_secs(IDLE_SECONDS));
    let with_idle = process.resident_kib();
    drop(idle);
    pause(Duration::from_secs(2));
    let before_burst = process.resident_kib();
    let burst_peak = runtime.block_on(burst(process, running.address))?;
    pause(Duration::from_secs(rest_seconds));
    Ok(Memory {
        peer: running.peer,
        start,
        per_idle_connection: with_idle.saturating_sub(warm) as f64 / IDLE_CONNECTIONS as f64,
        before_burst,
        burst_peak,
        after_burst: process.resident_kib(),
        rest_seconds,
    })
}

/// Opens `count` connections, gets one answer on each, and returns them open.
async fn answered(
    address: SocketAddr,
    count: usize,
    path: &'static str,
) -> anyhow::Result<Vec<TcpStream>> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        open.push(ask(address, path).await?);
    }
    Ok(open)
}

/// All connections ask at once; returns the largest resident memory seen meanwhile.
async fn burst(process: &Process, address: SocketAddr) -> anyhow::Result<u64> {
    let mut asking = JoinSet::new();
    for _ in 0..BURST {
        asking.spawn(ask(address, "/slow"));
    }
    let mut peak = 0;
    let mut failed = 0;
    loop {
        tokio::select! {
            answer = asking.join_next() => match answer {
                Some(Ok(Ok(_))) => {}
                Some(_) => failed += 1,
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        peak = peak.max(process.resident_kib());
    }
    report::progress(&format!("burst of {BURST}: {failed} failed"));
    Ok(peak)
}

/// One request on a new connection, read to the end of its answer.
async fn ask(address: SocketAddr, path: &'static str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: origin\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::with_capacity(2048);
    let complete = |answer: &[u8]| {
        answer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .is_some_and(|head| answer.len() >= head + 4 + 1024)
    };
    while !complete(&answer) {
        if stream.read_buf(&mut answer).await? == 0 {
            bail!("the connection ended before the answer was complete");
        }
    }
    if !answer.starts_with(b"HTTP/1.1 200") {
        bail!("not answered with 200");
    }
    Ok(stream)
}
