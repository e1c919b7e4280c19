//! What is told to the authors of objects: every setting that is refused or not followed, as an event on the object itself.

use super::key::Key;
use super::object::Service;
use super::place::Proxy;
use super::status::Verdict;
use super::{Index, Interest};
use api::policy::Mistake;
use api::policy::annotations::traffic_distribution;

/// A warning about one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// The object.
    pub regarding: Regarding,
    /// For machines, in `UpperCamelCase`.
    pub reason: &'static str,
    /// For people: what is wrong, what holds instead, what to do.
    pub note: String,
}

/// An object that a warning is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Regarding {
    /// Its kind.
    pub kind: Kind,
    /// Its name; the namespace is empty for a Namespace.
    pub key: Key,
    /// Its uid.
    pub uid: String,
}

/// A kind of object that has settings of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the kinds' own names")]
pub enum Kind {
    LocalityPolicy,
    Namespace,
    Pod,
    Service,
}

impl Index {
    /// What there is to tell about the object that changed.
    pub fn findings(&self, interest: &Interest) -> Vec<Finding> {
        match interest {
            Interest::Service(key) => {
                let service = self.home.services.get(key);
                service.map(|service| self.of_service(key, service)).unwrap_or_default()
            }
            Interest::Namespace(name) => {
                self.namespaces.get(name).map_or_else(Vec::new, |namespace| {
                    let key = Key::new("", name);
                    let regarding =
                        Regarding { kind: Kind::Namespace, key, uid: namespace.uid.clone() };
                    annotations(&regarding, &namespace.annotated.mistakes)
                })
            }
            Interest::Pod(key) => self.pods.get(key).map_or_else(Vec::new, |pod| {
                let regarding =
                    Regarding { kind: Kind::Pod, key: key.clone(), uid: pod.uid.clone() };
                annotations(&regarding, &pod.annotated.mistakes)
            }),
            Interest::Policies => self.of_policies(),
            Interest::Address(_) | Interest::Node(_) | Interest::Callers(_) => Vec::new(),
        }
    }

    fn of_service(&self, key: &Key, service: &Service) -> Vec<Finding> {
        let regarding =
            Regarding { kind: Kind::Service, key: key.clone(), uid: service.uid.clone() };
        let mut found = annotations(&regarding, &service.annotated.mistakes);
        let mut tell = |reason, note: String| {
            found.push(Finding { regarding: regarding.clone(), reason, note });
        };
        if service.session_affinity {
            let note = "sessionAffinity ClientIP: connections are left to Kubernetes, which keeps it; no locality policy applies. Remove sessionAffinity to have this Service balanced";
            tell("SessionAffinity", note.to_owned());
        }
        let spread = service.traffic_distribution.as_deref();
        if let Some(value) = spread.filter(|value| traffic_distribution(value).is_none()) {
            tell(
                "UnknownTrafficDistribution",
                format!(
                    "trafficDistribution {value:?} is not known and not followed; write PreferSameZone, PreferClose or PreferSameNode"
                ),
            );
        }
        let policy = self.holder(key).map(|(key, _)| format!("LocalityPolicy {key}"));
        let annotation = service.annotated.policy.as_ref().map(|_| "annotations".to_owned());
        if let Some(ignored) = policy.or(annotation).filter(|_| service.internal_local) {
            tell(
                "PolicyIgnored",
                format!(
                    "internalTrafficPolicy Local goes before {ignored}: only endpoints on the caller's node are used. Set internalTrafficPolicy Cluster to have the policy followed"
                ),
            );
        }
        if self.home.slices_of(key).any(|slice| slice.names_only) {
            tell("HostNamesIgnored", "an EndpointSlice with addressType FQDN is not followed: nothing resolves its names. Write IP addresses, or use an ExternalName Service".to_owned());
        }
        found
    }

    fn of_policies(&self) -> Vec<Finding> {
        let statuses = self.policy_statuses().into_iter();
        statuses
            .flat_map(|(key, status)| {
                let uid =
                    self.policies.get(&key).map(|policy| policy.uid.clone()).unwrap_or_default();
                let regarding = Regarding { kind: Kind::LocalityPolicy, key, uid };
                let refused =
                    status.into_iter().filter(|target| target.verdict != Verdict::Accepted);
                refused.map(move |target| Finding {
                    regarding: regarding.clone(),
                    reason: target.verdict.as_str(),
                    note: format!("{} {}: {}", target.kind, target.name, target.message),
                })
            })
            .collect()
    }
}

/// The warning that a proxy stands nowhere known.
pub fn zone_unknown(proxy: &Proxy) -> Option<Finding> {
    let key = proxy.pod.clone()?;
    let note = if proxy.node.is_empty() {
        "the pod's node is not known, so that its zone is not: calls go to all zones alike. Check that its ServiceAccount token is bound to the pod, or set the annotation tidegate.io/zone".to_owned()
    } else {
        format!(
            "node {} has no label topology.kubernetes.io/zone: calls go to all zones alike. Label the node, or set the annotation tidegate.io/zone on the pod",
            proxy.node
        )
    };
    let regarding = Regarding { kind: Kind::Pod, key, uid: proxy.pod_uid.to_string() };
    Some(Finding { regarding, reason: "ZoneUnknown", note })
}

fn annotations(regarding: &Regarding, mistakes: &[Mistake]) -> Vec<Finding> {
    let told = mistakes.iter().map(|mistake| Finding {
        regarding: regarding.clone(),
        reason: "InvalidAnnotation",
        note: format!("{mistake}; until then it counts as absent"),
    });
    told.collect()
}
