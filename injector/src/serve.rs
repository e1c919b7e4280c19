//! `tidegate-injector serve`: the admission webhook as a process.

use crate::bare;
use crate::certificate::Terms;
use crate::certificate::keeper::{Keeper, Own, Registration, Source};
use crate::certificate::serving::Serving;
use crate::metrics::{self, ReviewMetrics};
use crate::namespaces::Namespaces;
use crate::settings::Settings;
use crate::webhook::Webhook;
use crate::webhook::server::Server;
use anyhow::{Context as _, anyhow};
use api::names::{env, port};
use clap::Args;
use kit::admin::{Admin, Readiness};
use kit::metrics::{Build, Metrics};
use kit::shutdown::Signals;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Threads: a review is short work, and API servers are few.
const THREADS: usize = 2;
/// Longest wait for reviews in flight; the webhook's own deadline is shorter.
const GRACE: Duration = Duration::from_secs(10);

/// Answering the API server.
#[derive(Clone, Debug, Args)]
pub struct ServeArguments {
    /// Address of the webhook
    #[arg(long, env = "TIDEGATE_INJECTOR", value_name = "ADDRESS", default_value_t = any(port::INJECTOR))]
    listen: SocketAddr,

    /// Address of the admin server: /live, /ready, /metrics
    #[arg(long, env = env::ADMIN, value_name = "ADDRESS", default_value_t = any(port::ADMIN))]
    admin: SocketAddr,

    /// Namespace that the injector runs in; its pods never get the proxy
    #[arg(long, env = "TIDEGATE_NAMESPACE", default_value = "tidegate")]
    namespace: String,

    /// `MutatingWebhookConfiguration` whose `caBundle` is kept; empty if somebody else keeps it
    #[arg(
        long,
        env = "TIDEGATE_WEBHOOK_CONFIGURATION",
        value_name = "NAME",
        default_value = "tidegate"
    )]
    webhook_configuration: String,

    #[command(flatten)]
    certificate: CertificateArguments,

    /// Kubeconfig file that leads to the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own]
    #[arg(long, env = "TIDEGATE_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// How long new reviews are still taken after SIGTERM: until every API server has heard that this replica goes
    #[arg(long, env = "TIDEGATE_LINGER", value_name = "DURATION", default_value = "5s", value_parser = humantime::parse_duration)]
    linger: Duration,

    /// Which log lines appear: error, warn, info, debug or trace, or pairs such as info,injector=debug
    #[arg(long, env = env::LOG_LEVEL, value_name = "LEVEL", default_value = "info")]
    log_level: String,

    /// How log lines look: text or json
    #[arg(long, env = env::LOG_FORMAT, value_name = "FORMAT", default_value = "text")]
    log_format: kit::log::Format,

    #[command(flatten)]
    settings: Settings,
}

/// Where the webhook's certificate comes from.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The webhook's certificate")]
pub struct CertificateArguments {
    /// Secret for the certificate that is made and renewed here; all replicas share it
    #[arg(
        long,
        env = "TIDEGATE_CERTIFICATE_SECRET",
        value_name = "NAME",
        default_value = "tidegate-certificate"
    )]
    certificate_secret: String,

    /// Names that the certificate is for, separated by commas [default: tidegate-injector, tidegate-controller and tidegate-controller-replicas in the namespace]
    #[arg(long, env = "TIDEGATE_CERTIFICATE_NAMES", value_name = "NAMES", value_delimiter = ',')]
    certificate_names: Vec<String>,

    /// Life of the certificate; it is renewed when a third is left
    #[arg(long, env = "TIDEGATE_CERTIFICATE_LIFE", value_name = "DURATION", default_value = "90d", value_parser = humantime::parse_duration)]
    certificate_life: Duration,

    /// Life of the authority that signs it; it is renewed when a third is left
    #[arg(long, env = "TIDEGATE_AUTHORITY_LIFE", value_name = "DURATION", default_value = "10years", value_parser = humantime::parse_duration)]
    authority_life: Duration,

    /// Certificate chain (PEM) that somebody else makes, such as cert-manager; read again when it changes
    #[arg(
        long,
        env = "TIDEGATE_CERTIFICATE_FILE",
        value_name = "FILE",
        requires = "certificate_key_file"
    )]
    certificate_file: Option<PathBuf>,

    /// Private key of that certificate (PEM)
    #[arg(
        long,
        env = "TIDEGATE_CERTIFICATE_KEY_FILE",
        value_name = "FILE",
        requires = "certificate_file"
    )]
    certificate_key_file: Option<PathBuf>,

    /// Authority that signed it (PEM), for the `caBundle` and for the proxies
    #[arg(
        long,
        env = "TIDEGATE_AUTHORITY_FILE",
        value_name = "FILE",
        requires = "certificate_file"
    )]
    authority_file: Option<PathBuf>,
}

const fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// Runs the webhook until it is asked to end and has drained.
pub fn run(arguments: ServeArguments) -> anyhow::Result<()> {
    kit::log::init(&arguments.log_level, arguments.log_format)?;
    let build = Build { program: "injector", version: env!("CARGO_PKG_VERSION") };
    let metrics = Metrics::install(build)?;
    metrics::describe();
    // Other crates link other providers; without a choice rustls would stop the process.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(process(arguments, metrics))
}

async fn process(arguments: ServeArguments, metrics: Metrics) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("cannot listen to signals")?;
    let client = client(arguments.kubeconfig.as_deref()).await?;
    let readiness = Readiness::waiting("no certificate yet");
    let admin = listen(arguments.admin, "--admin").await?;
    let listener = listen(arguments.listen, "--listen").await?;
    tracing::info!(admin = %admin.local_addr()?, webhook = %listener.local_addr()?, "tidegate-injector started");
    tokio::spawn(metrics.clone().upkeep());
    tokio::spawn(Admin::new(readiness.clone(), metrics, || {}).serve(admin));

    let (namespaces, watch) = Namespaces::watch(client.clone());
    tokio::spawn(watch);
    let (serving, served, authorities) = keep_certificate(&arguments, &client);
    let webhook = webhook(&arguments, &client, &namespaces, authorities);
    let server = Server::new(Arc::new(webhook), serving.config()?);
    let (drain, drained) = oneshot::channel::<()>();
    // The sender is dropped to say it, which is an error here.
    let server = tokio::spawn(server.serve(listener, async { drop(drained.await) }));

    let becoming_ready = async {
        // An error would mean that the keeper has ended, which it never does.
        drop(served.await);
        readiness.not_ready("the namespaces are not known yet");
        namespaces.synced().await;
        readiness.ready();
        tracing::info!("ready");
        std::future::pending().await
    };
    let signal = tokio::select! {
        signal = signals.next() => signal,
        never = becoming_ready => never,
    };
    tracing::info!(signal, linger = ?arguments.linger, "draining");
    readiness.not_ready("draining");
    let draining = async {
        tokio::time::sleep(arguments.linger).await;
        drop(drain);
        tokio::time::timeout(GRACE, server).await
    };
    tokio::select! {
        done = draining => match done {
            Ok(ended) => ended.context("the webhook server ended by itself: see the log for its panic"),
            Err(_late) => Err(anyhow!("reviews were still in flight after {GRACE:?}")),
        },
        signal = signals.next() => {
            tracing::warn!(signal, "second signal: what is in flight is given up");
            Ok(())
        }
    }
}

/// Begins to keep the certificate. What comes back: what is served, the moment of the first, and the authorities for proxies.
fn keep_certificate(
    arguments: &ServeArguments,
    client: &Client,
) -> (Serving, oneshot::Receiver<()>, watch::Receiver<String>) {
    let (serving, (tell, authorities)) = (Serving::default(), watch::channel(String::new()));
    let registration = (!arguments.webhook_configuration.is_empty()).then(|| Registration {
        configurations: Api::all(client.clone()),
        name: arguments.webhook_configuration.clone(),
    });
    let keeper = Keeper::new(source(arguments, client), registration, serving.clone(), tell);
    let (first, served) = oneshot::channel();
    tokio::spawn(keeper.keep(move || first.send(()).unwrap_or(())));
    (serving, served, authorities)
}

fn source(arguments: &ServeArguments, client: &Client) -> Source {
    let certificate = &arguments.certificate;
    if let (Some(chain), Some(key)) =
        (&certificate.certificate_file, &certificate.certificate_key_file)
    {
        let authorities = certificate.authority_file.clone();
        return Source::Given { chain: chain.clone(), key: key.clone(), authorities };
    }
    let namespace = &arguments.namespace;
    let names = if certificate.certificate_names.is_empty() {
        let services = ["tidegate-injector", "tidegate-controller", "tidegate-controller-replicas"];
        services.map(|service| format!("{service}.{namespace}.svc")).into()
    } else {
        certificate.certificate_names.clone()
    };
    Source::Own(Box::new(Own {
        secrets: Api::namespaced(client.clone(), namespace),
        name: certificate.certificate_secret.clone(),
        terms: Terms {
            names,
            certificate: certificate.certificate_life,
            authority: certificate.authority_life,
        },
    }))
}

/// What answers reviews; begins to look for bare pods too.
fn webhook(
    arguments: &ServeArguments,
    client: &Client,
    namespaces: &Namespaces,
    authorities: watch::Receiver<String>,
) -> Webhook {
    let clusters_own = ["kube-system", "kube-node-lease", "kube-public"].map(str::to_owned);
    let excluded: Vec<String> =
        clusters_own.into_iter().chain([arguments.namespace.clone()]).collect();
    let looking = bare::Watch {
        client: client.clone(),
        namespaces: namespaces.clone(),
        excluded: excluded.clone(),
        pod_security_default: arguments.settings.pod_security_default,
    };
    tokio::spawn(looking.run());
    Webhook {
        settings: arguments.settings.clone(),
        authorities,
        namespaces: namespaces.clone(),
        excluded,
        metrics: ReviewMetrics::default(),
    }
}

async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file)
                .with_context(|| format!("cannot read {} (--kubeconfig)", file.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::infer()
            .await
            .context("no way to an API server: run in a pod, or give --kubeconfig")?,
    };
    tracing::info!(server = %config.cluster_url, "API server");
    Client::try_from(config).context("cannot make a client of the API server")
}

async fn listen(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address} ({flag}): is another program listening there?")
    })
}
