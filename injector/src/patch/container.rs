//! The containers and volumes that a pod gets.

use crate::decide::{Plan, Redirect};
use crate::pod::Pod;
use crate::quantity;
use crate::settings::Settings;
use api::names::{PROXY_UID, env, injected, port};
use serde_json::{Map, Value, json};

/// The init container that sets the redirection rules: the one part that is root and may touch the network.
///
/// Where the kubelet looks whether somebody listens, it has to meet the application: the proxy would accept for it, and cannot
/// take that back when nobody listens behind it.
pub(super) fn redirect(pod: &Pod, plan: &Plan, settings: &Settings) -> Value {
    let options = &plan.options;
    let dialled = pod.spec.ports_dialled().into_iter().map(|port| port.to_string());
    let skipped: Vec<String> =
        options.skip_inbound_ports.clone().into_iter().chain(dialled).collect();
    let skipped = (!skipped.is_empty()).then(|| skipped.join(","));
    let mut arguments = vec!["redirect".to_owned()];
    let lists = [
        ("--skip-outbound-ports", &options.skip_outbound_ports),
        ("--skip-outbound-subnets", &options.skip_outbound_subnets),
        ("--skip-inbound-ports", &skipped),
        ("--skip-inbound-subnets", &options.skip_inbound_subnets),
    ];
    for (flag, list) in lists {
        arguments.extend(list.iter().map(|list| format!("{flag}={list}")));
    }
    json!({
        "name": injected::REDIRECT,
        "image": settings.redirect_image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": arguments,
        "resources": resources(plan, settings),
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"] },
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsGroup": 0,
            "runAsNonRoot": false,
            "runAsUser": 0,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{ "mountPath": "/run", "name": injected::RUN_VOLUME }],
    })
}

/// The proxy. It passes Pod Security `restricted`.
pub(super) fn proxy(plan: &Plan, settings: &Settings) -> Value {
    let probe = |path, period: u8, failures: u8| {
        json!({
            "httpGet": { "path": path, "port": injected::ADMIN_PORT },
            "failureThreshold": failures,
            "periodSeconds": period,
            "timeoutSeconds": 2,
        })
    };
    let mut ports = vec![
        json!({ "containerPort": port::ADMIN, "name": injected::ADMIN_PORT, "protocol": "TCP" }),
    ];
    if plan.redirect == Redirect::Rules {
        ports.push(
            json!({ "containerPort": port::INBOUND, "name": "tidegate-in", "protocol": "TCP" }),
        );
    }
    json!({
        "name": injected::PROXY,
        "image": plan.options.image.as_ref().unwrap_or(&settings.proxy_image),
        "imagePullPolicy": settings.image_pull_policy,
        "env": variables(plan, settings),
        "livenessProbe": probe("/live", 10, 3),
        "ports": ports,
        "readinessProbe": probe("/ready", 2, 3),
        "resources": resources(plan, settings),
        "restartPolicy": "Always",
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsGroup": PROXY_UID,
            "runAsNonRoot": true,
            "runAsUser": PROXY_UID,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "startupProbe": probe("/ready", 1, 60),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{ "mountPath": injected::TOKEN_FOLDER, "name": injected::TOKEN_VOLUME, "readOnly": true }],
    })
}

fn variables(plan: &Plan, settings: &Settings) -> Vec<Value> {
    let options = &plan.options;
    let token = format!("{}/token", injected::TOKEN_FOLDER);
    let workers = settings.proxy_workers.to_string();
    let values = [
        (env::ADMIN, Some(&settings.proxy_admin)),
        (env::CONTROLLER, Some(&settings.proxy_controller)),
        (env::CONTROLLER_CA, settings.proxy_controller_ca.as_ref()),
        (env::CONTROLLER_TOKEN, Some(&token)),
        (env::LOG_FORMAT, Some(&settings.proxy_log_format)),
        (env::LOG_LEVEL, Some(options.log_level.as_ref().unwrap_or(&settings.proxy_log_level))),
        (env::OPAQUE_PORTS, options.opaque_ports.as_ref()),
        (env::REGION, options.region.as_ref()),
        (env::WORKERS, Some(&workers)),
        (env::ZONE, options.zone.as_ref()),
    ];
    let mut variables: Vec<Value> = values
        .into_iter()
        .filter_map(|(name, value)| Some(json!({ "name": name, "value": value? })))
        .collect();
    if plan.ingress {
        variables.push(json!({ "name": env::INGRESS, "value": "true" }));
    }
    let node = json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "spec.nodeName" } });
    variables.push(json!({ "name": env::NODE, "valueFrom": node }));
    variables
}

fn resources(plan: &Plan, settings: &Settings) -> Value {
    let options = &plan.options;
    let demanded = plan.cpu_limited.then(|| "1".to_owned());
    let cpu = Amount {
        request: Chosen::new(options.cpu_request.as_ref(), Some(&settings.proxy_cpu_request)),
        limit: Chosen::new(
            options.cpu_limit.as_ref(),
            settings.proxy_cpu_limit.as_ref().or(demanded.as_ref()),
        ),
    };
    let memory = Amount {
        request: Chosen::new(options.memory_request.as_ref(), Some(&settings.proxy_memory_request)),
        limit: Chosen::new(options.memory_limit.as_ref(), Some(&settings.proxy_memory_limit)),
    };
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for (name, amount) in [("cpu", cpu), ("memory", memory)] {
        let (request, limit) = amount.agreed();
        requests.extend(request.map(|value| (name.to_owned(), json!(value))));
        limits.extend(limit.map(|value| (name.to_owned(), json!(value))));
    }
    json!({ "limits": limits, "requests": requests })
}

/// A value, and whether the pod itself asks for it.
#[derive(Clone, Copy)]
struct Chosen<'a> {
    value: Option<&'a String>,
    by_pod: bool,
}

impl<'a> Chosen<'a> {
    fn new(of_pod: Option<&'a String>, otherwise: Option<&'a String>) -> Self {
        Self { value: of_pod.or(otherwise), by_pod: of_pod.is_some() }
    }
}

#[derive(Clone, Copy)]
struct Amount<'a> {
    request: Chosen<'a>,
    limit: Chosen<'a>,
}

impl<'a> Amount<'a> {
    /// Request and limit. The API server refuses a request above its limit: then what the pod itself asks for holds for both,
    /// and of two of one origin the request.
    fn agreed(self) -> (Option<&'a String>, Option<&'a String>) {
        let (Some(request), Some(limit)) = (self.request.value, self.limit.value) else {
            return (self.request.value, self.limit.value);
        };
        if quantity::amount(request) <= quantity::amount(limit) {
            (Some(request), Some(limit))
        } else if self.limit.by_pod && !self.request.by_pod {
            (Some(limit), Some(limit))
        } else {
            (Some(request), Some(request))
        }
    }
}

/// The token that tells the controller which pod this is. The controller alone accepts it, and for an hour.
pub(super) fn token_volume() -> Value {
    let token =
        json!({ "audience": injected::TOKEN_AUDIENCE, "expirationSeconds": 3600, "path": "token" });
    json!({
        "name": injected::TOKEN_VOLUME,
        "projected": { "defaultMode": 0o444, "sources": [{ "serviceAccountToken": token }] },
    })
}

/// Where iptables puts its lock file, on a read-only root.
pub(super) fn run_volume() -> Value {
    json!({ "name": injected::RUN_VOLUME, "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } })
}
