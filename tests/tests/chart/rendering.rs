//! helm takes the chart, and Kubernetes what helm makes of it.

use serde_json::json;
use std::process::Command;
use tests::chart::{KUBERNETES, demo, helm, objects, of_kind, project, read, rendered, values};
use tests::folder::Folder;
use tests::need;
use tests::programs;

/// Checks manifests against the schemas of Kubernetes. Custom resources have none there, and are told apart by their group.
fn check_schema(text: &str, release: &str) {
    let validate = programs::chart_tool("venv/bin/kubernetes-validate").unwrap();
    let folder = Folder::new();
    let mut known = 0;
    for (index, object) in objects(text).iter().enumerate() {
        let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
        if ["tidegate.io", "cert-manager.io", "monitoring.coreos.com"].contains(&group) {
            continue;
        }
        known += 1;
        folder.write(&format!("{index}.json"), &object.to_string());
    }
    assert!(known >= 8, "{known} objects");
    let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let output =
        Command::new(validate).args(["--strict", "-k", release]).args(files).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // A kind without a schema is a warning there; here it would be a check that checks nothing.
    assert!(output.status.success() && !said.contains("WARN"), "Kubernetes {release}: {said}");
    assert_eq!(said.matches("passed").count(), known, "{said}");
}

#[test]
fn every_values_file_is_linted_rendered_and_valid() {
    need!(programs::chart_tool("helm"));
    need!(programs::chart_tool("venv/bin/kubernetes-validate"));
    for values in values() {
        let chart = project("charts/tidegate");
        let mut lint = vec!["lint", "--strict", chart.to_str().unwrap()];
        if let Some(values) = &values {
            lint.extend(["--values", values.to_str().unwrap()]);
        }
        let output = helm(&lint);
        assert!(output.status.success(), "{values:?}: {}", String::from_utf8_lossy(&output.stdout));
        for release in KUBERNETES {
            let text = rendered(values.as_deref(), &["--kube-version", release]);
            check_schema(&text, release);
        }
    }
}

#[test]
fn the_demo_is_valid() {
    need!(programs::chart_tool("kubectl"));
    need!(programs::chart_tool("venv/bin/kubernetes-validate"));
    let text = demo();
    for release in KUBERNETES {
        check_schema(&text, release);
    }
    let objects = objects(&text);
    let zones: Vec<_> = of_kind(&objects, "Deployment")
        .into_iter()
        .filter_map(|object| {
            object["spec"]["template"]["spec"]["nodeSelector"]["topology.kubernetes.io/zone"]
                .as_str()
        })
        .collect();
    for (zone, cluster) in ["zone-a", "zone-b", "zone-c"].into_iter().zip(["kind", "k3d", "kind"]) {
        assert_eq!(
            zones.iter().filter(|found| **found == zone).count(),
            2,
            "servers and callers in {zone}"
        );
        assert!(read(&format!("demo/kubernetes/cluster/{cluster}.yaml")).contains(zone), "{zone}");
    }
}

#[test]
fn mistakes_in_values_are_refused_with_their_place() {
    need!(programs::chart_tool("helm"));
    let cases = [
        ("injector.replica=2", "replica"),
        ("webhook.failurePolicy=Maybe", "failurePolicy"),
        ("certificate.life=soon", "life"),
        ("certificate.source=secret", "certificate.secretName: name the Secret"),
        ("certificate.source=certManager", "certificate.issuerRef.name: name the issuer"),
        ("images.proxy.digest=latest", "digest"),
    ];
    let chart = project("charts/tidegate");
    for (set, told) in cases {
        let output = helm(&["template", "x", chart.to_str().unwrap(), "--set", set]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(told), "{set}: {errors}");
    }
    let old = ["template", "x", chart.to_str().unwrap(), "--kube-version", "1.28"];
    let output = helm(&old);
    assert!(String::from_utf8_lossy(&output.stderr).contains("incompatible with Kubernetes v1.28"));
}

#[test]
fn the_webhook_is_asked_about_labelled_namespaces_alone() {
    need!(programs::chart_tool("helm"));
    for values in values() {
        let objects = objects(&rendered(values.as_deref(), &[]));
        let [configuration] = of_kind(&objects, "MutatingWebhookConfiguration")[..] else {
            panic!("{values:?}: not one webhook")
        };
        let [webhook] = configuration["webhooks"].as_array().unwrap().as_slice() else {
            panic!("{values:?}: not one webhook")
        };
        let selector = &webhook["namespaceSelector"];
        assert_eq!(selector["matchLabels"], json!({ "tidegate.io/inject": "enabled" }));
        let excluded = &selector["matchExpressions"][0];
        assert_eq!(
            (&excluded["key"], &excluded["operator"]),
            (&json!("kubernetes.io/metadata.name"), &json!("NotIn"))
        );
        for name in ["kube-system", "kube-public", "kube-node-lease", "mesh"] {
            assert!(
                excluded["values"].as_array().unwrap().contains(&json!(name)),
                "{name}: {excluded}"
            );
        }
        let opted_out =
            json!([{ "key": "tidegate.io/inject", "operator": "NotIn", "values": ["disabled"] }]);
        assert_eq!(webhook["objectSelector"]["matchExpressions"], opted_out);
        assert_eq!(webhook["sideEffects"], "None");
        assert_eq!(webhook["clientConfig"]["caBundle"], json!(null), "the injector's own to write");
        let policy = if values.is_some_and(|path| path.ends_with("cert-manager-values.yaml")) {
            "Fail"
        } else {
            "Ignore"
        };
        assert_eq!(webhook["failurePolicy"], policy);
    }
}

#[test]
fn the_notes_tell_the_next_three_commands() {
    need!(programs::chart_tool("helm"));
    let chart = project("charts/tidegate");
    let install =
        ["install", "tidegate", chart.to_str().unwrap(), "--namespace", "mesh", "--dry-run=client"];
    let output = helm(&install);
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, notes) = text.split_once("NOTES:").unwrap_or_else(|| panic!("{output:?}"));
    let commands: Vec<_> = notes.lines().filter(|line| line.starts_with("  kubectl ")).collect();
    assert_eq!(commands.len(), 3, "{notes}");
    assert!(commands[0].contains("label namespace shop tidegate.io/inject=enabled"), "{notes}");
}

#[test]
fn the_images_file_has_every_image_and_passes_its_linter() {
    let hadolint = need!(programs::chart_tool("venv/bin/hadolint"));
    let output = Command::new(hadolint).arg(project("charts/Dockerfile")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let dockerfile = read("charts/Dockerfile");
    let script = read("demo/kubernetes/cluster/images.sh");
    let built = script.lines().find_map(|line| line.strip_prefix("for target in ")).unwrap();
    for target in ["proxy", "redirect", "controller", "injector", "demo"] {
        assert!(dockerfile.contains(&format!(" AS {target}\n")), "{target}");
        assert!(built.contains(target), "{target} in {built}");
    }
    for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        assert!(dockerfile.contains(triple), "{triple}");
    }
    let toolchain = read("rust-toolchain.toml");
    let pinned = toolchain.split('"').nth(1).unwrap();
    assert!(
        dockerfile.contains(&format!("rust:{pinned}-")),
        "the compiler of rust-toolchain.toml: {pinned}"
    );
    // What is not copied is not there; what cargo needs must be.
    let ignored = read("charts/Dockerfile.dockerignore");
    for member in ["controller", "crates", "demo", "injector", "proxy", "tests", "Cargo.lock"] {
        assert!(ignored.contains(&format!("!{member}\n")), "{member}");
    }
}

#[test]
fn the_scripts_are_sound() {
    for script in ["demo/kubernetes/fault.sh", "demo/kubernetes/cluster/images.sh"] {
        let check = Command::new("sh").arg("-n").arg(project(script)).output().unwrap();
        assert!(check.status.success(), "{script}: {}", String::from_utf8_lossy(&check.stderr));
        let usage = Command::new("sh").arg(project(script)).output().unwrap();
        assert_eq!(
            usage.status.code(),
            Some(2),
            "{script}: without arguments it tells how to use it"
        );
    }
}
