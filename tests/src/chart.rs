//! The chart as helm renders it, and other files of the project. The tools must be there: a test asks for them first.

use crate::programs;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The oldest and the newest Kubernetes that is promised and known.
pub const KUBERNETES: [&str; 2] = ["1.29", "1.36"];

/// The namespace that the chart is rendered for: not the one that the programs take by default.
pub const NAMESPACE: &str = "mesh";

/// A file or folder of the project.
pub fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Its text.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(project(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every set of values that the chart must work with: none, and each file of the chart.
pub fn values() -> Vec<Option<PathBuf>> {
    let mut files = vec![None, Some(project("charts/tidegate/values-ha.yaml"))];
    let mut more: Vec<_> = std::fs::read_dir(project("charts/tidegate/ci"))
        .unwrap()
        .map(|entry| Some(entry.unwrap().path()))
        .collect();
    more.sort();
    files.extend(more);
    assert!(files.len() >= 4, "{files:?}");
    files
}

/// helm with arguments; nothing of the user's configuration counts.
pub fn helm(arguments: &[&str]) -> Output {
    let helm = programs::chart_tool("helm").unwrap();
    let home = std::env::temp_dir().join("tidegate-helm");
    let variables = ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"];
    let mut command = Command::new(helm);
    command.args(arguments).envs(variables.map(|name| (name, &home)));
    command.env("KUBECONFIG", "/dev/null").output().unwrap()
}

/// The chart with some values, as text. `more` are further arguments of helm.
pub fn rendered(values: Option<&Path>, more: &[&str]) -> String {
    let chart = project("charts/tidegate");
    let mut arguments = vec![
        "template",
        "tidegate",
        chart.to_str().unwrap(),
        "--namespace",
        NAMESPACE,
        "--include-crds",
    ];
    if let Some(values) = values {
        arguments.extend(["--values", values.to_str().unwrap()]);
    }
    arguments.extend(more);
    let output = helm(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{values:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The demo of `demo/kubernetes`, as kubectl makes it.
pub fn demo() -> String {
    let kubectl = programs::chart_tool("kubectl").unwrap();
    let output =
        Command::new(kubectl).arg("kustomize").arg(project("demo/kubernetes")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The objects of a stream of documents.
pub fn objects(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

/// Objects of a kind.
pub fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// The object of a kind and name.
pub fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found =
        objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}
