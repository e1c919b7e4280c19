//! oha as a library, in a process of its own, at a fixed rate with latency correction.

use super::Measured;
use anyhow::Context as _;
use clap::Parser as _;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::Command;

/// Connections of a fixed-rate load: more than it ever needs at once.
const CONNECTIONS: u32 = 64;

pub(super) fn command(address: SocketAddr, rate: u32, seconds: u32) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([
        "oha",
        "--no-tui",
        "--disable-compression",
        "--latency-correction",
        "--output-format",
        "json",
        "-w",
    ]);
    command.args([
        "-q",
        &rate.to_string(),
        "-c",
        &CONNECTIONS.to_string(),
        "-z",
        &format!("{seconds}s"),
    ]);
    command.arg(format!("http://{address}/"));
    Ok(command)
}

/// Runs oha in this process with `arguments`, until it ends.
pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    let options =
        oha::Opts::try_parse_from(std::iter::once(&OsString::from("oha")).chain(arguments))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(oha::run(options)).context("oha failed")
}

pub(super) fn parse(text: &str) -> anyhow::Result<Measured> {
    let report: serde_json::Value = serde_json::from_str(text).context("oha did not print JSON")?;
    let microseconds = |name: &str| {
        report
            .pointer(&format!("/latencyPercentiles/{name}"))
            .and_then(serde_json::Value::as_f64)
            .map(|seconds| seconds * 1e6)
    };
    let counts = report
        .pointer("/statusCodeDistribution")
        .and_then(serde_json::Value::as_object)
        .context("oha did not count status codes")?;
    let count = |good: bool| {
        let chosen = counts.iter().filter(|(status, _)| status.starts_with('2') == good);
        chosen.filter_map(|(_, count)| count.as_u64()).sum::<u64>()
    };
    let errors = report.pointer("/errorDistribution").and_then(serde_json::Value::as_object);
    // Requests that the end of the time cut off are no errors of anybody.
    let errors = errors.map_or(0, |errors| {
        errors
            .iter()
            .filter(|(what, _)| !what.contains("deadline"))
            .filter_map(|(_, count)| count.as_u64())
            .sum()
    });
    Ok(Measured {
        requests: count(true),
        failed: count(false) + errors,
        per_second: report
            .pointer("/summary/requestsPerSec")
            .and_then(serde_json::Value::as_f64)
            .context("oha did not say its rate")?,
        p50_us: microseconds("p50"),
        p90_us: microseconds("p90"),
        p99_us: microseconds("p99"),
        p999_us: microseconds("p99.9"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_oha_is_understood() {
        let text = r#"{"summary": {"requestsPerSec": 999.5}, "latencyPercentiles": {"p50": 0.0005, "p90": 0.001, "p99": 0.002, "p99.9": 0.01},
            "statusCodeDistribution": {"200": 3990, "503": 2}, "errorDistribution": {"aborted due to deadline": 3, "connection refused": 1}}"#;
        let measured = parse(text).unwrap();
        assert_eq!((measured.requests, measured.failed), (3990, 3));
        assert_eq!(measured.p99_us, Some(2000.0));
        assert_eq!(measured.p999_us, Some(10_000.0));
    }
}
