//! Manifests in, manifests out.

use crate::support::settings;
use injector::offline::inject_manifest;
use serde_json::Value;

const STREAM: &str = r#"# The shop.
apiVersion: v1
kind: Namespace
metadata:
  name: strict
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: v1
kind: Service # stays as it is
metadata: {name: web, namespace: shop}
spec:
  ports: [{port: 80}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web, version: "1.10", off: y, on: "yes", empty: ""}
      annotations: {tidegate.io/load-band: "1.2,1.5", note: "multi\nline: text # no comment"}
    spec:
      volumes: [{name: data, emptyDir: {}}, {name: secret, secret: {secretName: x, defaultMode: 0440}}]
      containers:
        - {name: n, volumeMounts: [{name: data, mountPath: /data, readOnly: true}]}
        - {name: web, image: "web:1", args: ["--port", "8080", "0x10", "~", "null", "1e3"]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: locked, namespace: strict}
spec: {template: {spec: {containers: [{name: db}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec: {jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: report}]}}}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec: {template: {spec: {containers: [{name: agent}]}}}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [{name: app}]}}
  - {apiVersion: batch/v1, kind: Job, metadata: {name: two}, spec: {template: {metadata: {annotations: {tidegate.io/log-levl: debug}}, spec: {hostNetwork: true, containers: [{name: app}]}}}}
---
# nothing here
"#;

#[test]
fn every_workload_of_a_stream_gets_the_proxy() {
    let injected = inject_manifest(STREAM, &settings()).unwrap();
    insta::assert_snapshot!(injected.notes.join("\n"));
    insta::assert_snapshot!(injected.manifest);
}

#[test]
fn values_survive_being_written_again() {
    let injected = inject_manifest(STREAM, &settings()).unwrap().manifest;
    let deployment = |manifest: &str| {
        let text = manifest.split("---\n").find(|text| text.contains("Deployment")).unwrap();
        serde_saphyr::from_str_with_options::<Value>(
            text,
            serde_saphyr::options! { strict_booleans: true },
        )
        .unwrap()
    };
    let (before, after) = (deployment(STREAM), deployment(&injected));
    for path in ["/spec/template/metadata/labels", "/spec/template/spec/containers", "/metadata"] {
        assert_eq!(before.pointer(path).unwrap(), after.pointer(path).unwrap());
    }
    assert_eq!(
        after.pointer("/spec/template/spec/volumes/1/secret/defaultMode").unwrap(),
        0o440,
        "octal, as to kubectl"
    );
    let annotations = |value: &Value| value["spec"]["template"]["metadata"]["annotations"].clone();
    assert_eq!(annotations(&before)["note"], annotations(&after)["note"]);
}

#[test]
fn a_manifest_that_has_the_proxy_is_left_as_it_is_to_the_byte() {
    let once = inject_manifest(STREAM, &settings()).unwrap().manifest;
    let twice = inject_manifest(&once, &settings()).unwrap();
    assert_eq!(twice.manifest, once);
    assert!(twice.notes.iter().all(|note| !note.contains("proxy added")), "{:?}", twice.notes);
}

#[test]
fn json_is_taken_too() {
    let pod =
        r#"{"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "x"}]}}"#;
    assert_eq!(inject_manifest(pod, &settings()).unwrap().notes, ["Pod x: proxy added"]);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let told = |manifest: &str| inject_manifest(manifest, &settings()).unwrap_err().to_string();
    let yaml = told("kind: Pod\n---\nkind: [\n");
    assert!(yaml.starts_with("line 3: "), "{yaml}");
    let object = told("kind: Pod\nmetadata: {name: x, namespace: n}\nspec: {containers: many}\n");
    assert!(object.starts_with("Pod n/x: "), "{object}");
}
