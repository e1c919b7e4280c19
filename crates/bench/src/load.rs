//! The load generators and what they say at their end.

pub(crate) mod h2load;
mod oha;
mod wrk;

pub(crate) use oha::run as run_oha;

use crate::arguments::ProxyOptions;
use anyhow::{Context as _, bail};
use std::net::SocketAddr;
use std::process::Command;

/// A load, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// wrk: HTTP/1.1 keep-alive, as fast as answers come.
    Http1 { connections: u32 },
    /// wrk, each answer [`LARGE`](crate::server::LARGE).
    Bulk { connections: u32 },
    /// h2load: HTTP/2, as fast as answers come.
    Http2 { connections: u32, streams: u32 },
    /// h2load with a gRPC message.
    Grpc { connections: u32, streams: u32 },
    /// oha at a fixed rate; a late answer counts from when it should have been asked for.
    Fixed { rate: u32 },
    /// wrk over services named `s0`, `s1` and so on, in turn.
    Services { connections: u32, services: u32 },
}

/// What a load generator measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    /// Requests answered with success.
    pub(crate) requests: u64,
    /// Requests that failed or were answered with another status than 2xx.
    pub(crate) failed: u64,
    /// Answered requests a second.
    pub(crate) per_second: f64,
    /// Latency quantiles in microseconds: 50, 90, 99 and 99.9 %, as far as the generator tells them.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p90_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
}

impl Load {
    /// Sends it to `address` for `seconds`.
    pub(crate) fn run(
        self,
        _options: &ProxyOptions,
        address: SocketAddr,
        seconds: u32,
    ) -> anyhow::Result<Measured> {
        match self {
            Self::Http1 { connections } => {
                wrk::parse(&output(wrk::command(address, "/", connections, seconds))?)
            }
            Self::Bulk { connections } => {
                wrk::parse(&output(wrk::command(address, "/large", connections, seconds))?)
            }
            Self::Services { connections, services } => {
                wrk::parse(&wrk::over_services(address, connections, services, seconds)?)
            }
            Self::Http2 { connections, streams } => {
                h2load::measure(address, connections, streams, seconds, None)
            }
            Self::Grpc { connections, streams } => {
                h2load::measure(address, connections, streams, seconds, Some(h2load::GRPC_MESSAGE))
            }
            Self::Fixed { rate } => oha::parse(&output(oha::command(address, rate, seconds)?)?),
        }
    }
}

/// Runs a program to its end and returns what it printed.
fn output(mut command: Command) -> anyhow::Result<String> {
    let name = command.get_program().to_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {}: is it installed?", name.display()))?;
    if !output.status.success() {
        bail!(
            "{} ended with {}: {}",
            name.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
