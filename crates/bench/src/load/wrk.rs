//! wrk, one thread.

use super::{Measured, output};
use anyhow::Context as _;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

pub(super) fn command(address: SocketAddr, path: &str, connections: u32, seconds: u32) -> Command {
    let mut command = Command::new("wrk");
    command.args([
        "-t",
        "1",
        "-c",
        &connections.to_string(),
        "-d",
        &format!("{seconds}s"),
        // An answer that takes longer than wrk's own 2 s, as with thousands of connections, is slow and no failure.
        "--timeout",
        "10s",
        "--latency",
    ]);
    command.arg(format!("http://{address}{path}"));
    command
}

/// Each request asks for the next service.
pub(super) fn over_services(
    address: SocketAddr,
    connections: u32,
    services: u32,
    seconds: u32,
) -> anyhow::Result<String> {
    let script = std::env::temp_dir().join(format!("bench-{}-services.lua", std::process::id()));
    let text = format!(
        "local n = 0\nrequest = function()\n  n = (n + 1) % {services}\n  wrk.headers[\"Host\"] = \"s\" .. n\n  return wrk.format()\nend\n"
    );
    fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
    let mut command = command(address, "/", connections, seconds);
    command.arg("-s").arg(&script);
    let text = output(command);
    fs::remove_file(&script).with_context(|| format!("cannot remove {}", script.display()))?;
    text
}

pub(super) fn parse(text: &str) -> anyhow::Result<Measured> {
    let word_after = |start: &str| {
        text.lines()
            .map(str::trim)
            .find_map(|line| line.strip_prefix(start))
            .and_then(|rest| rest.split_whitespace().next())
    };
    let requests =
        text.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let requests: u64 =
        requests.with_context(|| format!("wrk did not say how many requests: {text}"))?;
    let per_second = word_after("Requests/sec:")
        .and_then(|word| word.parse().ok())
        .context("wrk did not say its rate")?;
    let failed =
        word_after("Non-2xx or 3xx responses:").and_then(|word| word.parse().ok()).unwrap_or(0)
            + socket_errors(text);
    Ok(Measured {
        requests: requests.saturating_sub(failed),
        failed,
        per_second,
        p50_us: word_after("50%").and_then(microseconds),
        p90_us: word_after("90%").and_then(microseconds),
        p99_us: word_after("99%").and_then(microseconds),
        p999_us: None,
    })
}

/// `Socket errors: connect 0, read 1, write 0, timeout 2`.
fn socket_errors(text: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Socket errors:"))
        .unwrap_or_default();
    line.split(',').filter_map(|part| part.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

/// `1.23ms`, `450.00us`, `2.01s`.
pub(super) fn microseconds(word: &str) -> Option<f64> {
    let (number, factor) = match word {
        _ if word.ends_with("us") => (word.strip_suffix("us")?, 1.0),
        _ if word.ends_with("ms") => (word.strip_suffix("ms")?, 1e3),
        _ => (word.strip_suffix('s')?, 1e6),
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_wrk_is_understood() {
        let text = "Running 4s test @ http://127.0.0.1:1/\n  1 threads and 16 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    \
                    Latency   512.00us    1.20ms  20.00ms   97.00%\n  Latency Distribution\n     50%  400.00us\n     75%  500.00us\n     90%    0.60ms\n     \
                    99%    1.50s \n  120000 requests in 4.00s, 130.00MB read\n  Socket errors: connect 0, read 1, write 0, timeout 2\n  \
                    Non-2xx or 3xx responses: 7\nRequests/sec:  30000.25\n";
        let measured = parse(text).unwrap();
        assert_eq!(measured.requests, 119_990);
        assert_eq!(measured.failed, 10);
        assert_eq!(measured.per_second.to_string(), "30000.25");
        assert_eq!(
            (measured.p50_us, measured.p90_us, measured.p99_us),
            (Some(400.0), Some(600.0), Some(1_500_000.0))
        );
    }

    #[test]
    fn a_text_without_figures_is_an_error() {
        assert!(parse("unable to connect").unwrap_err().to_string().contains("how many requests"));
    }
}
