//! The command line. Every flag is an environment variable too; nothing else of the environment is read, but for what leads to the
//! API server (`KUBECONFIG`, and the variables that a pod finds).

use api::names::{env, injected, port};
use clap::{CommandFactory as _, Parser};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Watches a Kubernetes cluster and tells Tidegate's proxies their endpoints, zones and policies.
#[derive(Clone, Debug, Parser)]
#[command(name = "tidegate-controller", version)]
pub struct Cli {
    /// Address of the discovery server, to which proxies connect
    #[arg(long, env = "TIDEGATE_DISCOVERY", value_name = "ADDRESS", default_value_t = any(port::DISCOVERY))]
    pub discovery: SocketAddr,

    /// Address of the view over HTTP: /v1/endpoints and /v1/endpoints/ZONE
    #[arg(long, env = "TIDEGATE_VIEW", value_name = "ADDRESS", default_value_t = any(port::VIEW))]
    pub view: SocketAddr,

    /// Address of the admin server: /live, /ready, /metrics
    #[arg(long, env = env::ADMIN, value_name = "ADDRESS", default_value_t = any(port::ADMIN))]
    pub admin: SocketAddr,

    /// Namespace that the controller runs in: a LocalityPolicy without targets there is the default of the mesh, and Secrets there
    /// lead to other clusters
    #[arg(long, env = "TIDEGATE_NAMESPACE", default_value = "tidegate")]
    pub namespace: String,

    /// Domain of the cluster's names
    #[arg(
        long,
        env = "TIDEGATE_CLUSTER_DOMAIN",
        value_name = "DOMAIN",
        default_value = "cluster.local"
    )]
    pub cluster_domain: String,

    /// Audience that the proxies' tokens are made for
    #[arg(long, env = "TIDEGATE_AUDIENCE", default_value = injected::TOKEN_AUDIENCE)]
    pub audience: String,

    /// Believe proxies which pod they belong to, and ask for no token
    #[arg(long, env = "TIDEGATE_TRUST_PROXIES")]
    pub trust_proxies: bool,

    /// Certificate chain of the discovery server (PEM), read again when it changes; without it, streams are not encrypted
    #[arg(long, env = "TIDEGATE_TLS_CERTIFICATE", value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,

    /// Private key of that certificate (PEM)
    #[arg(long, env = "TIDEGATE_TLS_KEY", value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,

    /// Kubeconfig file that leads to the API server [default: $KUBECONFIG, ~/.kube/config, or the pod's own]
    #[arg(long, env = "TIDEGATE_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Which log lines appear: error, warn, info, debug or trace, or pairs such as info,controller=debug
    #[arg(long, env = env::LOG_LEVEL, value_name = "LEVEL", default_value = "info")]
    pub log_level: String,

    /// How log lines look: text or json
    #[arg(long, env = env::LOG_FORMAT, value_name = "FORMAT", default_value = "text")]
    pub log_format: kit::log::Format,
}

/// The command line as data: documentation is made from it.
pub fn command() -> clap::Command {
    Cli::command()
}

const fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}
