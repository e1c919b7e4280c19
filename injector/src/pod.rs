//! What of a pod and its namespace decides. Everything else of a pod is left to itself, unread: a pod may come from an API
//! server that is newer than this program.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A pod as it is asked for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Name, labels, annotations.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    /// The rest.
    #[serde(deserialize_with = "or_default")]
    pub spec: Spec,
}

/// Of a pod's metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Empty while only `generate_name` is known.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Beginning of the name to come.
    #[serde(deserialize_with = "or_default")]
    pub generate_name: String,
    /// Empty in a manifest that leaves it to the one who applies it.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Who made it, such as a `ReplicaSet`.
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<Owner>,
}

/// The object that a pod belongs to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// Its API group and version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
}

/// Of a pod's spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The pod uses the node's network.
    #[serde(deserialize_with = "or_default")]
    pub host_network: bool,
    /// Operating system, when said.
    #[serde(deserialize_with = "or_default")]
    pub os: Os,
    /// Labels that the node must have.
    #[serde(deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    /// User ids.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
    /// Containers.
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// Init containers, native sidecars among them.
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    /// Volumes.
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Named>,
}

impl Spec {
    /// All containers, init containers first: the order in which they start.
    pub fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }

    /// Ports on which the kubelet only looks whether somebody listens.
    pub fn ports_dialled(&self) -> BTreeSet<u16> {
        self.all_containers().flat_map(Container::ports_dialled).collect()
    }
}

/// Operating system of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Os {
    /// `linux` or `windows`.
    pub name: String,
}

/// Of a security context.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityContext {
    /// User id.
    pub run_as_user: Option<i64>,
}

/// Of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Ports that it says it listens on.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<Port>,
    /// Environment.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<Named>,
    /// User id.
    #[serde(deserialize_with = "or_default")]
    pub security_context: SecurityContext,
    /// CPU and memory.
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    /// Whether it has started.
    #[serde(deserialize_with = "or_default")]
    pub startup_probe: Probe,
    /// Whether it lives.
    #[serde(deserialize_with = "or_default")]
    pub liveness_probe: Probe,
    /// Whether it can serve.
    #[serde(deserialize_with = "or_default")]
    pub readiness_probe: Probe,
}

impl Container {
    fn ports_dialled(&self) -> impl Iterator<Item = u16> {
        let probes = [&self.startup_probe, &self.liveness_probe, &self.readiness_probe];
        probes.into_iter().filter_map(|probe| match &probe.tcp_socket.port {
            Value::String(name) => {
                let named = |port: &&Port| port.name == *name;
                let port = self.ports.iter().find(named).map(|port| port.container_port);
                u16::try_from(port?).ok()
            }
            number => u16::try_from(number.as_u64()?).ok(),
        })
    }
}

/// Of a probe.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// A connection that has to come about.
    #[serde(deserialize_with = "or_default")]
    pub tcp_socket: TcpSocket,
}

/// Where a probe connects to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TcpSocket {
    /// A number, or the name of one of the container's ports.
    pub port: Value,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as Kubernetes calls it")]
pub struct Port {
    /// Its name, if it has one.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its number.
    pub container_port: i64,
    /// `TCP` when empty.
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
}

/// Resources of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Limits by name.
    #[serde(deserialize_with = "or_default")]
    pub limits: BTreeMap<String, Value>,
}

/// Something of which the name is enough.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// What the namespace says about its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// What its pods may ask for.
    pub pod_security: PodSecurity,
}

impl Namespace {
    /// Reads the labels of a namespace. `otherwise` holds for one that says nothing.
    pub fn new(name: &str, labels: &BTreeMap<String, String>, otherwise: PodSecurity) -> Self {
        let pod_security = match labels.get("pod-security.kubernetes.io/enforce") {
            None => otherwise,
            Some(level) => PodSecurity::parse(level),
        };
        Self { name: name.to_owned(), pod_security }
    }
}

/// A level of the [Pod Security Standards](https://kubernetes.io/docs/concepts/security/pod-security-standards/), as enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodSecurity {
    /// Everything is allowed.
    #[default]
    Privileged,
    /// No further capabilities, no host namespaces.
    Baseline,
    /// Non-root, no capabilities, seccomp.
    Restricted,
}

impl PodSecurity {
    /// The level that a label means. Kubernetes holds one that it does not know for `restricted`.
    pub fn parse(label: &str) -> Self {
        match label {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            _ => Self::Restricted,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// `null` means the same as nothing, as it does to the API server.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
