//! What is answered.

use crate::caller::{connect, pod, review};
use crate::cluster::Cluster;
use crate::support::{own, replica, terms};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

const YEAR: Duration = Duration::from_hours(365 * 24);

/// A cluster, a webhook for it, and the bundle that vouches for it.
async fn start() -> (Cluster, SocketAddr, String) {
    let cluster = Cluster::start(&[
        ("shop", json!({ "tidegate.io/inject": "enabled" })),
        ("strict", json!({ "pod-security.kubernetes.io/enforce": "restricted" })),
    ])
    .await;
    let source = own(&cluster, terms(YEAR, 10 * YEAR));
    let mut replica = replica(&cluster, source).await;
    Box::pin(replica.keeper.round()).await.unwrap();
    let bundle = cluster.state.lock().bundle.clone().unwrap();
    (cluster, replica.address, bundle)
}

/// The pod that an answer makes of one.
fn patched(pod: &Value, answer: &Value) -> Value {
    let bytes: Vec<u8> = serde_json::from_value(answer["patch"].clone()).unwrap();
    let patch: json_patch::Patch = serde_json::from_slice(&bytes).unwrap();
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

#[tokio::test]
async fn a_pod_gets_the_proxy_and_its_author_the_warnings() {
    let (_cluster, address, bundle) = start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut connection = connect(address, &bundle, alpn).await.unwrap();
        let asked = pod(&json!({ "tidegate.io/log-levle": "debug" }));
        let answer = connection.review("shop", &asked).await.unwrap();
        assert_eq!(answer["allowed"], true);
        assert_eq!(answer["uid"], "705ab4f5-6393-11e8-b7cc-42010a800002");
        assert_eq!(answer["patchType"], "JSONPatch");
        let warning = "tidegate: no such annotation: tidegate.io/log-levle; did you mean tidegate.io/log-level?";
        assert_eq!(answer["warnings"], json!([warning]));
        let pod = patched(&asked, &answer);
        let proxy = &pod["spec"]["initContainers"][1];
        assert_eq!(proxy["name"], "tidegate-proxy");
        let authority = json!({ "name": "TIDEGATE_CONTROLLER_CA", "value": bundle });
        assert!(proxy["env"].as_array().unwrap().contains(&authority), "{}", proxy["env"]);
        let again = connection.review("shop", &pod).await.unwrap();
        assert_eq!((&again["patch"], &again["warnings"]), (&Value::Null, &Value::Null));
    }
}

#[tokio::test]
async fn pods_are_left_alone_with_a_reason_and_never_refused() {
    let (_cluster, address, bundle) = start().await;
    let mut connection = connect(address, &bundle, "h2").await.unwrap();
    let answer = connection.review("strict", &pod(&json!({}))).await.unwrap();
    assert_eq!((&answer["allowed"], &answer["patch"]), (&json!(true), &Value::Null));
    let warning = answer["warnings"][0].as_str().unwrap();
    assert!(warning.contains("Pod Security restricted refuses NET_ADMIN"), "{warning}");
    assert!(warning.len() <= 256, "the API server cuts longer ones: {warning}");

    let without_rules = pod(&json!({ "tidegate.io/redirect": "none" }));
    let answer = connection.review("strict", &without_rules).await.unwrap();
    assert_eq!(
        patched(&without_rules, &answer)["spec"]["initContainers"][0]["name"],
        "tidegate-proxy"
    );

    for namespace in ["kube-system", "tidegate"] {
        let answer = connection.review(namespace, &pod(&json!({}))).await.unwrap();
        assert_eq!(
            (&answer["allowed"], &answer["patch"]),
            (&json!(true), &Value::Null),
            "{namespace}"
        );
    }
}

#[tokio::test]
async fn a_namespace_that_was_made_a_moment_ago_is_looked_up() {
    let (cluster, address, bundle) = start().await;
    let mut connection = connect(address, &bundle, "h2").await.unwrap();
    let new = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "new", "labels": { "pod-security.kubernetes.io/enforce": "baseline" } } });
    cluster.state.lock().namespaces.push(new);
    let answer = connection.review("new", &pod(&json!({}))).await.unwrap();
    assert!(answer["warnings"][0].as_str().unwrap().contains("Pod Security baseline"), "{answer}");
}

#[tokio::test]
async fn what_cannot_be_decided_is_a_failed_call() {
    let (_cluster, address, bundle) = start().await;
    let mut other_version = review("shop", &pod(&json!({})));
    other_version["apiVersion"] = json!("admission.k8s.io/v1beta1");
    let mut other_kind = review("shop", &pod(&json!({})));
    other_kind["request"]["resource"]["resource"] = json!("services");
    let mut deletion = review("shop", &pod(&json!({})));
    deletion["request"]["operation"] = json!("DELETE");
    let no_pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": { "containers": "many" } });
    let cases = [
        (Method::GET, "/inject", String::new(), StatusCode::METHOD_NOT_ALLOWED, "only POST here"),
        (Method::POST, "/", String::new(), StatusCode::NOT_FOUND, "reviews go to /inject"),
        (
            Method::POST,
            "/inject",
            "junk".to_owned(),
            StatusCode::BAD_REQUEST,
            "not an AdmissionReview",
        ),
        (Method::POST, "/inject", other_version.to_string(), StatusCode::BAD_REQUEST, "v1beta1"),
        (Method::POST, "/inject", other_kind.to_string(), StatusCode::BAD_REQUEST, "services"),
        (Method::POST, "/inject", deletion.to_string(), StatusCode::BAD_REQUEST, "Delete"),
        (
            Method::POST,
            "/inject",
            review("shop", &no_pod).to_string(),
            StatusCode::UNPROCESSABLE_ENTITY,
            "not a pod",
        ),
        (
            Method::POST,
            "/inject",
            review("nowhere", &pod(&json!({}))).to_string(),
            StatusCode::SERVICE_UNAVAILABLE,
            "namespace nowhere",
        ),
        (Method::POST, "/inject", " ".repeat(5 * 1024 * 1024), StatusCode::PAYLOAD_TOO_LARGE, ""),
    ];
    for (method, path, body, status, text) in cases {
        let mut connection = connect(address, &bundle, "h2").await.unwrap();
        let shown: String = body.chars().take(80).collect();
        let (found, answer) = connection.send(method, path, body).await.unwrap();
        assert_eq!(found, status, "{path} {shown}: {answer}");
        assert!(answer.contains(text), "{path} {shown}: {answer}");
    }
    let mut connection = connect(address, &bundle, "h2").await.unwrap();
    assert!(connection.review("shop", &pod(&json!({}))).await.is_ok(), "others are answered");
}
