//! Nobody may more than this.

use serde_json::Value;
use std::collections::BTreeSet;
use tests::chart::{demo, objects, of_kind, rendered, values};
use tests::need;
use tests::programs;

/// Everything that the chart ever grants: role, group/resource[/names], verbs.
const ALLOWED: [(&str, &str, &str); 14] = [
    ("ClusterRole tidegate-controller", "/namespaces", "list watch"),
    ("ClusterRole tidegate-controller", "/nodes", "list watch"),
    ("ClusterRole tidegate-controller", "/pods", "list watch"),
    ("ClusterRole tidegate-controller", "/services", "list watch"),
    ("ClusterRole tidegate-controller", "discovery.k8s.io/endpointslices", "list watch"),
    ("ClusterRole tidegate-controller", "multicluster.x-k8s.io/serviceimports", "list watch"),
    ("ClusterRole tidegate-controller", "tidegate.io/localitypolicies", "list watch"),
    ("ClusterRole tidegate-controller", "tidegate.io/localitypolicies/status", "patch"),
    ("ClusterRole tidegate-controller", "events.k8s.io/events", "create"),
    ("ClusterRole tidegate-controller", "authentication.k8s.io/tokenreviews", "create"),
    ("Role tidegate-controller", "/secrets", "list watch"),
    ("ClusterRole tidegate-injector", "/namespaces", "get list watch"),
    ("ClusterRole tidegate-injector", "/pods", "get list watch"),
    ("ClusterRole tidegate-injector", "/events", "create"),
];

/// And this, for the objects of these names alone.
const ALLOWED_BY_NAME: [(&str, &str, &str); 2] = [
    (
        "ClusterRole tidegate-injector",
        "admissionregistration.k8s.io/mutatingwebhookconfigurations: tidegate",
        "get patch",
    ),
    ("Role tidegate-injector", "/secrets: tidegate-certificate", "get update"),
];

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|item| item.as_str().unwrap()).collect()
}

/// Each grant of a role as a line of the tables above.
fn grants(role: &Value) -> BTreeSet<(String, String, String)> {
    let name = format!(
        "{} {}",
        role["kind"].as_str().unwrap(),
        role["metadata"]["name"].as_str().unwrap()
    );
    let mut grants = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let mut verbs = texts(&rule["verbs"]);
        verbs.sort_unstable();
        let names = texts(&rule["resourceNames"]).join(",");
        let names = if names.is_empty() { names } else { format!(": {names}") };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                grants.insert((
                    name.clone(),
                    format!("{group}/{resource}{names}"),
                    verbs.join(" "),
                ));
            }
        }
        assert!(rule["nonResourceURLs"].is_null(), "{name}: {rule}");
    }
    grants
}

#[test]
fn nobody_may_more_than_the_list() {
    need!(programs::chart_tool("helm"));
    let allowed: BTreeSet<_> = ALLOWED
        .iter()
        .chain(&ALLOWED_BY_NAME)
        .map(|(role, what, verbs)| ((*role).to_owned(), (*what).to_owned(), (*verbs).to_owned()))
        .collect();
    for values in values() {
        let objects = objects(&rendered(values.as_deref(), &[]));
        let roles = of_kind(&objects, "ClusterRole").into_iter().chain(of_kind(&objects, "Role"));
        let granted: BTreeSet<_> = roles.flat_map(grants).collect();
        let more: Vec<_> = granted.difference(&allowed).collect();
        assert!(more.is_empty(), "{values:?} grants {more:?}");
        assert!(!granted.iter().any(|grant| format!("{grant:?}").contains('*')), "{granted:?}");
        if values.is_none() {
            assert_eq!(granted, allowed, "the list has nothing that is not needed");
        }
        for kind in ["ClusterRoleBinding", "RoleBinding"] {
            for binding in of_kind(&objects, kind) {
                let subjects = binding["subjects"].as_array().unwrap();
                assert_eq!(subjects.len(), 1);
                assert_eq!(
                    subjects[0]["name"], binding["roleRef"]["name"],
                    "each role to its own account"
                );
                assert_eq!(subjects[0]["namespace"], "mesh");
            }
        }
    }
}

#[test]
fn the_demos_prometheus_reads_its_own_pods_alone() {
    need!(programs::chart_tool("kubectl"));
    let objects = objects(&demo());
    assert!(of_kind(&objects, "ClusterRole").is_empty());
    let granted: BTreeSet<_> = of_kind(&objects, "Role").into_iter().flat_map(grants).collect();
    let expected = ("Role prometheus".to_owned(), "/pods".to_owned(), "get list watch".to_owned());
    assert_eq!(granted, BTreeSet::from([expected]));
}
