//! Which pods get the proxy, in which form, and that nothing else of them changes.

use crate::support::{injected, namespace, settings, verdict};
use injector::decide::{Redirect, Verdict};
use injector::pod::PodSecurity;
use serde_json::{Value, json};

fn pod(metadata: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "generateName": "web-", "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": "web:1", "ports": [{ "containerPort": 8080 }] }] },
    });
    json_patch::merge(&mut pod, &json!({ "metadata": metadata, "spec": spec }));
    pod
}

#[test]
fn a_plain_pod_gets_rules_and_a_native_sidecar() {
    insta::assert_json_snapshot!(injected(&pod(&json!({}), &json!({})), PodSecurity::Privileged));
}

#[test]
fn the_proxy_stands_before_the_init_containers_of_the_application() {
    let init = json!({ "initContainers": [{ "name": "migrate" }, { "name": "warm-up" }], "volumes": [{ "name": "data" }] });
    let pod = injected(
        &pod(&json!({ "annotations": { "team": "shop" } }), &init),
        PodSecurity::Privileged,
    );
    let names: Vec<&str> = pod["spec"]["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["tidegate-redirect", "tidegate-proxy", "migrate", "warm-up"]);
    assert_eq!(pod["metadata"]["annotations"]["team"], "shop");
    assert_eq!(pod["spec"]["volumes"].as_array().unwrap().len(), 3);
}

#[test]
fn annotations_go_before_the_installation() {
    let annotations = json!({ "annotations": {
        "tidegate.io/proxy-image": "registry.example/proxy:2",
        "tidegate.io/log-level": "debug",
        "tidegate.io/cpu-request": "200m",
        "tidegate.io/cpu-limit": "2",
        "tidegate.io/memory-request": "64Mi",
        "tidegate.io/memory-limit": "512Mi",
        "tidegate.io/opaque-ports": "3306, 4444",
        "tidegate.io/skip-outbound-ports": "25,8000-8010",
        "tidegate.io/skip-outbound-subnets": "10.1.0.0/16, fd00::/8",
        "tidegate.io/skip-inbound-ports": "9000",
        "tidegate.io/skip-inbound-subnets": "10.2.0.1",
        "tidegate.io/zone": "a",
        "tidegate.io/region": "r1",
    } });
    let pod = injected(&pod(&annotations, &json!({})), PodSecurity::Privileged);
    let [redirect, proxy] = [0, 1].map(|index| pod["spec"]["initContainers"][index].clone());
    let picked = json!({
        "rules": redirect["args"], "image": proxy["image"], "env": proxy["env"], "resources": proxy["resources"],
    });
    insta::assert_json_snapshot!(picked);
}

/// The kubelet connects and hangs up: answered by the proxy, it would take an application for ready that does not listen yet.
#[test]
fn ports_that_the_kubelet_only_dials_are_left_to_the_application() {
    let annotations = json!({ "annotations": { "tidegate.io/skip-inbound-ports": "9000-9010" } });
    let probe = |port: Value| json!({ "tcpSocket": { "port": port } });
    let spec = json!({
        "initContainers": [{ "name": "sidecar", "restartPolicy": "Always", "startupProbe": probe(json!(7000)) }],
        "containers": [
            {
                "name": "database", "ports": [{ "name": "sql", "containerPort": 5432 }],
                "readinessProbe": probe(json!("sql")), "livenessProbe": probe(json!(5433)),
            },
            { "name": "web", "readinessProbe": { "httpGet": { "port": 8080 } }, "livenessProbe": probe(json!("nowhere")) },
        ],
    });
    let rules = |metadata: &Value, spec: &Value| {
        let pod = injected(&pod(metadata, spec), PodSecurity::Privileged);
        pod["spec"]["initContainers"][0]["args"].clone()
    };
    assert_eq!(
        rules(&annotations, &spec),
        json!(["redirect", "--skip-inbound-ports=9000-9010,5432,5433,7000"])
    );
    assert_eq!(
        rules(
            &json!({}),
            &json!({ "containers": [{ "name": "web", "startupProbe": probe(json!(80)) }] })
        ),
        json!(["redirect", "--skip-inbound-ports=80"])
    );
}

#[test]
fn without_rules_the_http_clients_are_pointed_to_the_proxy() {
    let metadata = json!({ "annotations": { "tidegate.io/redirect": "none" } });
    let spec = json!({ "containers": [
        { "name": "web" },
        { "name": "own-proxy", "env": [{ "name": "http_proxy", "value": "http://squid:3128" }] },
    ] });
    for level in [PodSecurity::Privileged, PodSecurity::Baseline, PodSecurity::Restricted] {
        let pod = injected(&pod(&metadata, &spec), level);
        let init = pod["spec"]["initContainers"].as_array().unwrap();
        assert_eq!(init.len(), 1, "no container that needs capabilities");
        assert_eq!(init[0]["name"], "tidegate-proxy");
        insta::allow_duplicates! { insta::assert_json_snapshot!(pod["spec"]["containers"]); }
    }
}

#[test]
fn a_gateway_routes_by_host() {
    let pod = injected(
        &pod(&json!({ "labels": { "tidegate.io/inject": "ingress" } }), &json!({})),
        PodSecurity::Privileged,
    );
    let env = pod["spec"]["initContainers"][1]["env"].as_array().unwrap();
    assert!(env.contains(&json!({ "name": "TIDEGATE_INGRESS", "value": "true" })), "{env:?}");
}

#[test]
fn pods_that_would_break_are_left_alone_with_the_reason() {
    let container = |name: &str, port: u16| json!({ "containers": [{ "name": name, "ports": [{ "containerPort": port }] }] });
    let none = json!({});
    let cases = [
        (json!({ "labels": { "tidegate.io/inject": "disabled" } }), none.clone()),
        (none.clone(), json!({ "hostNetwork": true })),
        (none.clone(), json!({ "os": { "name": "windows" } })),
        (none.clone(), json!({ "nodeSelector": { "kubernetes.io/os": "windows" } })),
        (none.clone(), container("linkerd-proxy", 4143)),
        (
            none.clone(),
            json!({ "initContainers": [{ "name": "istio-proxy", "restartPolicy": "Always" }] }),
        ),
        (none.clone(), container("web", 4240)),
        (none.clone(), container("web", 4291)),
        (none, container("tidegate-proxy", 1)),
    ];
    let lines: Vec<String> = cases
        .iter()
        .map(|(metadata, spec)| match verdict(&pod(metadata, spec), PodSecurity::Privileged) {
            (Verdict::Skip(skip), _) => format!(
                "{} {}: {skip}",
                skip.name(),
                if skip.is_surprise() { "(told)" } else { "" }
            ),
            (Verdict::Inject(plan), _) => format!("injected: {plan:?}"),
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn pod_security_never_refuses_a_pod_because_of_us() {
    for level in [PodSecurity::Baseline, PodSecurity::Restricted] {
        let (verdict, _) = verdict(&pod(&json!({}), &json!({})), level);
        let Verdict::Skip(skip) = verdict else { panic!("{level:?}: injected") };
        assert_eq!(skip.name(), "pod_security");
    }
    assert_eq!(
        PodSecurity::parse("nonsense"),
        PodSecurity::Restricted,
        "as the API server reads it"
    );
    let labelled =
        [("pod-security.kubernetes.io/enforce".to_owned(), "baseline".to_owned())].into();
    let namespace = injector::pod::Namespace::new("shop", &labelled, PodSecurity::Privileged);
    assert_eq!(namespace.pod_security, PodSecurity::Baseline);
}

#[test]
fn mistakes_are_warnings_that_say_what_to_write() {
    let annotations = json!({
        "labels": { "tidegate.io/inject": "yes" },
        "annotations": {
            "tidegate.io/skip-outbound-port": "25",
            "tidegate.io/log-levle": "debug",
            "tidegate.io/purple": "1",
            "tidegate.io/inject": "disabled",
            "tidegate.io/redirect": "off",
            "tidegate.io/opaque-ports": "0,mysql",
            "tidegate.io/skip-inbound-ports": "9-8",
            "tidegate.io/skip-inbound-subnets": "10.0.0.0/64",
            "tidegate.io/memory-limit": "12Q",
            "tidegate.io/cpu-limit": "-1\u{1b}[2J",
            "tidegate.io/load-band": "1.2,1.5",
            "other.io/redirect": "off",
        },
    });
    let spec = json!({ "securityContext": { "runAsUser": 4242 } });
    let (verdict, warnings) = verdict(&pod(&annotations, &spec), PodSecurity::Privileged);
    let Verdict::Inject(plan) = verdict else { panic!("a mistake keeps no pod from the proxy") };
    assert_eq!(plan.redirect, Redirect::Rules);
    insta::assert_snapshot!(warnings.join("\n"));
    assert!(warnings.iter().all(|warning| warning.len() <= 256), "the API server cuts longer ones");
    assert!(warnings.iter().all(|warning| !warning.contains('\u{1b}')), "no terminal is steered");
}

#[test]
fn a_request_is_never_above_its_limit() {
    let cases = [
        (json!({ "tidegate.io/memory-request": "1Gi" }), "memory", "1Gi", "1Gi"),
        (json!({ "tidegate.io/memory-limit": "16Mi" }), "memory", "16Mi", "16Mi"),
        (
            json!({ "tidegate.io/memory-limit": "64Mi", "tidegate.io/memory-request": "1G" }),
            "memory",
            "1G",
            "1G",
        ),
        (json!({ "tidegate.io/cpu-limit": "10m" }), "cpu", "10m", "10m"),
    ];
    for (annotations, name, request, limit) in cases {
        let pod = injected(
            &pod(&json!({ "annotations": annotations }), &json!({})),
            PodSecurity::Privileged,
        );
        let resources = &pod["spec"]["initContainers"][1]["resources"];
        assert_eq!(resources["requests"][name], request, "{annotations}");
        assert_eq!(resources["limits"][name], limit, "{annotations}");
    }
}

#[test]
fn a_quota_for_cpu_limits_is_met_where_the_application_meets_it() {
    let limited =
        json!({ "containers": [{ "name": "web", "resources": { "limits": { "cpu": "1" } } }] });
    let with = injected(&pod(&json!({}), &limited), PodSecurity::Privileged);
    let without = injected(&pod(&json!({}), &json!({})), PodSecurity::Privileged);
    let limit =
        |pod: &Value| pod["spec"]["initContainers"][1]["resources"]["limits"]["cpu"].clone();
    assert_eq!((limit(&with), limit(&without)), (json!("1"), Value::Null));
}

#[test]
fn what_is_no_pod_is_an_error() {
    for junk in [json!({ "spec": { "containers": "many" } }), json!(7)] {
        assert!(
            injector::inject::inject(&junk, &namespace(PodSecurity::Privileged), &settings())
                .is_err(),
            "{junk}"
        );
    }
}

#[test]
fn the_annotations_table_holds_every_key_once() {
    let mut keys: Vec<&str> = api::annotations::KEYS.iter().map(|key| key.name).collect();
    keys.sort_unstable();
    let count = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), count);
    assert_eq!(api::annotations::markdown().lines().count(), count + 2);
}
