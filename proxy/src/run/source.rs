//! Where services come from: a topology file, or a controller.

use crate::cli::RunArguments;
use crate::clock::Clock;
use crate::discovery::controller::Follower;
use crate::discovery::controller::connect::{Authority, Controller};
use crate::discovery::controller::status::Status;
use crate::discovery::metrics::DiscoveryMetrics;
use crate::discovery::watch::{self, LoadError, TopologyFile};
use crate::discovery::{ListenerKind, ListenerSpec, Place, World};
use crate::registry::Registry;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// A proxy is ready by then, whatever the controller does: applications wait for it, and calls that nobody says anything
/// about are passed on.
const READY: Duration = Duration::from_secs(3);

/// Where services come from, before anything runs.
#[derive(Debug)]
pub(super) enum Source {
    Topology(Box<TopologyFile>, World),
    Controller(Box<Controller>),
}

/// What has begun to run.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) registry: Arc<Registry>,
    pub(super) listeners: Vec<ListenerSpec>,
    /// How it stands with the controller, if there is one.
    pub(super) status: Option<Arc<Status>>,
    tried: Option<Receiver<bool>>,
}

impl Source {
    /// What the arguments name.
    pub(super) fn open(arguments: &RunArguments) -> Result<Self, LoadError> {
        if !arguments.controller.is_empty() {
            let controller = Controller {
                addresses: arguments.controller.clone(),
                authority: given(arguments.controller_ca.as_deref()).map(Authority::read),
                token: arguments.controller_token.clone(),
            };
            return Ok(Self::Controller(Box::new(controller)));
        }
        let path = arguments.topology.as_deref().unwrap_or_else(|| Path::new(""));
        let (file, world) = TopologyFile::open(path, place(arguments))?;
        Ok(Self::Topology(Box::new(file), world))
    }

    /// Begins to follow it.
    pub(super) fn start(self, arguments: &RunArguments) -> Started {
        match self {
            Self::Topology(file, world) => from_file(*file, world, arguments),
            Self::Controller(controller) => from_controller(*controller, arguments),
        }
    }
}

impl Started {
    /// Waits until traffic may come.
    pub(super) async fn ready(&mut self) {
        if let Some(tried) = &mut self.tried {
            let tried = tried.wait_for(|tried| *tried);
            // In vain, in time or not: what is not known is passed on.
            drop(tokio::time::timeout(READY, tried).await);
        }
    }
}

fn from_file(file: TopologyFile, world: World, arguments: &RunArguments) -> Started {
    let registry = Arc::new(registry(Registry::new(Clock::start()), arguments));
    registry.apply(&world);
    tracing::info!(services = world.services.len(), "topology read");
    let started = Started {
        registry: Arc::clone(&registry),
        listeners: world.listeners.clone(),
        status: None,
        tried: None,
    };
    tokio::spawn(watch::watch(file, DiscoveryMetrics::default(), move |changed| {
        registry.apply(changed);
        if changed.listeners != world.listeners {
            tracing::warn!(
                "the topology's listeners changed: restart the proxy for that to take effect"
            );
        }
    }));
    started
}

fn from_controller(controller: Controller, arguments: &RunArguments) -> Started {
    let on_demand = Registry::on_demand(Clock::start(), place(arguments));
    let registry = Arc::new(registry(on_demand, arguments));
    for address in &controller.addresses {
        tracing::info!(controller = %address, "services are asked of the controller");
    }
    let pod = arguments.pod.clone().unwrap_or_default();
    let follower = Follower::new(controller, pod, &registry);
    let (status, tried) = (follower.status(), follower.tried());
    tokio::spawn(follower.follow());
    let calls = if arguments.ingress { ListenerKind::Gateway } else { ListenerKind::Outbound };
    let outbound = arguments.outbound.iter().map(|address| (address, calls.clone()));
    let inbound = arguments.inbound.iter().map(|address| (address, ListenerKind::Inbound));
    let listeners =
        outbound.chain(inbound).map(|(address, kind)| ListenerSpec { address: *address, kind });
    Started { registry, listeners: listeners.collect(), status: Some(status), tried: Some(tried) }
}

fn registry(registry: Registry, arguments: &RunArguments) -> Registry {
    registry
        .with_opaque_ports(arguments.opaque_ports.clone())
        .with_admin_port(arguments.admin.port())
}

fn place(arguments: &RunArguments) -> Place {
    let read = |text: &Option<String>| given(text.as_deref()).map(Arc::from);
    Place {
        zone: read(&arguments.zone),
        region: read(&arguments.region),
        node: read(&arguments.node),
    }
}

/// An empty variable is how manifests leave a value out.
fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
