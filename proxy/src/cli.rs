//! The command line. Every flag is an environment variable too; nothing else of the environment is read.

use crate::discovery::controller::Pod;
use crate::discovery::controller::connect::Address;
use crate::overload::Overload;
use crate::port_list::PortList;
use crate::redirect::{self, RedirectArguments};
use crate::run::{self, Failure};
use crate::worker::Limits;
use crate::worker::roster::Patience;
use crate::{why, worker};
use api::names::{env, port};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Zone-aware sidecar proxy: keeps requests inside their zone while the zone is healthy and not overloaded, and opens the
/// gate to other zones as far and as long as that buys success or latency.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate-proxy",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

/// What else the program does.
#[derive(Debug, Subcommand)]
enum Command {
    /// Explain where the running proxy sends the requests for a service, and why
    Why(WhyArguments),
    /// Set the kernel's rules that bring a pod's TCP to the proxy, check them or remove them
    Redirect(Box<RedirectArguments>),
}

/// Running the proxy.
#[derive(Clone, Debug, Args)]
pub struct RunArguments {
    /// Topology file: this proxy's place, its listeners, and the services with their endpoints and policies. It is read
    /// again whenever it changes; a file with mistakes leaves the last good one in force
    #[arg(long, env = env::TOPOLOGY, value_name = "FILE", required_unless_present = "controller")]
    pub topology: Option<PathBuf>,

    /// Controller that is asked for services, endpoints, zones and policies, in place of a topology file: https://HOST:PORT,
    /// or http:// where the network is trusted, several with commas, the preferred first. All addresses of a name are
    /// replicas. While all are away, what is known stays in force, and what is not known is passed on unbalanced
    #[arg(long, env = env::CONTROLLER, value_name = "URL", value_delimiter = ',', conflicts_with = "topology")]
    pub controller: Vec<Address>,

    /// Certificate authority of the controller: PEM, or a file of it that is read again for each connection
    #[arg(long, env = env::CONTROLLER_CA, value_name = "PEM", hide_env_values = true)]
    pub controller_ca: Option<String>,

    /// File with the token that proves to the controller which pod this is; read again for each connection, and never sent
    /// in plain text to another machine
    #[arg(long, env = env::CONTROLLER_TOKEN, value_name = "FILE")]
    pub controller_token: Option<PathBuf>,

    /// Pod that this proxy belongs to, for a controller that trusts it without a token
    #[arg(long, env = env::POD, value_name = "NAMESPACE/NAME")]
    pub pod: Option<Pod>,

    /// Addresses to which the application's calls are brought, where a controller says what there is
    #[arg(long, env = env::OUTBOUND, value_name = "ADDRESS", value_delimiter = ',', default_values_t = default_outbound())]
    pub outbound: Vec<SocketAddr>,

    /// Addresses to which calls to the application are brought, where a controller says what there is
    #[arg(long, env = env::INBOUND, value_name = "ADDRESS", value_delimiter = ',', default_values_t = default_inbound())]
    pub inbound: Vec<SocketAddr>,

    /// The application is a gateway, which dials pods: its calls are routed by `Host`, and go to the pod where that is no
    /// service's
    #[arg(long, env = env::INGRESS)]
    pub ingress: bool,

    /// Zone that this proxy stands in; goes before what the topology or the controller says
    #[arg(long, env = env::ZONE)]
    pub zone: Option<String>,

    /// Region that this proxy stands in; goes before what the topology or the controller says
    #[arg(long, env = env::REGION)]
    pub region: Option<String>,

    /// Node that this proxy stands on; goes before what the topology or the controller says
    #[arg(long, env = env::NODE)]
    pub node: Option<String>,

    /// Address of the admin server: /live, /ready, /metrics, /debug/services
    #[arg(long, env = env::ADMIN, value_name = "ADDRESS", default_value_t = default_admin())]
    pub admin: SocketAddr,

    /// Threads that carry traffic [default: as many as processors may be used]
    #[arg(long, env = env::WORKERS, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: Option<u16>,

    /// Which log lines appear: error, warn, info, debug or trace, or pairs such as info,proxy=debug
    #[arg(long, env = env::LOG_LEVEL, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,

    /// How log lines look: text or json
    #[arg(long, env = env::LOG_FORMAT, value_name = "FORMAT", default_value = "text")]
    pub log_format: kit::log::Format,

    /// Destination ports and ranges whose connections are balanced as they are, without a look at their bytes, where the
    /// service does not say what it speaks: protocols in which the server speaks first
    #[arg(long, env = env::OPAQUE_PORTS, value_name = "LIST", default_value_t = PortList::server_first())]
    pub opaque_ports: PortList,

    /// Connections that callers may have open at the same time; further ones are answered by 503 and closed [default: what
    /// file descriptors and the memory limit allow]
    #[arg(long, env = env::CONNECTIONS_MAX, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,

    /// How long a caller may take to send a request's header
    #[arg(long, env = env::HEADER_TIMEOUT, value_name = "DURATION", default_value = "10s", value_parser = some_time)]
    pub header_timeout: Duration,

    /// How long a caller's connection is kept without a request
    #[arg(long, env = env::IDLE_TIMEOUT, value_name = "DURATION", default_value = "2m", value_parser = some_time)]
    pub idle_timeout: Duration,

    /// How long an HTTP/1 caller may stand still in the middle of a body that is waited for, and any caller in reading an
    /// answer
    #[arg(long, env = env::STALL_TIMEOUT, value_name = "DURATION", default_value = "5m", value_parser = some_time)]
    pub stall_timeout: Duration,

    /// How long after SIGTERM or SIGINT callers are served that go on calling; without them it ends sooner, at a second signal at
    /// once
    #[arg(long, env = env::GRACE, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub grace: Duration,
}

impl RunArguments {
    /// What bounds callers.
    pub(crate) fn limits(&self) -> Limits {
        let connections_max =
            self.max_connections.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Limits {
            patience: Patience {
                idle: self.idle_timeout,
                header: self.header_timeout,
                stall: self.stall_timeout,
            },
            overload: Arc::new(Overload::of_this_process(connections_max)),
        }
    }

    /// The number of workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.workers.map_or_else(worker::default_count, usize::from)
    }
}

/// Asking a running proxy.
#[derive(Clone, Debug, Args)]
pub struct WhyArguments {
    /// Name of the service
    pub service: String,

    /// Address of the proxy's admin server
    #[arg(long, env = env::ADMIN, value_name = "ADDRESS", default_value_t = default_admin())]
    pub admin: SocketAddr,

    /// Print JSON, as /debug/services has it
    #[arg(long)]
    pub json: bool,
}

/// A limit of no time at all would end every connection before its first byte.
fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if time.is_zero() => Err("must be more than 0".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

fn default_admin() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port::ADMIN))
}

fn default_outbound() -> Vec<SocketAddr> {
    // The kernel brings the calls of each family to its own loopback address.
    vec![
        SocketAddr::from((Ipv4Addr::LOCALHOST, port::OUTBOUND)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port::OUTBOUND)),
    ]
}

fn default_inbound() -> Vec<SocketAddr> {
    // The kernel brings the calls to the address of the interface that they come by.
    vec![
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port::INBOUND)),
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port::INBOUND)),
    ]
}

/// The whole program: reads the command line, does what it says and returns the exit status. 0: done; 1: failed; 2: told
/// something wrong, by the command line or the topology.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version are no failures and go to standard output; clap knows.
        Err(asked) => return shown(asked.print(), u8::try_from(asked.exit_code()).unwrap_or(2)),
    };
    match cli.command {
        None => match run::run(&cli.run) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure::Told(error)) => complain(&format!("{error:#}"), 2),
            Err(Failure::Ran(error)) => complain(&format!("{error:#}"), 1),
        },
        Some(Command::Why(arguments)) => match why::ask(&arguments) {
            Ok(text) => shown(io::stdout().write_all(text.as_bytes()), 0),
            Err(error) => complain(&error.to_string(), 1),
        },
        Some(Command::Redirect(arguments)) => match redirect::run(&arguments) {
            Ok(text) => shown(io::stdout().write_all(text.as_bytes()), 0),
            Err(error) => complain(&format!("{error:#}"), 1),
        },
    }
}

/// The command line as data: documentation is made from it.
pub fn command() -> clap::Command {
    Cli::command()
}

fn complain(text: &str, status: u8) -> ExitCode {
    shown(writeln!(io::stderr(), "tidegate-proxy: {text}"), status)
}

/// A reader that went away (`tidegate-proxy why x | head -1`) is no failure; any other lost output is.
fn shown(written: io::Result<()>, status: u8) -> ExitCode {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::from(status),
    }
}
