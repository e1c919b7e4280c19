//! What holds for all pods of an installation.

use crate::pod::PodSecurity;
use api::names::port;
use clap::Args;

/// What holds for all pods, given once per installation. A pod's annotations go before it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What is added to pods")]
pub struct Settings {
    /// Image of the proxy
    #[arg(long, env = "TIDEGATE_PROXY_IMAGE", value_name = "IMAGE", default_value = concat!("tidegate/proxy:", env!("CARGO_PKG_VERSION")))]
    pub proxy_image: String,

    /// Image of the init container that sets the redirection rules: the proxy's program with iptables beside it
    #[arg(long, env = "TIDEGATE_REDIRECT_IMAGE", value_name = "IMAGE", default_value = concat!("tidegate/redirect:", env!("CARGO_PKG_VERSION")))]
    pub redirect_image: String,

    /// When the images are pulled: Always, `IfNotPresent` or Never
    #[arg(
        long,
        env = "TIDEGATE_IMAGE_PULL_POLICY",
        value_name = "POLICY",
        default_value = "IfNotPresent"
    )]
    pub image_pull_policy: String,

    /// Address of the controller's discovery server, as the proxies dial it; several with commas, the preferred first
    #[arg(
        long,
        env = "TIDEGATE_PROXY_CONTROLLER",
        value_name = "ADDRESS",
        default_value = "https://tidegate-controller.tidegate.svc:4280"
    )]
    pub proxy_controller: String,

    /// Address that the proxies' admin servers listen on; `[::]:4291` in a cluster without IPv4
    #[arg(long, env = "TIDEGATE_PROXY_ADMIN", value_name = "ADDRESS", default_value_t = format!("0.0.0.0:{}", port::ADMIN))]
    pub proxy_admin: String,

    /// Which log lines of the proxies appear
    #[arg(long, env = "TIDEGATE_PROXY_LOG_LEVEL", value_name = "LEVEL", default_value = "info")]
    pub proxy_log_level: String,

    /// How log lines of the proxies look: text or json
    #[arg(long, env = "TIDEGATE_PROXY_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub proxy_log_format: String,

    /// Threads of each proxy that carry traffic
    #[arg(long, env = "TIDEGATE_PROXY_WORKERS", value_name = "COUNT", default_value_t = 2)]
    pub proxy_workers: u16,

    /// CPU that each proxy asks for
    #[arg(
        long,
        env = "TIDEGATE_PROXY_CPU_REQUEST",
        value_name = "QUANTITY",
        default_value = "50m"
    )]
    pub proxy_cpu_request: String,

    /// CPU that each proxy may use [default: none, or 1 in a pod whose every container has a limit]
    #[arg(long, env = "TIDEGATE_PROXY_CPU_LIMIT", value_name = "QUANTITY")]
    pub proxy_cpu_limit: Option<String>,

    /// Memory that each proxy asks for
    #[arg(
        long,
        env = "TIDEGATE_PROXY_MEMORY_REQUEST",
        value_name = "QUANTITY",
        default_value = "32Mi"
    )]
    pub proxy_memory_request: String,

    /// Memory that each proxy may use
    #[arg(
        long,
        env = "TIDEGATE_PROXY_MEMORY_LIMIT",
        value_name = "QUANTITY",
        default_value = "256Mi"
    )]
    pub proxy_memory_limit: String,

    /// Pod Security level of namespaces that have no label for it: privileged, baseline or restricted
    #[arg(long, env = "TIDEGATE_POD_SECURITY_DEFAULT", value_name = "LEVEL", default_value = "privileged", value_parser = pod_security)]
    pub pod_security_default: PodSecurity,

    /// Certificate authority of the discovery server, PEM
    #[arg(long, env = "TIDEGATE_PROXY_CONTROLLER_CA", value_name = "PEM", hide_env_values = true)]
    pub proxy_controller_ca: Option<String>,
}

fn pod_security(level: &str) -> Result<PodSecurity, &'static str> {
    match level {
        "privileged" | "baseline" | "restricted" => Ok(PodSecurity::parse(level)),
        _ => Err("write privileged, baseline or restricted"),
    }
}
