//! `LocalityPolicy` resources, read leniently: a policy with mistakes is kept so that its status can tell them.

use api::policy::spec::PolicySpec;
use api::policy::{Mistake, Policy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// A LocalityPolicy.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityPolicy {
    /// Its uid, for events.
    pub uid: String,
    /// The generation that this is.
    pub generation: i64,
    /// When it was made, as seconds of Unix time: of two for one target the older one holds.
    pub created_at: i64,
    /// Names of the Services that it is for, in its own namespace; empty: all of the namespace.
    pub targets: Vec<String>,
    /// What it says, or why it says nothing.
    pub policy: Result<Policy, Vec<Mistake>>,
    /// Its status as the API server has it, to write only what differs.
    pub status: Value,
}

impl LocalityPolicy {
    /// Reads metadata, `spec` and `status`.
    pub fn read(meta: &ObjectMeta, spec: &Value, status: &Value) -> Self {
        let (targets, mut mistakes) = targets(spec.get("targetRefs"));
        let mut rest = spec.clone();
        if let Some(fields) = rest.as_object_mut() {
            fields.remove("targetRefs");
        }
        let parsed = serde_json::from_value::<PolicySpec>(rest)
            .map_err(|error| vec![unreadable(&error)])
            .and_then(|spec| Policy::parse(&spec));
        let policy = match parsed {
            Ok(policy) if mistakes.is_empty() => Ok(policy),
            Ok(_) => Err(mistakes),
            Err(more) => {
                mistakes.extend(more);
                Err(mistakes)
            }
        };
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            created_at: meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            targets,
            policy,
            status: status.clone(),
        }
    }
}

fn unreadable(error: &serde_json::Error) -> Mistake {
    Mistake {
        path: "spec".to_owned(),
        problem: error.to_string(),
        remedy: "compare with kubectl explain localitypolicy.spec".to_owned(),
    }
}

fn targets(refs: Option<&Value>) -> (Vec<String>, Vec<Mistake>) {
    let (mut names, mut mistakes) = (Vec::new(), Vec::new());
    for (place, target) in refs.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let text = |field: &str| target.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("group").is_empty() && text("kind") == "Service" && !text("name").is_empty() {
            names.push(text("name").to_owned());
        } else {
            mistakes.push(Mistake {
                path: format!("targetRefs[{place}]"),
                problem: format!(
                    "{}/{} is nothing that a policy can be for",
                    text("group"),
                    text("kind")
                ),
                remedy: "name a Service: group \"\", kind Service".to_owned(),
            });
        }
    }
    names.sort();
    names.dedup();
    (names, mistakes)
}
