//! The workspace as cargo sees it.

use crate::process;
use anyhow::Context as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The workspace and who depends on what in it.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Its top folder.
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// Its own crates.
    pub(crate) members: Vec<Member>,
}

/// A crate of the workspace.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Its folder, from the top of the workspace.
    pub(crate) folder: PathBuf,
    /// Names of the packages that its Cargo.toml asks for, tests and build scripts included.
    pub(crate) dependencies: BTreeSet<String>,
    /// Every package that ends up in its library or programs.
    pub(crate) reaches: BTreeSet<String>,
}

impl Workspace {
    /// Asks cargo, dependencies of dependencies included.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let arguments = ["metadata", "--format-version", "1", "--locked"];
        let text = process::output(&mut process::cargo(&arguments))?;
        let metadata = serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
        parse(&metadata).context("cargo metadata lacks an expected field")
    }
}

fn parse(metadata: &Value) -> Option<Workspace> {
    let root = PathBuf::from(metadata.get("workspace_root")?.as_str()?);
    let target = PathBuf::from(metadata.get("target_directory")?.as_str()?);
    let names = names(metadata)?;
    let edges = edges(metadata)?;
    let own: BTreeSet<&str> = strings(metadata.get("workspace_members")?).collect();
    let packages = metadata.get("packages")?.as_array()?.iter();
    let members = packages
        .filter(|package| text(package, "id").is_some_and(|id| own.contains(id)))
        .map(|package| {
            let manifest = PathBuf::from(text(package, "manifest_path")?);
            let dependencies = package.get("dependencies")?.as_array()?.iter();
            Some(Member {
                name: text(package, "name")?.to_owned(),
                folder: manifest.parent()?.strip_prefix(&root).ok()?.to_owned(),
                dependencies: dependencies
                    .filter_map(|dependency| text(dependency, "name"))
                    .map(str::to_owned)
                    .collect(),
                reaches: reach(text(package, "id")?, &edges, &names),
            })
        });
    let members = members.collect::<Option<Vec<_>>>()?;
    Some(Workspace { root, target, members })
}

/// Package names by package id.
fn names(metadata: &Value) -> Option<BTreeMap<&str, &str>> {
    let packages = metadata.get("packages")?.as_array()?.iter();
    packages.map(|package| Some((text(package, "id")?, text(package, "name")?))).collect()
}

/// Which package links which: ordinary dependencies only, without those of tests and build scripts.
fn edges(metadata: &Value) -> Option<BTreeMap<&str, Vec<&str>>> {
    let is_ordinary = |dependency: &&Value| {
        let kinds = dependency.get("dep_kinds").and_then(Value::as_array);
        kinds.is_some_and(|kinds| {
            kinds.iter().any(|kind| kind.get("kind").is_some_and(Value::is_null))
        })
    };
    let nodes = metadata.get("resolve")?.get("nodes")?.as_array()?.iter();
    nodes
        .map(|node| {
            let dependencies = node.get("deps")?.as_array()?.iter().filter(is_ordinary);
            let targets = dependencies.filter_map(|dependency| text(dependency, "pkg"));
            Some((text(node, "id")?, targets.collect()))
        })
        .collect()
}

fn reach(
    from: &str,
    edges: &BTreeMap<&str, Vec<&str>>,
    names: &BTreeMap<&str, &str>,
) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(package) = next.pop() {
        for dependency in edges.get(package).into_iter().flatten().copied() {
            if seen.insert(dependency) {
                next.push(dependency);
            }
        }
    }
    seen.iter().filter_map(|id| names.get(id)).map(|name| (*name).to_owned()).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &[&str]) -> Value {
        let dependencies: Vec<_> =
            dependencies.iter().map(|name| json!({ "name": name })).collect();
        json!({
            "id": format!("{name}#1"), "name": name, "dependencies": dependencies,
            "manifest_path": format!("/top/crates/{name}/Cargo.toml"),
        })
    }

    fn node(name: &str, links: &[(&str, Value)]) -> Value {
        let links: Vec<_> = links
            .iter()
            .map(|(to, kind)| json!({"pkg": format!("{to}#1"), "dep_kinds": [{ "kind": kind }]}))
            .collect();
        json!({"id": format!("{name}#1"), "deps": links})
    }

    #[test]
    fn reaching_goes_through_dependencies_but_not_through_those_of_tests() {
        let metadata = json!({
            "workspace_root": "/top", "target_directory": "/top/target", "workspace_members": ["own#1"],
            "packages": [
                package("own", &["middle", "check"]), package("middle", &["deep"]),
                package("deep", &[]), package("check", &[]),
            ],
            "resolve": {"nodes": [
                node("own", &[("middle", Value::Null), ("check", json!("dev"))]),
                node("middle", &[("deep", Value::Null)]), node("deep", &[]), node("check", &[]),
            ]},
        });
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let own = Member {
            name: "own".to_owned(),
            folder: "crates/own".into(),
            dependencies: set(&["middle", "check"]),
            reaches: set(&["deep", "middle"]),
        };
        assert_eq!(parse(&metadata).unwrap().members, [own]);
    }
}
