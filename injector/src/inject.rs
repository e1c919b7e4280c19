//! The whole question about one pod: decide, then patch.

use crate::decide::{Decision, Verdict, decide};
use crate::patch::patch;
use crate::pod::{Namespace, Pod};
use crate::settings::Settings;
use json_patch::Patch;
use serde::Deserialize as _;
use serde_json::Value;

/// The answer about one pod.
#[derive(Clone, Debug)]
pub struct Injection {
    /// What was decided.
    pub decision: Decision,
    /// The change; none for a pod that is left as it is.
    pub patch: Option<Patch>,
}

/// Answers for a pod of a namespace that asks for the proxy. Fails for what is no pod.
pub fn inject(
    pod: &Value,
    namespace: &Namespace,
    settings: &Settings,
) -> Result<Injection, serde_json::Error> {
    let pod = Pod::deserialize(pod)?;
    let decision = decide(namespace, &pod);
    let patch = match &decision.verdict {
        Verdict::Inject(plan) => Some(patch(&pod, plan, settings)),
        Verdict::Skip(_) => None,
    };
    Ok(Injection { decision, patch })
}
