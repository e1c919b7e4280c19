//! The proxy as a process: workers carry traffic on their own threads, everything else (discovery, balancer ticks, admin
//! server, signals) runs on this one.

use crate::admin;
use crate::cli::RunArguments;
use crate::clock::Clock;
use crate::discovery::metrics::DiscoveryMetrics;
use crate::discovery::watch::{self, TopologyFile};
use crate::discovery::{self, ListenerSpec, Place, World};
use crate::drain::Signal;
use crate::registry::Registry;
use crate::worker::Workers;
use anyhow::{Context as _, anyhow};
use kit::admin::Readiness;
use kit::metrics::{Build, Metrics};
use kit::shutdown::Signals;
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
    let path =
        arguments.topology.as_deref().ok_or_else(|| Failure::Told(anyhow!("no --topology")))?;
    let (file, world) =
        TopologyFile::open(path, place(arguments)).map_err(|error| Failure::Told(error.into()))?;
    let build = Build { program: "proxy", version: env!("CARGO_PKG_VERSION") };
    let metrics = Metrics::install(build).map_err(|error| Failure::Ran(error.into()))?;
    crate::metrics::describe();
    discovery::metrics::describe();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime").map_err(Failure::Ran)?;
    runtime.block_on(process(arguments, file, world, metrics)).map_err(Failure::Ran)
}

fn place(arguments: &RunArguments) -> Place {
    // An empty variable is how manifests leave a value out.
    let read =
        |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(Arc::from);
    Place {
        zone: read(&arguments.zone),
        region: read(&arguments.region),
        node: read(&arguments.node),
    }
}

async fn process(
    arguments: &RunArguments,
    file: TopologyFile,
    world: World,
    metrics: Metrics,
) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("cannot listen to signals")?;
    let registry =
        Arc::new(Registry::new(Clock::start()).with_opaque_ports(arguments.opaque_ports.clone()));
    registry.apply(&world);

    let readiness = Readiness::waiting("starting");
    let listener = TcpListener::bind(arguments.admin).await.with_context(|| {
        format!("cannot listen on {} (--admin): is another proxy running?", arguments.admin)
    })?;
    tracing::info!(address = %listener.local_addr()?, "admin server listens");
    tokio::spawn(metrics.clone().upkeep());
    tokio::spawn(admin::server(&registry, &readiness, metrics).serve(listener));

    let drain = Signal::default();
    let limits = arguments.limits();
    let workers = Workers::start_with(
        arguments.worker_count(),
        &registry,
        &world.listeners,
        &drain,
        &limits,
    )?;
    let overload = Arc::clone(&limits.overload);
    tokio::spawn(async move { overload.watch().await });
    announce(&world, &workers);
    let ticked = Arc::clone(&registry);
    tokio::spawn(async move { ticked.tick().await });
    tokio::spawn(watch::watch(file, DiscoveryMetrics::default(), move |changed| {
        registry.apply(changed);
        if changed.listeners != world.listeners {
            tracing::warn!(
                "the topology's listeners changed: restart the proxy for that to take effect"
            );
        }
    }));
    readiness.ready();

    tokio::select! {
        signal = signals.next() => tracing::info!(signal, grace = ?arguments.grace, "draining"),
        () = ended(&workers) => return Err(anyhow!("all workers ended: see the log for their panics")),
    }
    readiness.not_ready("draining");
    drain.start(arguments.grace);
    tokio::select! {
        signal = signals.next() => tracing::warn!(signal, "second signal: what is in flight is given up"),
        () = ended(&workers) => {
            workers.join();
            tracing::info!("drained");
        }
    }
    Ok(())
}

fn announce(world: &World, workers: &Workers) {
    let place = &world.place;
    tracing::info!(zone = ?place.zone, region = ?place.region, services = world.services.len(), "tidegate-proxy started");
    if place.zone.is_none() {
        tracing::warn!(
            "this proxy's zone is not known: all zones are treated alike (set [proxy] zone or TIDEGATE_ZONE)"
        );
    }
    for (ListenerSpec { kind, .. }, address) in world.listeners.iter().zip(&workers.addresses) {
        tracing::info!(%address, ?kind, "listening");
    }
}

async fn ended(workers: &Workers) {
    while !workers.finished() {
        tokio::time::sleep(CHECK).await;
    }
}
