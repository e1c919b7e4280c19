//! The reasons in words.

/// What a reason means, and what to look at.
pub(super) fn of_reason(reason: &str) -> (&'static str, &'static str) {
    match reason {
        "no_endpoints" => (
            "The service has no endpoints at all.",
            "Requests get 503. Look at discovery: are its pods ready?",
        ),
        "panic" => (
            "Every endpoint is ejected, so requests go to all of them.",
            "The service is failing everywhere: look at the service itself.",
        ),
        "zone_unknown" => (
            "This proxy does not know its own zone, so all endpoints are treated alike.",
            "Set [proxy] zone or TIDEGATE_ZONE, or label the node with topology.kubernetes.io/zone.",
        ),
        "no_local" => (
            "No endpoint in this zone can take requests.",
            "Look at the endpoints of this zone below: missing, or ejected?",
        ),
        "no_remote" => (
            "No endpoint outside this zone can take requests.",
            "Everything stays here, whatever happens here: there is nowhere else to go.",
        ),
        "failure" => (
            "Requests fail more often here than in other zones.",
            "Look at the endpoints of this zone: their success rates are below.",
        ),
        "capacity" => (
            "Ejected endpoints are missing in this zone, and the others are not asked to carry it all.",
            "Look at the ejected endpoints below.",
        ),
        "hold" => (
            "Crossing was tried and did not help, so it is given up for a while.",
            "The other zones fail or are slow as well: look at what the service depends on.",
        ),
        "load" => (
            "Requests queue in this zone: answers take longer than they do unloaded.",
            "This zone has too few endpoints for its traffic, or they are slow.",
        ),
        "surge" => (
            "Requests suddenly piled up unanswered in this zone.",
            "Something here hangs or became much slower: look at the latencies below.",
        ),
        "warmup" => (
            "The service has not been used long enough to know its normal latency.",
            "This passes within seconds of traffic.",
        ),
        "local" => ("Nothing speaks against staying in this zone.", ""),
        "guard" => (
            "A guard of the policy failed: too few endpoints serve.",
            "See minEndpoints and minHealthyPercent of the policy.",
        ),
        "percent" => {
            ("The policy governs only a part of the requests.", "See percent of the policy.")
        }
        "off" => ("The policy is off: all endpoints are treated alike.", ""),
        "budget" => (
            "The spill budget of the policy keeps requests here that would have left.",
            "See maxRemotePercent of the policy.",
        ),
        "trial" => ("An ejected endpoint is being tried.", ""),
        "retry" => ("A failed request was sent a second time.", ""),
        "proportional" => (
            "Requests go where capacity is left, by the counts of callers and serving endpoints per zone.",
            "",
        ),
        _ => ("A reason that this version does not know.", "Ask with the version that runs."),
    }
}

/// Why a destination is not balanced.
pub(super) fn of_passthrough(reason: &str) -> &'static str {
    match reason {
        "unknown" => "the controller knows no such Service and port",
        "external_name" => "it is a name for something outside the cluster",
        "session_affinity" => "its sessionAffinity is kept by Kubernetes itself",
        "unanswered" => "the controller was away, or did not answer in time",
        "too_many" => "too many destinations are in use",
        "waiting" => "the controller was just asked",
        _ => "for a reason that this version does not know",
    }
}

/// Where a policy came from.
pub(super) fn of_source(source: &str) -> &'static str {
    match source {
        "topology" => "from the topology file",
        "internal_traffic_policy" => "from internalTrafficPolicy of the Service",
        "client_pod_annotation" => "from an annotation of the calling pod",
        "service_policy" => "from a LocalityPolicy for this Service",
        "service_annotation" => "from an annotation of the Service",
        "namespace_policy" => "from a LocalityPolicy of the namespace",
        "namespace_annotation" => "from an annotation of the namespace",
        "traffic_distribution" => "from trafficDistribution of the Service",
        "mesh_default" => "from the mesh's default LocalityPolicy",
        "default" => "built in",
        _ => "from a source that this version does not know",
    }
}
