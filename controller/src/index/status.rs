//! The status of LocalityPolicies: for each target, whether the policy holds there and why not.

use super::Index;
use super::key::{Key, ServiceId};
use super::object::{LocalityPolicy, Reach, Service};
use api::policy::Mistake;

/// The status of a policy at one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    /// `Service`, `Namespace` or `Mesh`.
    pub kind: &'static str,
    /// Name of the Service or Namespace.
    pub name: String,
    /// Whether the policy holds there.
    pub verdict: Verdict,
    /// The same for people.
    pub message: String,
    /// Endpoints of the target without a known zone, for a Service that exists.
    pub zone_unknown: Option<usize>,
}

/// Whether a policy holds at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Accepted,
    /// An older policy for the same target does.
    Conflicted,
    /// There is no such Service.
    TargetNotFound,
    /// The policy has mistakes.
    Invalid,
    /// The Service asks Kubernetes for something that no policy can follow.
    Overridden,
}

impl Verdict {
    /// The reason in conditions and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::Conflicted => "Conflicted",
            Self::TargetNotFound => "TargetNotFound",
            Self::Invalid => "Invalid",
            Self::Overridden => "Overridden",
        }
    }
}

impl Index {
    /// The status of every policy, in order.
    pub fn policy_statuses(&self) -> Vec<(Key, Vec<TargetStatus>)> {
        self.policies
            .iter()
            .map(|(key, policy)| (key.clone(), self.policy_status(key, policy)))
            .collect()
    }

    /// What the API server has of a policy: its generation and status.
    pub fn policy_as_stored(&self, key: &Key) -> Option<(i64, &serde_json::Value)> {
        self.policies.get(key).map(|policy| (policy.generation, &policy.status))
    }

    fn policy_status(&self, key: &Key, policy: &LocalityPolicy) -> Vec<TargetStatus> {
        if policy.targets.is_empty() {
            let mesh = key.namespace == self.settings.namespace;
            let holder = self.default_of(&key.namespace).map(|(holder, _)| holder);
            let (verdict, message) = verdict(key, policy, holder);
            let (kind, name) = if mesh { ("Mesh", "") } else { ("Namespace", &*key.namespace) };
            let name = name.to_owned();
            return vec![TargetStatus { kind, name, verdict, message, zone_unknown: None }];
        }
        policy.targets.iter().map(|name| self.target_status(key, policy, name)).collect()
    }

    fn target_status(&self, key: &Key, policy: &LocalityPolicy, name: &str) -> TargetStatus {
        let target = Key::new(&key.namespace, name);
        let service = self.service(&target);
        let (verdict, message) = match service {
            _ if policy.policy.is_err() => verdict(key, policy, None),
            None => (Verdict::TargetNotFound, format!("there is no Service {target}")),
            Some(service) => match goes_before(service) {
                Some(setting) => {
                    (Verdict::Overridden, format!("{setting} of Service {target} goes before"))
                }
                None => verdict(key, policy, self.holder(&target).map(|(holder, _)| holder)),
            },
        };
        let zone_unknown = service.map(|service| {
            let ports = service.ports.iter();
            let ids = ports.map(|port| ServiceId { service: target.clone(), port: port.number });
            let without = ids.filter_map(|id| self.view(&id)).map(|view| {
                view.service.endpoints.iter().filter(|endpoint| endpoint.zone.is_empty()).count()
            });
            without.max().unwrap_or(0)
        });
        TargetStatus { kind: "Service", name: name.to_owned(), verdict, message, zone_unknown }
    }
}

/// What a Service asks for that leaves a policy nothing to decide.
fn goes_before(service: &Service) -> Option<&'static str> {
    if service.reach == Reach::ExternalName {
        Some("type ExternalName")
    } else if service.session_affinity {
        Some("sessionAffinity ClientIP")
    } else if service.internal_local {
        Some("internalTrafficPolicy Local")
    } else {
        None
    }
}

fn verdict(key: &Key, policy: &LocalityPolicy, holder: Option<&Key>) -> (Verdict, String) {
    if let Err(mistakes) = &policy.policy {
        let told: Vec<String> = mistakes.iter().map(Mistake::to_string).collect();
        return (Verdict::Invalid, told.join(". "));
    }
    match holder {
        Some(holder) if holder != key => (
            Verdict::Conflicted,
            format!("the older LocalityPolicy {holder} holds for the same target"),
        ),
        _ => (Verdict::Accepted, "the policy holds".to_owned()),
    }
}
