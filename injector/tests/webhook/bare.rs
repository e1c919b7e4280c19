//! Pods without the proxy where it is asked for.

use crate::cluster::Cluster;
use crate::support::{client, until};
use injector::bare::Watch;
use injector::namespaces::Namespaces;
use injector::pod::PodSecurity;
use serde_json::{Value, json};

fn pod(namespace: &str, name: &str, metadata: &Value, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "uid": format!("{name}-0123-4567"), "resourceVersion": "1" },
        "spec": { "containers": [{ "name": "web" }] }, "status": { "phase": "Running" },
    });
    json_patch::merge(&mut pod, &json!({ "metadata": metadata }));
    json_patch::merge(&mut pod, more);
    pod
}

#[tokio::test]
async fn each_pod_that_lacks_the_proxy_is_told_once_whatever_the_number_of_replicas() {
    let enabled = json!({ "tidegate.io/inject": "enabled" });
    let cluster = Cluster::start(&[
        ("shop", enabled.clone()),
        ("other", json!({})),
        ("kube-system", enabled),
    ])
    .await;
    let none = json!({});
    cluster.state.lock().pods = vec![
        pod("shop", "old", &none, &none),
        pod("shop", "node", &none, &json!({ "spec": { "hostNetwork": true } })),
        pod("shop", "meshed", &json!({ "annotations": { "tidegate.io/injected": "1" } }), &none),
        pod("shop", "out", &json!({ "labels": { "tidegate.io/inject": "disabled" } }), &none),
        pod("shop", "done", &none, &json!({ "status": { "phase": "Succeeded" } })),
        pod("other", "foreign", &none, &none),
        pod("kube-system", "dns", &none, &none),
    ];
    for _ in 0..2 {
        let (namespaces, watch) = Namespaces::watch(client(&cluster));
        tokio::spawn(watch);
        namespaces.synced().await;
        let watch = Watch {
            client: client(&cluster),
            namespaces,
            excluded: vec!["kube-system".to_owned()],
            pod_security_default: PodSecurity::Privileged,
        };
        tokio::spawn(watch.run());
    }
    // Both replicas have told both: four attempts, of which two came first.
    until("both replicas have told all", async || {
        let state = cluster.state.lock();
        let attempts = state.asked.iter().filter(|asked| asked.ends_with("/events")).count();
        (attempts == 4).then_some(())
    })
    .await;
    let state = cluster.state.lock();
    let mut told: Vec<_> = state
        .events
        .iter()
        .map(|event| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            assert_eq!(event["involvedObject"]["kind"], "Pod");
            (text(&event["involvedObject"]["name"]), text(&event["reason"]), text(&event["type"]))
        })
        .collect();
    told.sort();
    let expected = [("node", "ProxyNotAdded", "Warning"), ("old", "ProxyMissing", "Warning")];
    let expected =
        expected.map(|(name, reason, kind)| (name.to_owned(), reason.to_owned(), kind.to_owned()));
    assert_eq!(told, expected);
    let read = state.asked.iter().filter(|asked| asked.contains("/pods/")).count();
    assert_eq!(read, 6, "three pods were read, once by each replica: {:?}", state.asked);
}
