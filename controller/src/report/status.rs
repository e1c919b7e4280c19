//! The status of LocalityPolicies: conditions for each target.

use crate::clock;
use crate::hub::Hub;
use crate::index::key::Key;
use crate::index::status::{TargetStatus, Verdict};
use crate::watch::home::policy_resource;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Writes every status that is not what it should be.
pub(super) async fn write(client: &Client, hub: &Hub) -> kube::Result<()> {
    let due = hub.look(|state| {
        let index = state.index();
        let statuses = index.policy_statuses().into_iter();
        let wanted = statuses.filter_map(|(key, targets)| {
            let (generation, stored) = index.policy_as_stored(&key)?;
            let status = status(generation, &targets, stored, &clock::now().to_string());
            (*stored != status).then_some((key, status))
        });
        wanted.collect::<Vec<(Key, Value)>>()
    });
    for (key, status) in due {
        let policies: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &key.namespace, &policy_resource());
        let patch = Patch::Merge(json!({ "status": status }));
        match policies.patch_status(&key.name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {} // deleted in between
            result => {
                result?;
            }
        }
    }
    Ok(())
}

/// The status as it should be. What did not change keeps its time.
fn status(generation: i64, targets: &[TargetStatus], stored: &Value, now: &str) -> Value {
    let targets: Vec<Value> = targets
        .iter()
        .map(|target| {
            let before = stored["targets"].as_array().into_iter().flatten().find(|before| {
                before["kind"] == target.kind && before["name"] == *target.name
            });
            let before = before.map_or(&Value::Null, |before| &before["conditions"]);
            json!({ "kind": target.kind, "name": target.name, "conditions": conditions(target, before, now) })
        })
        .collect();
    json!({ "observedGeneration": generation, "targets": targets })
}

fn conditions(target: &TargetStatus, before: &Value, now: &str) -> Vec<Value> {
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        let status = if holds { "True" } else { "False" };
        let same = before
            .as_array()
            .into_iter()
            .flatten()
            .find(|before| before["type"] == kind && before["status"] == status);
        let since = same.and_then(|same| same["lastTransitionTime"].as_str()).unwrap_or(now);
        json!({ "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since })
    };
    let accepted = target.verdict == Verdict::Accepted;
    let mut all = vec![condition("Accepted", accepted, target.verdict.as_str(), &target.message)];
    if let Some(count) = target.zone_unknown {
        let (reason, message) = match count {
            0 => ("ZonesKnown", "the zone of every endpoint is known".to_owned()),
            count => (
                "ZoneUnknown",
                format!(
                    "{count} endpoints have no known zone and count as remote to everyone: label their nodes with topology.kubernetes.io/zone"
                ),
            ),
        };
        all.push(condition("ZoneUnknown", count > 0, reason, &message));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::status;
    use crate::index::status::{TargetStatus, Verdict};
    use serde_json::Value;

    #[test]
    fn what_did_not_change_keeps_its_time_and_is_not_written_again() {
        let target = |verdict| TargetStatus {
            kind: "Service",
            name: "cart".to_owned(),
            verdict,
            message: "m".to_owned(),
            zone_unknown: Some(0),
        };
        let first = status(1, &[target(Verdict::Accepted)], &Value::Null, "10:00");
        assert_eq!(status(1, &[target(Verdict::Accepted)], &first, "11:00"), first);
        let second = status(1, &[target(Verdict::Conflicted)], &first, "12:00");
        let conditions = &second["targets"][0]["conditions"];
        assert_eq!(conditions[0]["lastTransitionTime"], "12:00");
        assert_eq!(
            (&conditions[0]["status"], &conditions[0]["reason"]),
            (&Value::from("False"), &Value::from("Conflicted"))
        );
        assert_eq!(conditions[1]["lastTransitionTime"], "10:00");
    }
}
