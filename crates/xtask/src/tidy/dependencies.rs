//! Every dependency is used: those that the project is required to be built on, and all others.

use super::Mistake;
use super::tree::Tree;
use crate::workspace::Member;

/// Crates that the project is built on, each with the crates of the workspace in which it has its place.
const REQUIRED: [(&str, &[&str]); 10] = [
    ("tokio", &["proxy", "kit", "demo", "controller", "injector"]),
    ("hyper", &["proxy", "kit", "injector"]),
    ("h2", &["proxy"]),
    ("tower", &["kit", "injector"]),
    ("tower-http", &["kit", "injector"]),
    ("kube", &["controller", "injector"]),
    ("rustls", &["injector"]),
    ("hdrhistogram", &["demo", "proxy", "sim"]),
    ("metrics-exporter-prometheus", &["kit"]),
    ("metrics", &["proxy", "controller", "injector"]),
];

/// Dependencies whose use cannot be seen in the source: they switch on features of others.
const UNSEEN: [(&str, &str); 1] = [("tests", "k8s-openapi")];

/// A required crate is declared and named in the sources of each of its places that exists.
pub(super) fn check_required(tree: &Tree, members: &[Member]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (package, places) in REQUIRED {
        let places = members.iter().filter(|member| places.contains(&member.name.as_str()));
        let idle = places.filter(|member| {
            !member.dependencies.contains(package) || !is_named(tree, member, package)
        });
        mistakes.extend(idle.map(|member| {
            Mistake::new(&member.folder, format!("does not use {package}, which is required here"))
        }));
    }
    mistakes
}

/// A declared dependency is named somewhere in the crate.
pub(super) fn check_unused(tree: &Tree, members: &[Member]) -> Vec<Mistake> {
    let declared = members
        .iter()
        .flat_map(|member| member.dependencies.iter().map(move |package| (member, package)))
        .filter(|(member, package)| !UNSEEN.contains(&(member.name.as_str(), package.as_str())));
    let unused = declared.filter(|(member, package)| !is_named(tree, member, package));
    unused
        .map(|(member, package)| {
            Mistake::new(
                &member.folder,
                format!("declares {package} and never names it; remove it"),
            )
        })
        .collect()
}

fn is_named(tree: &Tree, member: &Member, package: &str) -> bool {
    let name = package.replace('-', "_");
    tree.rust(&member.folder).any(|file| {
        file.text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .any(|line| has_word(line, &name))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;
    use super::*;

    fn member(name: &str, dependencies: &[&str]) -> Member {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Member {
            name: name.to_owned(),
            folder: format!("crates/{name}").into(),
            dependencies,
            ..Member::default()
        }
    }

    fn texts(mistakes: &[Mistake]) -> Vec<String> {
        mistakes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_required_crate_must_be_declared_and_named() {
        let check = |dependencies: &[&str], source: &str| {
            let files = [("crates/sim/src/main.rs", source)];
            texts(&check_required(&tree(&files), &[member("sim", dependencies)]))
        };
        let missing = ["crates/sim: does not use hdrhistogram, which is required here"];
        assert_eq!(check(&["hdrhistogram"], "use hdrhistogram::Histogram;"), [""; 0]);
        assert_eq!(check(&["hdrhistogram"], "// hdrhistogram\nfn main() {}"), missing);
        assert_eq!(check(&[], "use hdrhistogram::Histogram;"), missing);
    }

    #[test]
    fn a_required_crate_is_asked_for_only_where_its_place_exists() {
        assert_eq!(check_required(&tree(&[]), &[member("xtask", &[])]), []);
    }

    #[test]
    fn a_dependency_that_nothing_names_is_a_mistake() {
        let files = [("crates/api/src/lib.rs", "use serde_json::Value; let myserde = serdes;")];
        let found =
            check_unused(&tree(&files), &[member("api", &["serde", "serde_json", "http-body"])]);
        let expected = ["http-body", "serde"]
            .map(|name| format!("crates/api: declares {name} and never names it; remove it"));
        assert_eq!(texts(&found), expected);
    }
}
