//! The command line.

use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Measures the proxy beside its peers.
#[derive(Debug, Parser)]
#[command(name = "bench", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// CPU per request, requests per second, latency and memory beside Envoy, HAProxy and nginx.
    Proxy(ProxyOptions),
    /// The origin that all proxies forward to.
    #[command(hide = true)]
    Origin(OriginOptions),
    /// A bare hyper proxy: round robin, a pool of its own, nothing else.
    #[command(hide = true)]
    Hyper(ForwardOptions),
    /// oha as a library.
    #[command(hide = true)]
    Oha(OhaOptions),
    /// A byte-copying relay: the limit of the runtime.
    #[command(hide = true)]
    Relay(ForwardOptions),
}

#[derive(Debug, Args)]
pub(crate) struct ProxyOptions {
    /// Fewer and shorter rounds, at most 5 minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Rounds; medians are taken over them [default: 3, with --quick 1].
    #[arg(long)]
    pub(crate) rounds: Option<u32>,
    /// Seconds of load in each measurement [default: 4, with --quick 2].
    #[arg(long)]
    pub(crate) seconds: Option<u32>,
    /// Only work whose name contains this.
    #[arg(long)]
    pub(crate) work: Option<String>,
    /// Only these peers, by name.
    #[arg(long, value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Writes all rows as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Replaces the table between its markers in this Markdown file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// The proxy under test.
    #[arg(long, env = "TIDEGATE_PROXY", default_value = "target/release/tidegate-proxy")]
    pub(crate) tidegate: PathBuf,
    /// The Envoy binary.
    #[arg(long, env = "TIDEGATE_ENVOY", default_value = "envoy")]
    pub(crate) envoy: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct OriginOptions {
    /// Where to listen; may be given more than once.
    #[arg(long, required = true)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Bytes of each response body.
    #[arg(long, default_value_t = 1024)]
    pub(crate) body: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ForwardOptions {
    /// Where to listen.
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    /// Where to forward to, in turn; may be given more than once.
    #[arg(long, required = true)]
    pub(crate) upstream: Vec<SocketAddr>,
    /// Speak HTTP/2 to the upstream.
    #[arg(long)]
    pub(crate) http2: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OhaOptions {
    /// Passed to oha.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}
