//! Which policy holds for a service: the most specific object, whole.

use super::Index;
use super::key::Key;
use super::object::{LocalityPolicy, Service};
use api::policy::Policy;
use api::policy::annotations::{internal_traffic_local, traffic_distribution};
use api::policy::source::PolicySource;

/// The policy of a service, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// The policy.
    pub policy: Policy,
    /// The kind of object that set it.
    pub source: PolicySource,
    /// The object: `shop/cart`; empty for what is built in.
    pub object: String,
    /// Kubernetes promises this: nothing goes before it.
    pub fixed: bool,
}

impl Index {
    /// The policy of a service of this cluster, but for what its callers' own annotations say.
    pub(super) fn effective(&self, key: &Key, service: &Service) -> Effective {
        if service.internal_local {
            return Effective {
                policy: internal_traffic_local(),
                source: PolicySource::InternalTrafficPolicy,
                object: key.to_string(),
                fixed: true,
            };
        }
        let candidates = self.candidates(key, service);
        let (source, policy, object) = candidates
            .into_iter()
            .flatten()
            .min_by_key(|(source, _, _)| *source)
            .unwrap_or_else(|| (PolicySource::BuiltIn, Policy::default(), String::new()));
        Effective { policy, source, object, fixed: false }
    }

    fn candidates(
        &self,
        key: &Key,
        service: &Service,
    ) -> [Option<(PolicySource, Policy, String)>; 6] {
        let resource = |source, found: Option<(&Key, &LocalityPolicy)>| {
            let (key, resource) = found?;
            Some((source, resource.policy.clone().ok()?, key.to_string()))
        };
        let annotated = |source, policy: Option<&Policy>, object: String| {
            policy.map(|policy| (source, policy.clone(), object))
        };
        let namespace = self.namespaces.get(&key.namespace);
        let in_namespace = (key.namespace != self.settings.namespace)
            .then(|| self.default_of(&key.namespace))
            .flatten();
        let spread = service.traffic_distribution.as_deref().and_then(traffic_distribution);
        [
            resource(PolicySource::ServicePolicy, self.holder(key)),
            annotated(
                PolicySource::ServiceAnnotation,
                service.annotated.policy.as_ref(),
                key.to_string(),
            ),
            resource(PolicySource::NamespacePolicy, in_namespace),
            annotated(
                PolicySource::NamespaceAnnotation,
                namespace.and_then(|namespace| namespace.annotated.policy.as_ref()),
                key.namespace.to_string(),
            ),
            annotated(PolicySource::TrafficDistribution, spread.as_ref(), key.to_string()),
            resource(PolicySource::MeshDefault, self.default_of(&self.settings.namespace)),
        ]
    }

    /// The LocalityPolicy that holds for a Service by name.
    pub(super) fn holder(&self, service: &Key) -> Option<(&Key, &LocalityPolicy)> {
        oldest(self.policies_in(&service.namespace).filter(|(_, policy)| {
            policy.policy.is_ok() && policy.targets.iter().any(|name| **name == *service.name)
        }))
    }

    /// The LocalityPolicy that holds for a whole namespace.
    pub(super) fn default_of(&self, namespace: &str) -> Option<(&Key, &LocalityPolicy)> {
        oldest(
            self.policies_in(namespace)
                .filter(|(_, policy)| policy.policy.is_ok() && policy.targets.is_empty()),
        )
    }

    fn policies_in(&self, namespace: &str) -> impl Iterator<Item = (&Key, &LocalityPolicy)> {
        self.policies
            .range(Key::new(namespace, "")..)
            .take_while(move |(key, _)| *key.namespace == *namespace)
    }
}

/// Of policies for the same target the oldest holds, as everywhere in Kubernetes' policy attachment; of equally old ones the
/// first by name.
fn oldest<'a>(
    policies: impl Iterator<Item = (&'a Key, &'a LocalityPolicy)>,
) -> Option<(&'a Key, &'a LocalityPolicy)> {
    policies.min_by_key(|(key, policy)| (policy.created_at, *key))
}
