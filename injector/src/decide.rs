//! Whether a pod gets the proxy, and in which form: a plain value, made from plain values.

use crate::options::Options;
use crate::pod::{Container, Namespace, Pod, PodSecurity};
use api::names::{PROXY_UID, injected, label, port};
use std::fmt;

/// What is to be done with a pod, and what its owner should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to be done.
    pub verdict: Verdict,
    /// Mistakes that did not stop it.
    pub warnings: Vec<Warning>,
}

/// What is to be done with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It gets the proxy.
    Inject(Box<Plan>),
    /// It is left as it is.
    Skip(Skip),
}

/// In which form a pod gets the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How its traffic comes to the proxy.
    pub redirect: Redirect,
    /// It is a gateway: routed by `Host`.
    pub ingress: bool,
    /// Every container has a limit for CPU, so a quota may ask for one.
    pub cpu_limited: bool,
    /// What its annotations ask for.
    pub options: Options,
}

/// How a pod's traffic comes to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// By rules of the kernel, set by an init container.
    Rules,
    /// By `HTTP_PROXY`: what the application sends there.
    Variables,
}

/// Why a pod is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Its namespace must come up without the mesh: the cluster's own, and the mesh's.
    Excluded,
    /// Its label says so.
    OptedOut,
    /// It has the proxy.
    Injected,
    /// It uses the node's network, whose rules are not ours to change.
    HostNetwork,
    /// It runs on Windows.
    Windows,
    /// Another mesh's proxy is in it.
    OtherMesh {
        /// The container.
        container: String,
    },
    /// Its namespace refuses the rules.
    PodSecurity {
        /// The level that refuses.
        level: PodSecurity,
    },
    /// A container listens on a port of the proxy's.
    PortTaken {
        /// The container.
        container: String,
        /// The port.
        port: u16,
    },
}

impl Skip {
    /// All names that [`name`](Self::name) gives.
    pub const NAMES: [&str; 8] = [
        "excluded",
        "opted_out",
        "injected",
        "host_network",
        "windows",
        "other_mesh",
        "pod_security",
        "port_taken",
    ];

    /// Whether the owner of the pod should be told. Not, when the pod is as it was asked for.
    pub const fn is_surprise(&self) -> bool {
        !matches!(self, Self::Excluded | Self::OptedOut | Self::Injected)
    }

    /// Short name, for metrics and events.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Excluded => "excluded",
            Self::OptedOut => "opted_out",
            Self::Injected => "injected",
            Self::HostNetwork => "host_network",
            Self::Windows => "windows",
            Self::OtherMesh { .. } => "other_mesh",
            Self::PodSecurity { .. } => "pod_security",
            Self::PortTaken { .. } => "port_taken",
        }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded => write!(f, "pods of this namespace never get the proxy"),
            Self::OptedOut => write!(f, "its label {} says disabled", label::INJECT),
            Self::Injected => write!(f, "it has the proxy already"),
            Self::HostNetwork => {
                write!(f, "hostNetwork: the rules would change the node's traffic")
            }
            Self::Windows => write!(f, "it runs on Windows, the proxy on Linux only"),
            Self::OtherMesh { container } => {
                write!(f, "container {container} is another mesh's proxy; remove one of the two")
            }
            Self::PodSecurity { level } => write!(
                f,
                "Pod Security {} refuses NET_ADMIN; annotate the pod tidegate.io/redirect: none for a proxy by HTTP_PROXY",
                level.name()
            ),
            Self::PortTaken { container, port } => {
                write!(f, "container {container} listens on {port}, a port of the proxy's")
            }
        }
    }
}

/// A mistake that does not stop a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// No such key.
    Key {
        /// The key as written.
        key: String,
        /// The known one that is most like it.
        nearest: Option<&'static str>,
    },
    /// A label, written as an annotation.
    IsLabel {
        /// The key.
        key: String,
    },
    /// A value that cannot be read.
    Value {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// Calls of a container pass the proxy by.
    ProxyUid {
        /// The container.
        container: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { key, nearest: Some(nearest) } => {
                write!(f, "no such annotation: {key}; did you mean {nearest}?")
            }
            Self::Key { key, nearest: None } => write!(f, "no such annotation: {key}"),
            Self::IsLabel { key } => {
                write!(f, "{key} is a label, not an annotation: it does nothing here")
            }
            Self::Value { key, value, wanted } => {
                let shown: String = value.chars().take(40).collect();
                write!(f, "{key}: cannot read {shown:?}, write {wanted}; the default holds")
            }
            Self::ProxyUid { container } => write!(
                f,
                "container {container} runs as user {PROXY_UID}, the proxy's: its calls pass the proxy by"
            ),
        }
    }
}

/// Decides about a pod of a namespace that asks for the proxy.
pub fn decide(namespace: &Namespace, pod: &Pod) -> Decision {
    let mut warnings = Vec::new();
    let inject = pod.metadata.labels.get(label::INJECT).map(String::as_str);
    if inject == Some("disabled") {
        return Decision { verdict: Verdict::Skip(Skip::OptedOut), warnings };
    }
    if pod.spec.all_containers().any(is_ours) {
        return Decision { verdict: Verdict::Skip(Skip::Injected), warnings };
    }
    let options = Options::read(&pod.metadata.annotations, &mut warnings);
    if let Some(value) = inject.filter(|value| !["enabled", "ingress"].contains(value)) {
        let (key, value) = (label::INJECT.to_owned(), value.to_owned());
        warnings.push(Warning::Value { key, value, wanted: "disabled or ingress on a pod" });
    }
    if let Some(skip) = obstacle(namespace, pod, &options) {
        return Decision { verdict: Verdict::Skip(skip), warnings };
    }
    let redirect = if options.no_rules { Redirect::Variables } else { Redirect::Rules };
    if redirect == Redirect::Rules {
        warnings.extend(as_proxy(pod).map(|container| Warning::ProxyUid { container }));
    }
    let ingress = inject == Some("ingress");
    let cpu_limited =
        pod.spec.all_containers().all(|container| container.resources.limits.contains_key("cpu"));
    let plan = Plan { redirect, ingress, cpu_limited, options };
    Decision { verdict: Verdict::Inject(Box::new(plan)), warnings }
}

/// What keeps the proxy out of a pod, whatever its owner wants.
fn obstacle(namespace: &Namespace, pod: &Pod, options: &Options) -> Option<Skip> {
    const OTHERS: [&str; 5] =
        ["linkerd-proxy", "istio-proxy", "kuma-sidecar", "consul-dataplane", "osm-proxy"];
    let spec = &pod.spec;
    if spec.host_network {
        return Some(Skip::HostNetwork);
    }
    let node_os = spec.node_selector.get("kubernetes.io/os").map_or("", String::as_str);
    if [spec.os.name.as_str(), node_os].contains(&"windows") {
        return Some(Skip::Windows);
    }
    if let Some(other) =
        spec.all_containers().find(|container| OTHERS.contains(&container.name.as_str()))
    {
        return Some(Skip::OtherMesh { container: other.name.clone() });
    }
    if namespace.pod_security != PodSecurity::Privileged && !options.no_rules {
        return Some(Skip::PodSecurity { level: namespace.pod_security });
    }
    spec.all_containers().find_map(takes_port)
}

fn is_ours(container: &Container) -> bool {
    [injected::PROXY, injected::REDIRECT].contains(&container.name.as_str())
}

fn takes_port(container: &Container) -> Option<Skip> {
    let ours = [port::OUTBOUND, port::INBOUND, port::ADMIN];
    let tcp = container.ports.iter().filter(|port| ["", "TCP"].contains(&port.protocol.as_str()));
    let mut taken =
        tcp.filter_map(|port| ours.into_iter().find(|own| i64::from(*own) == port.container_port));
    taken.next().map(|port| Skip::PortTaken { container: container.name.clone(), port })
}

/// The containers that run as the proxy's user, for which the rules make an exception.
fn as_proxy(pod: &Pod) -> impl Iterator<Item = String> {
    let uid = Some(i64::from(PROXY_UID));
    let of_pod = pod.spec.security_context.run_as_user;
    pod.spec
        .all_containers()
        .filter(move |container| container.security_context.run_as_user.or(of_pod) == uid)
        .map(|container| container.name.clone())
}
