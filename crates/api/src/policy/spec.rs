//! The written form of a policy: the `spec` of a `LocalityPolicy` resource, and `[service.policy]` of a topology file.
//!
//! Every field may be left out. Unknown fields are refused. Durations are strings such as `250ms`, `1s`, `2m 30s`.

use super::{
    Algorithm, Fallback, LoadBand, MinEndpoints, Mode, Percent, Policy, RetryMethods, RetryOn, Tier,
};
use serde::{Deserialize, Serialize, Serializer};
use std::time::Duration;

/// A policy as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct PolicySpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Vec<Tier>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_endpoints: Option<MinEndpointsSpec>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub min_healthy_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub max_remote_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadSpec>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub failure_budget_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub overprovisioning_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeoutSpec>,
}

/// `minEndpoints`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct MinEndpointsSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
}

/// `load`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct LoadSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub high: Option<f64>,
}

/// `load.signal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Signal {
    /// Outstanding requests over what would be outstanding if nothing queued.
    Normalized,
    /// Outstanding requests per active endpoint.
    Outstanding,
}

/// `breaker`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct BreakerSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub success_rate_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_requests: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<BackoffSpec>,
}

/// `breaker.backoff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct BackoffSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
}

/// `retry`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct RetrySpec {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "number")]
    pub budget_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<RetryOn>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub methods: Option<RetryMethods>,
}

/// `timeout`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each field is described at the field of `Policy` that it becomes")]
pub struct TimeoutSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_try: Option<String>,
}

impl Policy {
    /// The complete written form: every field that has a value is spelt out.
    pub fn spec(&self) -> PolicySpec {
        let MinEndpoints { local, total } = self.min_endpoints;
        let (low, high) = self.load.bounds();
        let signal = match self.load {
            LoadBand::Normalized { .. } => Signal::Normalized,
            LoadBand::Outstanding { .. } => Signal::Outstanding,
        };
        PolicySpec {
            mode: Some(self.mode),
            tiers: Some(self.tiers.clone()),
            min_endpoints: Some(MinEndpointsSpec { local: Some(local), total: Some(total) }),
            min_healthy_percent: percent(self.min_healthy),
            fallback: Some(self.fallback),
            max_remote_percent: percent(self.max_remote),
            percent: percent(self.percent),
            load: Some(LoadSpec { signal: Some(signal), low: Some(low), high: Some(high) }),
            failure_budget_percent: percent(self.failure_budget),
            overprovisioning_percent: percent(self.overprovisioning),
            algorithm: Some(self.algorithm),
            breaker: Some(BreakerSpec {
                consecutive: Some(self.breaker.consecutive),
                success_rate_percent: percent(self.breaker.success_rate),
                min_requests: Some(self.breaker.min_requests),
                backoff: Some(BackoffSpec {
                    min: duration(Some(self.breaker.backoff.min)),
                    max: duration(Some(self.breaker.backoff.max)),
                }),
            }),
            retry: Some(RetrySpec {
                budget_percent: percent(self.retry.budget),
                attempts: Some(self.retry.attempts),
                on: Some(self.retry.on.clone()),
                methods: Some(self.retry.methods),
            }),
            timeout: Some(TimeoutSpec {
                connect: duration(Some(self.timeout.connect)),
                request: duration(self.timeout.request),
                per_try: duration(self.timeout.per_try),
            }),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every field of a spec is optional")]
fn percent(value: Percent) -> Option<f64> {
    Some(value.percent())
}

fn duration(value: Option<Duration>) -> Option<String> {
    value.map(|value| humantime::format_duration(value).to_string())
}

/// Writes 100 rather than 100.0: what a user would write.
#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 1e9; // far above any field's limit, far below where f64 stops holding integers
    match *value {
        None => serializer.serialize_none(),
        #[expect(clippy::cast_possible_truncation, reason = "a whole number below 1e9")]
        Some(value) if value.fract() == 0.0 && value.abs() < EXACT => {
            serializer.serialize_i64(value as i64)
        }
        Some(value) => serializer.serialize_f64(value),
    }
}
