//! The change that gives a pod the proxy, as a JSON patch (RFC 6902).
//!
//! The proxy is a native sidecar: an init container that goes on running. It stands right after the one that sets the rules
//! and before all others, so that every container of the application finds the network up, and a Job ends when its own
//! containers do.

mod container;

use crate::decide::{Plan, Redirect};
use crate::pod::{Container, Pod};
use crate::settings::Settings;
use api::names::{annotation, port};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::{Value, json};

/// The change for a pod that `decide` wants to have the proxy. `pod` must be the view of the pod that the patch is for.
pub fn patch(pod: &Pod, plan: &Plan, settings: &Settings) -> Patch {
    let mut changes = Changes::default();
    if plan.redirect == Redirect::Variables {
        // Before containers are put in front of these, since their places count.
        variables(&mut changes, "initContainers", &pod.spec.init_containers);
        variables(&mut changes, "containers", &pod.spec.containers);
    }
    containers(&mut changes, pod, plan, settings);
    volumes(&mut changes, pod, plan);
    let version = env!("CARGO_PKG_VERSION");
    if pod.metadata.annotations.is_empty() {
        changes.add(&["metadata", "annotations"], json!({ annotation::INJECTED: version }));
    } else {
        changes.add(&["metadata", "annotations", annotation::INJECTED], json!(version));
    }
    Patch(changes.0)
}

#[derive(Default)]
struct Changes(Vec<PatchOperation>);

impl Changes {
    /// Adds at a path, or replaces what is there if that is an object's member.
    fn add(&mut self, path: &[&str], value: Value) {
        let path = PointerBuf::from_tokens(path.iter().copied());
        self.0.push(PatchOperation::Add(AddOperation { path, value }));
    }
}

fn containers(changes: &mut Changes, pod: &Pod, plan: &Plan, settings: &Settings) {
    let mut added = Vec::new();
    if plan.redirect == Redirect::Rules {
        added.push(container::redirect(pod, plan, settings));
    }
    added.push(container::proxy(plan, settings));
    if pod.spec.init_containers.is_empty() {
        changes.add(&["spec", "initContainers"], Value::Array(added));
        return;
    }
    for container in added.into_iter().rev() {
        changes.add(&["spec", "initContainers", "0"], container);
    }
}

fn volumes(changes: &mut Changes, pod: &Pod, plan: &Plan) {
    let mut added = vec![container::token_volume()];
    if plan.redirect == Redirect::Rules {
        added.push(container::run_volume());
    }
    let there =
        |volume: &Value| pod.spec.volumes.iter().any(|other| volume["name"] == other.name.as_str());
    added.retain(|volume| !there(volume));
    if pod.spec.volumes.is_empty() {
        changes.add(&["spec", "volumes"], Value::Array(added));
        return;
    }
    for volume in added {
        changes.add(&["spec", "volumes", "-"], volume);
    }
}

/// Points the HTTP clients of the containers to the proxy, where nobody has pointed them elsewhere. Only plain HTTP: a TLS
/// client would ask for a tunnel to a name that the proxy does not know.
fn variables(changes: &mut Changes, list: &str, containers: &[Container]) {
    let proxy = format!("http://127.0.0.1:{}", port::OUTBOUND);
    let local = "localhost,127.0.0.1,::1".to_owned();
    // Clients differ in which of the two spellings they read; curl reads only the small one.
    let wanted = [
        ("HTTP_PROXY", &proxy),
        ("http_proxy", &proxy),
        ("NO_PROXY", &local),
        ("no_proxy", &local),
    ];
    for (index, container) in containers.iter().enumerate() {
        let index = index.to_string();
        let named =
            |name: &str| container.env.iter().any(|other| other.name.eq_ignore_ascii_case(name));
        if named("HTTP_PROXY") {
            continue;
        }
        let added: Vec<Value> = wanted
            .iter()
            .filter(|(name, _)| !named(name))
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        if container.env.is_empty() {
            changes.add(&["spec", list, &index, "env"], Value::Array(added));
            continue;
        }
        for variable in added {
            changes.add(&["spec", list, &index, "env", "-"], variable);
        }
    }
}
