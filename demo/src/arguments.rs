//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::BackendArguments;
use crate::fault::Fault;
use crate::load::LoadArguments;
use crate::policy::Policy;
use crate::priority::OwnSession;

/// Three zones on one machine; one fails and heals, under several locality policies at once.
///
/// Starts 9 backends, 3 proxies for each policy and an oha load for each of these, all as processes on loopback;
/// shows what happens, and writes report.html and report.json. The exit status is 0 only when every figure promised
/// for the fault was reached, 1 when one was missed, 2 when the demo could not run.
#[derive(Debug, clap::Parser)]
#[command(name = "demo", version, args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) run: RunArguments,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER_HELP: &str = "\
The demo's processes get sessions of their own, and go before others (nice -10) where root or CAP_SYS_NICE allows it, so that
other work on the machine does not show in the figures.

Faults of zone a (all three of its backends):
  fast        every request fails with 503 after 1 ms
  slow        every request fails with 503 after 500 ms
  hang        requests are accepted and never answered
  latency     answers take 400 ms longer
  partial:P   P % of the requests fail with 503 after 1 ms (P from 25 to 75)
  crash       the backends are killed
  zone-down   the backends are killed, and removed from discovery 1.5 s later

Policies:
  pinned      mode Pinned, tiers [zone]: strict zone pinning
  adaptive    Tidegate's default
  p2c         mode Off: power of two choices over all zones
  hazl        mode Adaptive with load signal Outstanding, band 0.8 to 2.0";

/// What `demo` does besides running the demo.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// One scripted server, for use alone: HTTP/1.1 and HTTP/2, switched over HTTP while it runs
    #[command(after_help = BACKEND_HELP)]
    Backend(BackendArguments),
    /// oha, built in: its arguments stand after --, as in `demo load -- -z 10s -q 100 http://127.0.0.1:PORT/`
    Load(LoadArguments),
    /// A program in a session of its own (used by the demo itself)
    #[command(hide = true)]
    OwnSession(OwnSession),
}

const BACKEND_HELP: &str = "\
While it runs:
  curl 127.0.0.1:PORT/_control                                    what it does and has counted
  curl -X POST '127.0.0.1:PORT/_control?fail-percent=100&fail-after=500ms'
  curl -X POST '127.0.0.1:PORT/_control?hang'                     (hang=false ends it)
  curl -X POST '127.0.0.1:PORT/_control?reset'                    back to how it was started
  curl -X POST '127.0.0.1:PORT/_control?crash'                    ends the process
Keys are the flags above: latency, add-latency, fail-percent, fail-after, fail-status, hang, body-bytes.";

/// Arguments of a demo run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArguments {
    /// What happens to zone a
    #[arg(long, default_value = "fast", value_name = "FAULT")]
    pub(crate) fault: Fault,
    /// Policies to run at the same time against the same backends
    #[arg(
        long,
        default_value = "pinned,adaptive",
        value_name = "POLICY,..",
        value_delimiter = ','
    )]
    pub(crate) policy: Vec<Policy>,
    /// A first look: 20 s warm-up and baseline, 20 s fault, 35 s recovery (instead of 30, 60 and 40 s)
    #[arg(long)]
    pub(crate) quick: bool,
    /// Plain lines instead of the live view; always so when standard output is no terminal
    #[arg(long)]
    pub(crate) plain: bool,
    /// Folder for report.html, report.json, logs and topology files
    #[arg(long, default_value_os_t = report_folder(), value_name = "DIR")]
    pub(crate) report: PathBuf,
    /// Keep everything running afterwards, load included, for this long at most; Ctrl-C ends it
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "15m",
        value_parser = hold_time
    )]
    pub(crate) hold: Option<Duration>,
    /// Requests a second of each load (one load for each zone and policy)
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2000))]
    pub(crate) rate: u32,
    /// Connections of each load; a hanging zone takes rate × 2 s (the loads' timeout) of them
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub(crate) connections: u32,
    /// Time that a healthy backend takes: 20ms, 10ms..30ms, exp:20ms or lognormal:20ms:0.8
    #[arg(long, default_value = "20ms")]
    pub(crate) latency: crate::backend::Latency,
    /// The proxy's binary [default: tidegate-proxy beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) proxy: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) network: Network,
    /// An oha binary to use instead of the built-in one
    #[arg(long, value_name = "PATH")]
    pub(crate) oha: Option<PathBuf>,
}

/// Where a run's processes are.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Network {
    /// Backends and callers as pods, in network namespaces, with redirected connections instead of local listeners. Needs
    /// root
    #[arg(long)]
    pub(crate) namespaces: bool,
    /// The network of --namespaces is there already
    #[arg(long, hide = true, requires = "namespaces")]
    pub(crate) network_ready: bool,
}

/// The report's folder, wherever the demo is started from: in cargo's target folder, if this program lies there.
fn report_folder() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let is_target = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file();
    program.ancestors().find(is_target).unwrap_or_else(|| Path::new("target")).join("demo")
}

/// `--hold` is bounded, since it keeps two cores busy.
const HOLD_MAX: Duration = Duration::from_hours(2);

fn hold_time(given: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(given).map_err(|error| error.to_string())?;
    if time.is_zero() || time > HOLD_MAX {
        return Err(format!("from 1s to {}", humantime::format_duration(HOLD_MAX)));
    }
    Ok(time)
}

impl RunArguments {
    /// The policies in the order of tables and charts, each once.
    pub(crate) fn policies(&self) -> Vec<Policy> {
        let mut policies = self.policy.clone();
        policies.sort_unstable();
        policies.dedup();
        policies
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::*;

    fn parse(arguments: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("demo").chain(arguments.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn defaults_are_the_default_demo() {
        let run = parse("").unwrap().run;
        assert_eq!(
            (run.fault, run.policies()),
            (Fault::Fast, vec![Policy::Pinned, Policy::Adaptive])
        );
        assert_eq!((run.rate, run.connections, run.hold), (100, 400, None));
        assert_eq!(run.latency.to_string(), "20ms");
        assert!(run.report.is_absolute() && run.report.ends_with("demo"), "{:?}", run.report);
    }

    #[test]
    fn policies_come_once_and_in_order() {
        let run = parse("--policy hazl,adaptive,hazl,pinned").unwrap().run;
        assert_eq!(run.policies(), [Policy::Pinned, Policy::Adaptive, Policy::Hazl]);
    }

    #[test]
    fn hold_takes_a_bounded_time() {
        assert_eq!(parse("--hold").unwrap().run.hold, Some(Duration::from_mins(15)));
        assert_eq!(parse("--hold=30s").unwrap().run.hold, Some(Duration::from_secs(30)));
        assert_eq!(parse("--hold --quick").unwrap().run.hold, Some(Duration::from_mins(15)));
    }

    #[test]
    fn mistakes_say_what_would_do() {
        let check = |arguments: &str, wanted: &str| {
            let error = parse(arguments).unwrap_err().to_string();
            assert!(error.contains(wanted), "{arguments}: {error}");
        };
        check("--fault fats", "zone-down");
        check("--fault partial:90", "25 to 75");
        check("--policy pinned,adptive", "p2c and hazl");
        check("--hold=3h", "2h");
        check("--rate 0", "1..=2000");
        check("--latency fast", "lognormal");
        check("backend --fail-percent 101", "0..=100");
        check("backend --listen nowhere", "--listen");
        check("--quick backend", "cannot be used");
    }

    #[test]
    fn a_backend_is_usable_alone() {
        let Some(Command::Backend(backend)) =
            parse("backend --listen 127.0.0.1:9001 --zone a --latency 5ms --hang").unwrap().command
        else {
            panic!("another command");
        };
        assert_eq!(
            (backend.listen.port(), backend.zone.as_str(), backend.behaviour.hang),
            (9001, "a", true)
        );
    }
}
