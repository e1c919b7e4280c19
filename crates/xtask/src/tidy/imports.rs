//! Which crate may know which. The table is the one of ARCHITECTURE.md.

use super::Mistake;
use crate::workspace::Member;
use std::path::Path;

/// A crate of the workspace: its folder and the crates of the workspace that it may import, tests included.
struct Rule {
    name: &'static str,
    folder: &'static str,
    may_import: &'static [&'static str],
}

const EVERYTHING: &[&str] =
    &["api", "balance", "controller", "demo", "injector", "kit", "proxy", "sim", "tests"];

const RULES: [Rule; 11] = [
    Rule { name: "api", folder: "crates/api", may_import: &[] },
    Rule { name: "balance", folder: "crates/balance", may_import: &[] },
    Rule { name: "bench", folder: "crates/bench", may_import: &[] },
    Rule { name: "controller", folder: "controller", may_import: &["api", "kit"] },
    Rule { name: "demo", folder: "demo", may_import: &[] },
    Rule { name: "injector", folder: "injector", may_import: &["api", "kit"] },
    Rule { name: "kit", folder: "crates/kit", may_import: &[] },
    Rule { name: "proxy", folder: "proxy", may_import: &["api", "balance", "kit"] },
    Rule { name: "sim", folder: "crates/sim", may_import: &["balance"] },
    Rule { name: "tests", folder: "tests", may_import: EVERYTHING },
    Rule { name: "xtask", folder: "crates/xtask", may_import: &[] },
];

/// Packages that must not end up in a crate, even through others.
const NEVER: [(&str, &[&str], &str); 3] = [
    ("proxy", &["kube", "kube-client", "k8s-openapi"], "the proxy knows no Kubernetes"),
    ("balance", &["tokio", "rand", "fastrand"], "the core takes time and seeds as arguments"),
    ("api", &["kube-client", "k8s-openapi"], "the contract knows no Kubernetes"),
];

/// All that the balancing core may link: it is `no_std` and the same on every machine.
const CORE_MAY_REACH: [&str; 1] = ["libm"];

/// Imports within the workspace follow the table, and every crate is in it at its folder.
pub(super) fn check(members: &[Member]) -> Vec<Mistake> {
    members.iter().flat_map(|member| check_member(member, members)).collect()
}

fn check_member(member: &Member, members: &[Member]) -> Vec<Mistake> {
    let Some(rule) = RULES.iter().find(|rule| rule.name == member.name) else {
        let text = "not in the table of crates; add it to ARCHITECTURE.md and to crates/xtask/src/tidy/imports.rs";
        return vec![Mistake::new(&member.folder, text)];
    };
    let mut mistakes = Vec::new();
    if member.folder != Path::new(rule.folder) {
        mistakes.push(Mistake::new(&member.folder, format!("belongs in {}", rule.folder)));
    }
    let own =
        member.dependencies.iter().filter(|name| members.iter().any(|other| other.name == **name));
    let forbidden = own.filter(|name| !rule.may_import.contains(&name.as_str()));
    mistakes.extend(forbidden.map(|name| {
        Mistake::new(&member.folder, format!("{} must not import {name}", member.name))
    }));
    mistakes
}

/// What a crate links through others is allowed too.
pub(super) fn check_reach(members: &[Member]) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for member in members {
        let never = NEVER.iter().filter(|(name, _, _)| *name == member.name);
        for (_, packages, why) in never {
            let found = packages.iter().filter(|package| member.reaches.contains(**package));
            mistakes
                .extend(found.map(|package| {
                    Mistake::new(&member.folder, format!("links {package}: {why}"))
                }));
        }
        if member.name == "balance" {
            let more =
                member.reaches.iter().filter(|name| !CORE_MAY_REACH.contains(&name.as_str()));
            let text = |name| {
                format!("links {name}: the core links nothing but {}", CORE_MAY_REACH.join(", "))
            };
            mistakes.extend(more.map(|name| Mistake::new(&member.folder, text(name))));
        }
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, folder: &str, dependencies: &[&str]) -> Member {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Member {
            name: name.to_owned(),
            folder: folder.into(),
            dependencies: set(dependencies),
            reaches: set(dependencies),
        }
    }

    fn texts(mistakes: &[Mistake]) -> Vec<String> {
        mistakes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_table_itself_is_accepted() {
        let members: Vec<_> =
            RULES.iter().map(|rule| member(rule.name, rule.folder, rule.may_import)).collect();
        assert_eq!(check(&members), []);
    }

    #[test]
    fn an_import_against_the_table_is_a_mistake() {
        let members = [
            member("balance", "crates/balance", &["kit", "libm"]),
            member("kit", "crates/kit", &["tokio"]),
            member("proxy", "proxy", &["balance", "controller"]),
            member("controller", "controller", &["proxy", "kit"]),
        ];
        let expected = [
            "crates/balance: balance must not import kit",
            "proxy: proxy must not import controller",
            "controller: controller must not import proxy",
        ];
        assert_eq!(texts(&check(&members)), expected);
    }

    #[test]
    fn a_crate_has_its_place() {
        let members = [member("kit", "kit", &[]), member("util", "crates/util", &[])];
        let found = texts(&check(&members));
        assert_eq!(found[0], "kit: belongs in crates/kit");
        assert!(found[1].starts_with("crates/util: not in the table"));
    }

    #[test]
    fn what_is_linked_through_others_counts() {
        let mut proxy = member("proxy", "proxy", &["kit"]);
        proxy.reaches.insert("kube-client".to_owned());
        let core = member("balance", "crates/balance", &["libm", "serde"]);
        let expected = [
            "proxy: links kube-client: the proxy knows no Kubernetes",
            "crates/balance: links serde: the core links nothing but libm",
        ];
        assert_eq!(texts(&check_reach(&[proxy, core])), expected);
    }
}
