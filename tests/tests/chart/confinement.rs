//! What runs is confined, asks for what it needs, and does not go all at once.

use serde_json::{Value, json};
use tests::chart::{demo, objects, of_kind, project, rendered, values};
use tests::need;
use tests::programs;

/// The pods of all workloads.
fn pods(objects: &[Value]) -> Vec<(String, &Value)> {
    let workloads = ["DaemonSet", "Deployment", "Job", "StatefulSet"];
    let made = workloads.iter().flat_map(|kind| of_kind(objects, kind));
    made.map(|object| {
        let name = object["metadata"]["name"].as_str().unwrap();
        (name.to_owned(), &object["spec"]["template"]["spec"])
    })
    .collect()
}

fn check(name: &str, pod: &Value) {
    let of_pod = &pod["securityContext"];
    assert_eq!(of_pod["runAsNonRoot"], true, "{name}");
    assert!(of_pod["runAsUser"].as_i64().unwrap() > 0, "{name}");
    assert_eq!(of_pod["seccompProfile"], json!({ "type": "RuntimeDefault" }), "{name}");
    for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
        assert!(pod[field].is_null(), "{name}: {field}");
    }
    for container in pod["containers"].as_array().unwrap() {
        let own = &container["securityContext"];
        assert_eq!(own["allowPrivilegeEscalation"], false, "{name}");
        assert_eq!(own["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(own["capabilities"], json!({ "drop": ["ALL"] }), "{name}");
        for request in ["cpu", "memory"] {
            assert!(container["resources"]["requests"][request].is_string(), "{name}: {request}");
        }
        assert!(container["resources"]["limits"]["memory"].is_string(), "{name}");
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        assert!(volume["hostPath"].is_null(), "{name}: {volume}");
    }
}

#[test]
fn every_container_is_confined_and_says_what_it_needs() {
    need!(programs::chart_tool("helm"));
    need!(programs::chart_tool("kubectl"));
    let mut checked = 0;
    let mut texts: Vec<_> =
        values().iter().map(|values| rendered(values.as_deref(), &[])).collect();
    texts.push(demo());
    for text in texts {
        for (name, pod) in pods(&objects(&text)) {
            check(&name, pod);
            checked += 1;
        }
    }
    assert!(checked >= 16, "{checked}");
}

#[test]
fn the_key_of_the_authority_is_the_injectors_alone() {
    need!(programs::chart_tool("helm"));
    let objects = objects(&rendered(None, &[]));
    for (name, pod) in pods(&objects) {
        for volume in pod["volumes"].as_array().into_iter().flatten() {
            let keys: Vec<_> = volume["secret"]["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| &item["key"])
                .collect();
            assert_eq!(keys, ["tls.crt", "tls.key"], "{name}");
        }
    }
}

#[test]
fn the_loss_of_a_node_is_survived_with_the_ha_values() {
    need!(programs::chart_tool("helm"));
    let values = project("charts/tidegate/values-ha.yaml");
    let objects = objects(&rendered(Some(&values), &[]));
    let budgets = of_kind(&objects, "PodDisruptionBudget");
    assert_eq!(budgets.len(), 2);
    for deployment in of_kind(&objects, "Deployment") {
        let labels = &deployment["spec"]["template"]["metadata"]["labels"];
        let selects = |selector: &Value| {
            let wanted = selector["matchLabels"].as_object().unwrap();
            wanted.iter().all(|(key, value)| labels[key] == *value)
        };
        assert!(deployment["spec"]["replicas"].as_i64().unwrap() >= 3);
        let apart = &deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            [0];
        assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
        assert!(selects(&apart["labelSelector"]), "a replica keeps away from its like");
        let spread = &deployment["spec"]["template"]["spec"]["topologySpreadConstraints"][0];
        assert_eq!(spread["topologyKey"], "topology.kubernetes.io/zone");
        assert_eq!(budgets.iter().filter(|budget| selects(&budget["spec"]["selector"])).count(), 1);
    }
}
