//! What the tests of the injector share.

use clap::Parser;
use injector::decide::Verdict;
use injector::inject::{Injection, inject};
use injector::pod::{Namespace, PodSecurity};
use injector::settings::Settings;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Parser)]
struct Defaults {
    #[command(flatten)]
    settings: Settings,
}

/// The built-in settings, with images that do not change with the version.
pub(crate) fn settings() -> Settings {
    let arguments =
        ["x", "--proxy-image=tidegate/proxy:test", "--redirect-image=tidegate/redirect:test"];
    Defaults::parse_from(arguments).settings
}

pub(crate) fn namespace(level: PodSecurity) -> Namespace {
    Namespace::new("shop", &BTreeMap::new(), level)
}

/// The answer about a pod.
pub(crate) fn injection(pod: &Value, level: PodSecurity) -> Injection {
    inject(pod, &namespace(level), &settings()).unwrap_or_else(|error| panic!("{error}: {pod}"))
}

/// The pod as it comes out.
pub(crate) fn injected(pod: &Value, level: PodSecurity) -> Value {
    let injection = injection(pod, level);
    let Some(patch) = injection.patch else { panic!("left as it is: {:?}", injection.decision) };
    let mut pod = pod.clone();
    json_patch::patch(&mut pod, &patch).unwrap_or_else(|error| panic!("{error}: {patch}"));
    pod
}

/// The verdict, and the warnings as people read them.
pub(crate) fn verdict(pod: &Value, level: PodSecurity) -> (Verdict, Vec<String>) {
    let decision = injection(pod, level).decision;
    (decision.verdict, decision.warnings.iter().map(ToString::to_string).collect())
}
