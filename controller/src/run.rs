//! The running program: listeners, watches, and the end.

use crate::cli::Cli;
use crate::hub::Hub;
use crate::index::key::Cluster;
use crate::index::{Index, Settings};
use crate::serve::certificate::Files;
use crate::serve::identify::Identify;
use crate::watch::health::Health;
use crate::{metrics, report, serve, watch};
use anyhow::{Context as _, Result};
use kit::admin::{Admin, Readiness};
use kit::metrics::{Build, Metrics};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that wait to be accepted. When a replica ends, its proxies come to the others at the same moment, and the kernel
/// resets those for which there is no room. It may have a lower limit of its own (net.core.somaxconn).
const BACKLOG: u32 = 4096;

/// How often the first sync is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Runs until a signal.
pub async fn run(cli: Cli) -> Result<()> {
    let mut signals = kit::shutdown::Signals::listen().context("cannot listen to signals")?;
    let build = Build { program: "controller", version: env!("CARGO_PKG_VERSION") };
    let recorder = Metrics::install(build)?;
    metrics::describe();
    tokio::spawn(recorder.clone().upkeep());

    let config = config(&cli).await?;
    let made = Client::try_from(config.clone());
    let client = made.context("cannot make a client for the API server")?;
    let settings = Settings {
        namespace: cli.namespace.as_str().into(),
        domain: cli.cluster_domain.as_str().into(),
    };
    let hub = Arc::new(Hub::new(Index::new(settings)));
    let health = Health::default();
    let readiness = Readiness::waiting("the first lists from the API server are not complete");
    let synced = Arc::new(AtomicBool::new(false));

    let admin = {
        let (hub, health) = (Arc::clone(&hub), health.clone());
        Admin::new(readiness.clone(), recorder, move || metrics::refresh(&hub, &health))
    };
    tokio::spawn(admin.serve(listen(cli.admin, "admin")?));
    let view = Arc::new(serve::http::View::new(Arc::clone(&hub), Arc::clone(&synced)));
    tokio::spawn(view.serve(listen(cli.view, "view")?));
    let discovery = listen(cli.discovery, "discovery")?;

    let home = (Arc::clone(&hub), health.clone());
    tokio::spawn(watch::home::follow_home(client.clone(), config, home.0, home.1));
    let remotes = (client.clone(), cli.namespace.clone(), Arc::clone(&hub), health.clone());
    tokio::spawn(async move {
        let (client, namespace, hub, health) = remotes;
        watch::remote::follow_remotes(client, &namespace, hub, health).await;
    });
    tokio::spawn(report::report(client.clone(), Arc::clone(&hub)));

    let identify = if cli.trust_proxies {
        Identify::Trust
    } else {
        Identify::Tokens { client, audience: cli.audience.clone() }
    };
    let files = cli.tls_certificate.zip(cli.tls_key);
    let certificate = files.map(|(chain, key)| Files { chain, key });
    let served = async {
        // Before the first lists, nothing is known of any service: a proxy goes to another replica, or on as it is.
        while !health.is_synced(&Cluster::Home) {
            tokio::time::sleep(LOOK).await;
        }
        synced.store(true, Ordering::Release);
        readiness.ready();
        tracing::info!(discovery = %cli.discovery, "everything is listed; serving proxies");
        serve::serve(hub, identify, discovery, certificate).await
    };
    tokio::select! {
        signal = signals.next() => {
            // Proxies go on with what they know, and to another replica.
            tracing::info!(signal, "ending");
            Ok(())
        }
        ended = served => ended.context("the discovery server ended"),
    }
}

async fn config(cli: &Cli) -> Result<Config> {
    Ok(match &cli.kubeconfig {
        None => Config::infer().await.context("nothing leads to an API server: set KUBECONFIG")?,
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
    })
}

fn listen(address: SocketAddr, what: &str) -> Result<TcpListener> {
    let listener = bind(address)
        .with_context(|| format!("cannot listen on {address} ({what}): is the port taken?"))?;
    // The port may have been left to the system.
    tracing::info!(address = %listener.local_addr()?, what, "listening");
    Ok(listener)
}

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
