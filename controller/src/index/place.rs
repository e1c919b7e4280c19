//! Where a proxy stands, and what its own pod asks for.

use super::key::Key;
use super::policies::Effective;
use super::view::View;
use super::{Index, Interest, view};
use api::discovery as proto;
use api::policy::Mode;
use api::policy::source::PolicySource;
use std::sync::Arc;

/// What is known of a proxy: proven by its token, or as it says itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxy {
    /// Its pod; `None` outside the cluster.
    pub pod: Option<Key>,
    /// Its pod's uid; empty is unknown.
    pub pod_uid: Arc<str>,
    /// Its node; empty is unknown.
    pub node: Arc<str>,
}

impl Proxy {
    /// The namespace that short names are completed with.
    pub fn namespace(&self) -> &str {
        self.pod.as_ref().map_or("default", |pod| &pod.namespace)
    }

    /// What its place depends on.
    pub fn interests(&self) -> Vec<Interest> {
        let pod = self.pod.clone().map(Interest::Pod);
        pod.into_iter().chain([Interest::Node(Arc::clone(&self.node))]).collect()
    }
}

impl Index {
    /// Whether what a proxy does with a service depends on who else calls it.
    pub fn counts_callers(&self, proxy: &Proxy, view: &View) -> bool {
        let own = proxy.pod.as_ref().and_then(|key| self.pods.get(key)?.annotated.policy.as_ref());
        let policy = own.filter(|_| !view.effective.fixed).unwrap_or(&view.effective.policy);
        policy.mode == Mode::Proportional
    }

    /// Where a proxy stands: its pod's annotations, else its node's labels.
    pub fn place(&self, proxy: &Proxy) -> proto::Place {
        let pod = proxy.pod.as_ref().and_then(|key| Some((key, self.pods.get(key)?)));
        let node = self.home.nodes.get(&proxy.node);
        let text = |own: Option<&Arc<str>>, of_node: Option<&Arc<str>>| {
            own.or(of_node).map(ToString::to_string).unwrap_or_default()
        };
        let own = pod.map(|(_, pod)| pod);
        let policy = pod.and_then(|(key, pod)| {
            let policy = pod.annotated.policy.clone()?;
            let source = PolicySource::ClientPodAnnotation;
            Some(view::policy(&Effective { policy, source, object: key.to_string(), fixed: false }))
        });
        proto::Place {
            zone: text(own.and_then(|pod| pod.zone.as_ref()), node.map(|node| &node.zone)),
            region: text(own.and_then(|pod| pod.region.as_ref()), node.map(|node| &node.region)),
            node: proxy.node.to_string(),
            policy,
        }
    }
}
