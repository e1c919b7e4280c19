//! The proxy as a process: workers carry traffic on their own threads, everything else (discovery, balancer ticks, admin
//! server, signals) runs on this one.

mod source;

use crate::admin;
use crate::cli::RunArguments;
use crate::discovery::{self, ListenerSpec};
use crate::drain::Signal;
use crate::worker::{Cut, Workers};
use anyhow::{Context as _, anyhow};
use kit::admin::Readiness;
use kit::metrics::{Build, Metrics};
use kit::shutdown::Signals;
use source::{Source, Started};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How often it is checked whether the workers have ended.
const CHECK: Duration = Duration::from_millis(20);

/// Why the process ends other than by being asked to.
#[derive(Debug)]
pub enum Failure {
    /// It was told something wrong: by flags, the environment or the topology.
    Told(anyhow::Error),
    /// Something failed although all it was told was right.
    Ran(anyhow::Error),
}

/// Runs the proxy until it is asked to end and has drained.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    kit::log::init(&arguments.log_level, arguments.log_format)
        .map_err(|error| Failure::Told(error.into()))?;
    let source = Source::open(arguments).map_err(|error| Failure::Told(error.into()))?;
    let build = Build { program: "proxy", version: env!("CARGO_PKG_VERSION") };
    let metrics = Metrics::install(build).map_err(|error| Failure::Ran(error.into()))?;
    crate::metrics::describe();
    discovery::metrics::describe();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime").map_err(Failure::Ran)?;
    runtime.block_on(process(arguments, source, metrics)).map_err(Failure::Ran)
}

async fn process(arguments: &RunArguments, source: Source, metrics: Metrics) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("cannot listen to signals")?;
    let mut started = source.start(arguments);
    let registry = Arc::clone(&started.registry);

    let readiness = Readiness::waiting("starting");
    let listener = TcpListener::bind(arguments.admin).await.with_context(|| {
        format!("cannot listen on {} (--admin): is another proxy running?", arguments.admin)
    })?;
    tracing::info!(address = %listener.local_addr()?, "admin server listens");
    tokio::spawn(metrics.clone().upkeep());
    let shown = admin::Shown { registry: Arc::clone(&registry), status: started.status.clone() };
    tokio::spawn(admin::server(shown, &readiness, metrics).serve(listener));

    let drain = Signal::default();
    let limits = arguments.limits();
    let workers = Workers::start_with(
        arguments.worker_count(),
        &registry,
        &started.listeners,
        &drain,
        &limits,
    )?;
    let overload = Arc::clone(&limits.overload);
    tokio::spawn(async move { overload.watch().await });
    announce(&started, &workers);
    tokio::spawn(async move { registry.tick().await });

    let running = async {
        started.ready().await;
        readiness.ready();
        ended(&workers).await;
    };
    tokio::select! {
        signal = signals.next() => tracing::info!(signal, grace = %humantime::format_duration(arguments.grace), "draining"),
        () = running => return Err(anyhow!("all workers ended: see the log for their panics")),
    }
    readiness.not_ready("draining");
    drain.start(arguments.grace);
    tokio::select! {
        signal = signals.next() => tracing::warn!(signal, "second signal: what is in flight is given up"),
        () = ended(&workers) => match workers.join() {
            Cut { requests: 0, connections: 0 } => tracing::info!("drained"),
            Cut { requests, connections } => {
                let grace = humantime::format_duration(arguments.grace);
                tracing::warn!(requests, connections, %grace, "the grace period is over: what was still under way was cut");
            }
        },
    }
    Ok(())
}

fn announce(started: &Started, workers: &Workers) {
    let place = started.registry.place();
    let known = |name: &Option<Arc<str>>| name.as_deref().unwrap_or("unknown").to_owned();
    tracing::info!(
        zone = known(&place.zone),
        region = known(&place.region),
        "tidegate-proxy started"
    );
    if place.zone.is_none() && started.status.is_none() {
        tracing::warn!(
            "this proxy's zone is not known: all zones are treated alike (set [proxy] zone or TIDEGATE_ZONE)"
        );
    }
    for (ListenerSpec { kind, .. }, address) in started.listeners.iter().zip(&workers.addresses) {
        tracing::info!(%address, %kind, "listening");
    }
}

async fn ended(workers: &Workers) {
    while !workers.finished() {
        tokio::time::sleep(CHECK).await;
    }
}
