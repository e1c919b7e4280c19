//! h2load, one thread.

use super::{Measured, output, wrk};
use anyhow::{Context as _, ensure};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

/// One gRPC message: not compressed, four bytes long.
pub(super) const GRPC_MESSAGE: &[u8] = &[0, 0, 0, 0, 4, b'p', b'i', b'n', b'g'];

/// Runs it for `seconds`.
pub(super) fn measure(
    address: SocketAddr,
    connections: u32,
    streams: u32,
    seconds: u32,
    message: Option<&[u8]>,
) -> anyhow::Result<Measured> {
    let mut command = Command::new("h2load");
    command.args([
        "-t",
        "1",
        "-c",
        &connections.to_string(),
        "-m",
        &streams.to_string(),
        "-D",
        &seconds.to_string(),
    ]);
    let file = std::env::temp_dir().join(format!("bench-{}-message", std::process::id()));
    if let Some(message) = message {
        fs::write(&file, message).with_context(|| format!("cannot write {}", file.display()))?;
        command.arg("-d").arg(&file).args([
            "-H",
            "content-type: application/grpc",
            "-H",
            "te: trailers",
        ]);
    }
    command.arg(format!("http://{address}/bench.Echo/Call"));
    let text = output(command);
    if message.is_some() {
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    parse(&text?)
}

/// Exactly `requests` requests by HTTP/1.1, for counting what each of them costs.
pub(crate) fn exactly(address: SocketAddr, connections: u32, requests: u32) -> anyhow::Result<()> {
    let mut command = Command::new("h2load");
    command.args(["--h1", "-t", "1", "-c", &connections.to_string(), "-n", &requests.to_string()]);
    command.arg(format!("http://{address}/"));
    let measured = parse(&output(command)?)?;
    ensure!(
        measured.requests == u64::from(requests),
        "{} of {requests} answered",
        measured.requests
    );
    Ok(())
}

pub(super) fn parse(text: &str) -> anyhow::Result<Measured> {
    let line = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start));
    let finished = line("finished in ").context("h2load did not finish")?;
    let per_second = finished
        .split(',')
        .nth(1)
        .and_then(|part| part.trim().strip_suffix(" req/s")?.parse().ok());
    let counts = line("status codes:").context("h2load did not count status codes")?;
    let good = counts
        .split(',')
        .find_map(|part| part.trim().strip_suffix(" 2xx")?.parse().ok())
        .unwrap_or(0);
    let requests = line("requests:").context("h2load did not count requests")?;
    let failed = |word: &str| {
        requests
            .split(',')
            .find_map(|part| part.trim().strip_suffix(word)?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let done = failed(" done");
    // "time for request:  min  max  mean  sd  +/- sd"
    let mean = line("time for request:")
        .and_then(|rest| rest.split_whitespace().nth(2))
        .and_then(wrk::microseconds);
    Ok(Measured {
        requests: good,
        failed: failed(" errored") + done.saturating_sub(good),
        per_second: per_second.context("h2load did not say its rate")?,
        p50_us: mean,
        ..Measured::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_h2load_is_understood() {
        let text = "starting benchmark...\nfinished in 2.00s, 41234.50 req/s, 41.90MB/s\n\
                    requests: 82469 total, 82725 started, 82469 done, 82460 succeeded, 9 failed, 3 errored, 0 timeout\n\
                    status codes: 82460 2xx, 0 3xx, 0 4xx, 9 5xx\ntraffic: 83.80MB (87871824) total\n\
                    \x20                    min         max         mean         sd        +/- sd\n\
                    time for request:      301us     21.15ms      6.20ms      1.50ms    70.27%\n";
        let measured = parse(text).unwrap();
        assert_eq!((measured.requests, measured.failed), (82_460, 12));
        assert_eq!(measured.per_second.to_string(), "41234.5");
        assert_eq!(measured.p50_us, Some(6_200.0));
    }
}
