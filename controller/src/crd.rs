//! The definition of the custom resource `LocalityPolicy`: its form comes from the types of `api`, its limits and rules from the
//! table here. `cargo run -p controller --example crd` writes `charts/tidegate/crds/`; a test compares.

use api::policy::spec::PolicySpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How far the requests to Services may leave the caller's zone, and what else governs them. Without targetRefs it is the default
/// of its namespace; in the controller's namespace, of the mesh.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "tidegate.io",
    version = "v1alpha1",
    kind = "LocalityPolicy",
    shortname = "locpol",
    category = "tidegate",
    namespaced,
    status = "LocalityPolicyStatus",
    printcolumn = r#"{"name":"Mode","type":"string","jsonPath":".spec.mode"}"#,
    printcolumn = r#"{"name":"Targets","type":"string","jsonPath":".spec.targetRefs[*].name"}"#,
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.targets[*].conditions[?(@.type==\"Accepted\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct LocalityPolicySpec {
    /// The Services that it is for, in its own namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<TargetRef>,
    /// What it says.
    #[serde(flatten)]
    pub policy: PolicySpec,
}

/// A Service that a policy is for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TargetRef {
    /// The empty group.
    #[serde(default)]
    pub group: String,
    /// `Service`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Whether the policy holds, and where.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalityPolicyStatus {
    /// The generation that this is about.
    pub observed_generation: i64,
    /// Each target.
    pub targets: Vec<TargetStatus>,
}

/// The status at one target.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TargetStatus {
    /// Service, Namespace or Mesh.
    pub kind: String,
    /// Name of the Service or Namespace.
    pub name: String,
    /// `Accepted`: whether the policy holds there. `ZoneUnknown`: whether endpoints there have no known zone.
    pub conditions: Vec<Condition>,
}

/// One condition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Accepted` or `ZoneUnknown`.
    pub r#type: String,
    /// True or False.
    pub status: String,
    /// `Accepted`, `Conflicted`, `TargetNotFound`, `Invalid` or `Overridden`; `ZoneUnknown` or `ZonesKnown`.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// When the status changed last.
    pub last_transition_time: String,
}

/// The definition, ready to be applied.
pub fn definition() -> Value {
    let definition: CustomResourceDefinition = LocalityPolicy::crd();
    // Made of strings and numbers only.
    let mut value = serde_json::to_value(&definition).unwrap_or_default();
    for (path, limits) in limits() {
        let place = value.pointer_mut(&format!("{SPEC}{path}"));
        if let (Some(Value::Object(field)), Value::Object(limits)) = (place, limits) {
            field.extend(limits);
        } else {
            debug_assert!(false, "no field at {path}");
        }
    }
    drop_unsigned_formats(&mut value);
    value
}

/// Kubernetes knows no unsigned formats and warns whoever applies them; the limits say the same.
fn drop_unsigned_formats(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let is_unsigned =
                |format: &Value| format.as_str().is_some_and(|f| f.starts_with("uint"));
            if fields.get("format").is_some_and(is_unsigned) {
                fields.remove("format");
            }
            fields.values_mut().for_each(drop_unsigned_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_unsigned_formats),
        _ => {}
    }
}

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";

/// What the types do not say. Whatever passes here and is a mistake all the same is told in the status.
fn limits() -> Vec<(&'static str, Value)> {
    let rule = |rule: &str, message: &str| json!({ "rule": rule, "message": message });
    let percent = || json!({ "minimum": 0, "maximum": 100 });
    let duration = || json!({ "maxLength": 32, "pattern": r"^([0-9]+ ?(ms|s|m|h) ?)+$" });
    vec![
        ("/properties/targetRefs", json!({ "maxItems": 64 })),
        ("/properties/targetRefs/items/properties/group", json!({ "enum": [""] })),
        ("/properties/targetRefs/items/properties/kind", json!({ "enum": ["Service"] })),
        (
            "/properties/targetRefs/items/properties/name",
            json!({ "minLength": 1, "maxLength": 253 }),
        ),
        (
            "/properties/tiers",
            json!({
                "minItems": 1, "maxItems": 4,
                "x-kubernetes-validations": [rule(
                    "self.all(tier, self.exists_one(other, other == tier)) && \
                     self.map(tier, {'node': 0, 'zone': 1, 'region': 2, 'any': 3}[tier]).isSorted()",
                    "list each tier at most once, nearest first: node, zone, region, any",
                )],
            }),
        ),
        ("/properties/minEndpoints/properties/local", json!({ "minimum": 0, "maximum": 10_000 })),
        ("/properties/minEndpoints/properties/total", json!({ "minimum": 0, "maximum": 10_000 })),
        ("/properties/minHealthyPercent", percent()),
        ("/properties/maxRemotePercent", percent()),
        ("/properties/percent", percent()),
        ("/properties/failureBudgetPercent", percent()),
        ("/properties/overprovisioningPercent", json!({ "minimum": 100, "maximum": 100_000 })),
        (
            "/properties/load",
            json!({ "x-kubernetes-validations": [
            rule("!has(self.low) || !has(self.high) || self.low < self.high", "high must be above low: the band lies between them"),
            rule("!has(self.low) || (has(self.signal) && self.signal == 'Outstanding') || self.low > 1.0",
                 "low must be above 1, which is the load of a service that queues nothing"),
            rule("!has(self.signal) || self.signal != 'Outstanding' || !has(self.low) || !has(self.high) || self.high > self.low * 2.0",
                 "high must be more than twice low: going from one endpoint to two halves the load"),
        ] }),
        ),
        ("/properties/load/properties/low", json!({ "minimum": 0 })),
        ("/properties/load/properties/high", json!({ "minimum": 0, "maximum": 100_000 })),
        ("/properties/breaker/properties/consecutive", json!({ "minimum": 1, "maximum": 1_000 })),
        ("/properties/breaker/properties/successRatePercent", percent()),
        ("/properties/breaker/properties/minRequests", json!({ "minimum": 1, "maximum": 10_000 })),
        ("/properties/breaker/properties/backoff/properties/min", duration()),
        ("/properties/breaker/properties/backoff/properties/max", duration()),
        ("/properties/retry/properties/budgetPercent", percent()),
        ("/properties/retry/properties/attempts", json!({ "minimum": 1, "maximum": 2 })),
        ("/properties/retry/properties/on", json!({ "maxItems": 3 })),
        ("/properties/timeout/properties/connect", duration()),
        ("/properties/timeout/properties/request", duration()),
        ("/properties/timeout/properties/perTry", duration()),
    ]
}
