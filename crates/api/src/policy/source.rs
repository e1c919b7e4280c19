//! Where a policy came from, and which of several wins.

use super::Policy;
use serde::Serialize;

/// Where a policy came from, the most specific first: that order decides which one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// The topology file of local mode, in which nothing competes.
    Topology,
    /// `spec.internalTrafficPolicy: Local` of the Service, which Kubernetes itself promises.
    InternalTrafficPolicy,
    /// An annotation of the calling pod.
    ClientPodAnnotation,
    /// A `LocalityPolicy` that names the Service.
    ServicePolicy,
    /// An annotation of the Service.
    ServiceAnnotation,
    /// A `LocalityPolicy` without targets in the Service's namespace.
    NamespacePolicy,
    /// An annotation of the Namespace.
    NamespaceAnnotation,
    /// `spec.trafficDistribution` of the Service.
    TrafficDistribution,
    /// A `LocalityPolicy` without targets in the controller's namespace.
    MeshDefault,
    /// What is built in.
    #[serde(rename = "default")]
    BuiltIn,
}

impl PolicySource {
    /// All of them, the most specific first.
    pub const ALL: [Self; 10] = [
        Self::Topology,
        Self::InternalTrafficPolicy,
        Self::ClientPodAnnotation,
        Self::ServicePolicy,
        Self::ServiceAnnotation,
        Self::NamespacePolicy,
        Self::NamespaceAnnotation,
        Self::TrafficDistribution,
        Self::MeshDefault,
        Self::BuiltIn,
    ];

    /// The name in metrics, logs and `/debug`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::InternalTrafficPolicy => "internal_traffic_policy",
            Self::ClientPodAnnotation => "client_pod_annotation",
            Self::ServicePolicy => "service_policy",
            Self::ServiceAnnotation => "service_annotation",
            Self::NamespacePolicy => "namespace_policy",
            Self::NamespaceAnnotation => "namespace_annotation",
            Self::TrafficDistribution => "traffic_distribution",
            Self::MeshDefault => "mesh_default",
            Self::BuiltIn => "default",
        }
    }
}

/// The most specific of the candidates, whole: nothing of the others is merged in. Of two from the same source, the
/// first wins. Without any, what is built in.
pub fn most_specific(
    candidates: impl IntoIterator<Item = (PolicySource, Policy)>,
) -> (PolicySource, Policy) {
    candidates
        .into_iter()
        .min_by_key(|(source, _)| *source)
        .unwrap_or_else(|| (PolicySource::BuiltIn, Policy::default()))
}
