//! Injecting twice is injecting once, over generated pods. `SEED` repeats a run.

use crate::support::injection;
use fastrand::Rng;
use injector::decide::{Skip, Verdict};
use injector::pod::PodSecurity;
use injector::quantity;
use serde_json::{Map, Value, json};

const PODS: usize = 500;

#[test]
fn injecting_again_changes_nothing() {
    #[expect(clippy::disallowed_methods, reason = "repeats a run of this test")]
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let (mut patched, mut skipped) = (0, 0);
    for number in 0..PODS {
        let level = *rng
            .choice(
                [PodSecurity::Privileged, PodSecurity::Baseline, PodSecurity::Restricted].iter(),
            )
            .unwrap();
        let before = pod(&mut rng);
        let Some(patch) = injection(&before, level).patch else {
            skipped += 1;
            continue;
        };
        patched += 1;
        let mut after = before.clone();
        json_patch::patch(&mut after, &patch)
            .unwrap_or_else(|error| panic!("pod {number}: {error}: {before}"));
        check(&before, &after, level, number);
        for _ in 0..3 {
            let again = injection(&after, level);
            assert_eq!(again.decision.verdict, Verdict::Skip(Skip::Injected), "pod {number}");
            assert!(again.patch.is_none(), "pod {number}: {after}");
            // Another webhook may put its own container anywhere.
            rng.shuffle(after["spec"]["initContainers"].as_array_mut().unwrap());
        }
    }
    println!("{patched} patched, {skipped} left as they are");
    assert!(patched > PODS / 4 && skipped > PODS / 10, "the generator makes both kinds");
}

/// What holds for every pod that got the proxy.
fn check(before: &Value, after: &Value, level: PodSecurity, number: usize) {
    let init = after["spec"]["initContainers"].as_array().unwrap();
    let names: Vec<&str> =
        init.iter().map(|container| container["name"].as_str().unwrap()).collect();
    let rules = names[0] == "tidegate-redirect";
    let proxy = &init[usize::from(rules)];
    assert_eq!(
        proxy["name"], "tidegate-proxy",
        "pod {number}: right after the rules, before all others: {names:?}"
    );
    assert_eq!(proxy["restartPolicy"], "Always");
    assert!(proxy["startupProbe"].is_object());
    assert!(!rules || level == PodSecurity::Privileged, "pod {number}: would be refused");
    restricted(proxy);
    let kept: Vec<Value> = init[1 + usize::from(rules)..].to_vec();
    let own = |pod: &Value, list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    if rules {
        assert_eq!(kept, own(before, "initContainers"), "pod {number}");
        assert_eq!(own(after, "containers"), own(before, "containers"), "pod {number}");
    }
    assert_eq!(own(after, "containers").len(), own(before, "containers").len());
    let volumes: Vec<Value> =
        own(after, "volumes").iter().map(|volume| volume["name"].clone()).collect();
    assert!(
        volumes.iter().all(|name| volumes.iter().filter(|other| *other == name).count() == 1),
        "{volumes:?}"
    );
    for (name, request) in proxy["resources"]["requests"].as_object().unwrap() {
        let limit = proxy["resources"]["limits"][name].as_str().and_then(quantity::amount);
        assert!(
            limit.is_none_or(|limit| quantity::amount(request.as_str().unwrap()).unwrap() <= limit),
            "pod {number}"
        );
    }
    let mut plain = after.clone();
    for list in ["initContainers", "containers", "volumes"] {
        plain["spec"][list] = before["spec"][list].clone();
    }
    plain["metadata"]["annotations"] = before["metadata"]["annotations"].clone();
    let null = |mut pod: Value| {
        json_patch::merge(&mut pod, &json!({})); // same shape for absent and null
        pod["spec"]["initContainers"].take();
        pod["spec"]["volumes"].take();
        pod["metadata"]["annotations"].take();
        pod
    };
    assert_eq!(null(plain), null(before.clone()), "pod {number}: nothing else changes");
}

/// What Pod Security `restricted` asks of a container.
fn restricted(container: &Value) {
    let context = &container["securityContext"];
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["runAsNonRoot"], true);
    assert_ne!(context["runAsUser"], 0);
    assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(context["readOnlyRootFilesystem"], true);
}

fn pod(rng: &mut Rng) -> Value {
    let mut metadata = Map::new();
    metadata.insert("generateName".into(), "web-".into());
    let label = *rng
        .choice(
            [None, None, None, Some("enabled"), Some("ingress"), Some("disabled"), Some("?")]
                .iter(),
        )
        .unwrap();
    if let Some(label) = label {
        metadata.insert("labels".into(), json!({ "tidegate.io/inject": label }));
    }
    if rng.bool() {
        metadata.insert("annotations".into(), annotations(rng));
    }
    let mut spec = Map::new();
    let count = rng.usize(1..4);
    spec.insert("containers".into(), containers(rng, "app", count));
    for list in ["initContainers", "volumes"] {
        match rng.u8(0..4) {
            0 => spec.insert(list.into(), json!([])),
            1 => spec.insert(list.into(), Value::Null),
            2 => spec.insert(
                list.into(),
                if list == "volumes" {
                    json!([{ "name": "data", "emptyDir": {} }])
                } else {
                    containers(rng, "init", 2)
                },
            ),
            _ => None,
        };
    }
    if rng.u8(0..10) == 0 {
        spec.insert("hostNetwork".into(), true.into());
    }
    if rng.bool() {
        spec.insert(
            "restartPolicy".into(),
            (*rng.choice(["Always", "Never", "OnFailure"].iter()).unwrap()).into(),
        );
    }
    if rng.bool() {
        let user = *rng.choice([0, 1000, 4242].iter()).unwrap();
        spec.insert(
            "securityContext".into(),
            json!({ "runAsUser": user, "runAsNonRoot": user != 0, "fsGroup": 7 }),
        );
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec })
}

fn containers(rng: &mut Rng, name: &str, count: usize) -> Value {
    let container = |number: usize| {
        let mut container = json!({ "name": format!("{name}-{number}"), "image": "x" });
        if rng.bool() {
            container["ports"] = json!([{ "containerPort": rng.u16(1..), "name": "http" }]);
            container["readinessProbe"] =
                json!({ "httpGet": { "path": "/", "port": "http", "scheme": "HTTPS" } });
        }
        match rng.u8(0..4) {
            0 => container["env"] = json!([{ "name": "HTTP_PROXY", "value": "http://other" }]),
            1 => container["env"] = json!([]),
            2 => {
                container["env"] = json!([{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }]);
            }
            _ => {}
        }
        if rng.bool() {
            container["resources"] =
                json!({ "limits": { "cpu": "1" }, "requests": { "memory": "1Gi" } });
        }
        if rng.bool() {
            container["securityContext"] =
                json!({ "capabilities": { "drop": ["ALL"] }, "readOnlyRootFilesystem": true });
        }
        container
    };
    Value::Array((0..count).map(container).collect())
}

fn annotations(rng: &mut Rng) -> Value {
    let mut annotations = Map::new();
    for key in api::annotations::KEYS {
        if rng.u8(0..4) == 0 {
            let value = *rng
                .choice(["none", "100m", "64Mi", "8080", "10.0.0.0/8", "", "a b", "2Gi"].iter())
                .unwrap();
            annotations.insert(key.name.into(), value.into());
        }
    }
    if rng.bool() {
        annotations.insert("tidegate.io/redirect".into(), "none".into());
    }
    annotations.insert("a/b~c".into(), "slash and tilde".into());
    Value::Object(annotations)
}
