//! The one place for every port, id, label, annotation and environment variable that programs or users share.

/// TCP ports.
pub mod port {
    /// Outbound (forward) listener of the proxy: the application's own calls.
    pub const OUTBOUND: u16 = 4240;
    /// Inbound listener of the proxy: calls to the application.
    pub const INBOUND: u16 = 4243;
    /// Admin server of every program: `/live`, `/ready`, `/metrics`, `/debug`.
    pub const ADMIN: u16 = 4291;
    /// Discovery streams, served by the controller.
    pub const DISCOVERY: u16 = 4280;
    /// The controller's view over HTTP: `/v1/endpoints`.
    pub const VIEW: u16 = 4281;
    /// The injector's admission webhook.
    pub const INJECTOR: u16 = 8443;
}

/// The user id that the proxy runs as; its own connections are exempt from redirection by this id.
pub const PROXY_UID: u32 = 4242;

/// The API group of the custom resources.
pub const GROUP: &str = "tidegate.io";

/// The version of the custom resources.
pub const VERSION: &str = "v1alpha1";

/// Environment variables. Every flag of the programs has one, named after it.
pub mod env {
    /// Prefix of all of them.
    pub const PREFIX: &str = "TIDEGATE_";
    /// The zone that a program stands in, over what discovery says.
    pub const ZONE: &str = "TIDEGATE_ZONE";
    /// The region that a program stands in, over what discovery says.
    pub const REGION: &str = "TIDEGATE_REGION";
    /// The node that a program stands on, over what discovery says.
    pub const NODE: &str = "TIDEGATE_NODE";
    /// The topology file of local mode.
    pub const TOPOLOGY: &str = "TIDEGATE_TOPOLOGY";
    /// Address of the admin server.
    pub const ADMIN: &str = "TIDEGATE_ADMIN";
    /// Number of data threads.
    pub const WORKERS: &str = "TIDEGATE_WORKERS";
    /// Which log lines appear.
    pub const LOG_LEVEL: &str = "TIDEGATE_LOG_LEVEL";
    /// How log lines look.
    pub const LOG_FORMAT: &str = "TIDEGATE_LOG_FORMAT";
    /// Connections that callers may have open at the same time.
    pub const CONNECTIONS_MAX: &str = "TIDEGATE_MAX_CONNECTIONS";
    /// How long a caller may take to send a request's header.
    pub const HEADER_TIMEOUT: &str = "TIDEGATE_HEADER_TIMEOUT";
    /// How long a caller's connection is kept without a request.
    pub const IDLE_TIMEOUT: &str = "TIDEGATE_IDLE_TIMEOUT";
    /// How long a caller may stand still in the middle of a body.
    pub const STALL_TIMEOUT: &str = "TIDEGATE_STALL_TIMEOUT";
    /// How long a draining program waits for what is in flight.
    pub const GRACE: &str = "TIDEGATE_GRACE";
    /// Address of the controller's discovery server.
    pub const CONTROLLER: &str = "TIDEGATE_CONTROLLER";
    /// Certificate authority of the discovery server, PEM.
    pub const CONTROLLER_CA: &str = "TIDEGATE_CONTROLLER_CA";
    /// File with the token that proves to the controller which pod this is.
    pub const CONTROLLER_TOKEN: &str = "TIDEGATE_CONTROLLER_TOKEN";
    /// The pod that the proxy belongs to, where no token proves it.
    pub const POD: &str = "TIDEGATE_POD";
    /// Where the application's calls arrive.
    pub const OUTBOUND: &str = "TIDEGATE_OUTBOUND";
    /// Addresses to which the kernel brings calls to the application.
    pub const INBOUND: &str = "TIDEGATE_INBOUND";
    /// `true` for a gateway: route by `Host`, since it dials the addresses of pods.
    pub const INGRESS: &str = "TIDEGATE_INGRESS";
    /// Ports whose bytes are not looked at.
    pub const OPAQUE_PORTS: &str = "TIDEGATE_OPAQUE_PORTS";
}

/// Containers and volumes that the injector adds to a pod, and names of their ports.
pub mod injected {
    /// The proxy, a native sidecar.
    pub const PROXY: &str = "tidegate-proxy";
    /// The init container that sets the redirection rules.
    pub const REDIRECT: &str = "tidegate-redirect";
    /// Port name of the admin server.
    pub const ADMIN_PORT: &str = "tidegate-admin";
    /// Volume with the token for the controller.
    pub const TOKEN_VOLUME: &str = "tidegate-token";
    /// Volume for the lock file of the rules' init container.
    pub const RUN_VOLUME: &str = "tidegate-run";
    /// Who the token is for.
    pub const TOKEN_AUDIENCE: &str = "tidegate-controller";
    /// Folder of the token in the proxy's container.
    pub const TOKEN_FOLDER: &str = "/var/run/secrets/tidegate.io";
}

/// Labels, on namespaces and pods.
pub mod label {
    /// `enabled` on a namespace; `disabled` or `ingress` on a pod.
    pub const INJECT: &str = "tidegate.io/inject";
    /// Marks a Secret that holds the kubeconfig of another cluster.
    pub const REMOTE_CLUSTER: &str = "tidegate.io/remote-cluster";
    /// Zone of a node.
    pub const NODE_ZONE: &str = "topology.kubernetes.io/zone";
    /// Zone of a node, as named before Kubernetes 1.17.
    pub const NODE_ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
    /// Region of a node.
    pub const NODE_REGION: &str = "topology.kubernetes.io/region";
    /// Region of a node, as named before Kubernetes 1.17.
    pub const NODE_REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
    /// Zone id on AWS, the same in all accounts, where zone names are not.
    pub const AWS_ZONE_ID: &str = "topology.k8s.aws/zone-id";
}

/// Annotations, on Services, Namespaces and pods.
pub mod annotation {
    /// Mode of the locality policy: `Adaptive`, `Proportional`, `Pinned` or `Off`.
    pub const LOCALITY_MODE: &str = "tidegate.io/locality-mode";
    /// Load band: `1.2,1.5` (normalized) or `outstanding:0.8,2.0`.
    pub const LOAD_BAND: &str = "tidegate.io/load-band";
    /// Zone of a pod, over its node's.
    pub const ZONE: &str = "tidegate.io/zone";
    /// Region of a pod, over its node's.
    pub const REGION: &str = "tidegate.io/region";
    /// `none` on a pod: sidecar without redirection rules.
    pub const REDIRECT: &str = "tidegate.io/redirect";
    /// Version of what was added to a pod; set by the injector.
    pub const INJECTED: &str = "tidegate.io/injected";
    /// Image of the proxy in a pod.
    pub const PROXY_IMAGE: &str = "tidegate.io/proxy-image";
    /// Log level of the proxy in a pod.
    pub const LOG_LEVEL: &str = "tidegate.io/log-level";
    /// CPU that the proxy in a pod asks for.
    pub const CPU_REQUEST: &str = "tidegate.io/cpu-request";
    /// CPU that the proxy in a pod may use.
    pub const CPU_LIMIT: &str = "tidegate.io/cpu-limit";
    /// Memory that the proxy in a pod asks for.
    pub const MEMORY_REQUEST: &str = "tidegate.io/memory-request";
    /// Memory that the proxy in a pod may use.
    pub const MEMORY_LIMIT: &str = "tidegate.io/memory-limit";
    /// Ports whose bytes the proxy does not look at.
    pub const OPAQUE_PORTS: &str = "tidegate.io/opaque-ports";
    /// Destination ports that the application reaches past the proxy.
    pub const SKIP_OUTBOUND_PORTS: &str = "tidegate.io/skip-outbound-ports";
    /// Destination subnets that the application reaches past the proxy.
    pub const SKIP_OUTBOUND_SUBNETS: &str = "tidegate.io/skip-outbound-subnets";
    /// Ports of the application that callers reach past the proxy.
    pub const SKIP_INBOUND_PORTS: &str = "tidegate.io/skip-inbound-ports";
    /// Subnets whose callers reach the application past the proxy.
    pub const SKIP_INBOUND_SUBNETS: &str = "tidegate.io/skip-inbound-subnets";
    /// HAZL's load band (outstanding requests per endpoint), understood as an alias of [`LOAD_BAND`].
    pub const HAZL_LOAD_BAND: &str = "balancer.buoyant.io/load-band";
    /// Skipper's opt-out: `false` is an alias of [`LOCALITY_MODE`] `Off`.
    pub const ZALANDO_ZONE_AWARE: &str = "zalando.org/traffic-zone-aware";
    /// Kubernetes' older hint: `Auto` is an alias of [`LOCALITY_MODE`] `Proportional`.
    pub const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
}

/// Headers that proxies add.
pub mod header {
    /// On an answer that a proxy retried: proxies nearer to the caller do not retry it again.
    pub const RETRIED: &str = "tidegate-retried";
    /// On an answer that the proxy itself made: why.
    pub const REASON: &str = "tidegate-reason";
}
