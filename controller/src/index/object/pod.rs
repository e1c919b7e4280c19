//! Pods that call: only their annotations count, and only pods that have some of ours are kept.

use api::names::annotation;
use api::policy::annotations::Annotated;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Its uid, for events.
    pub uid: String,
    /// Its zone, over its node's.
    pub zone: Option<Arc<str>>,
    /// Its region, over its node's.
    pub region: Option<Arc<str>>,
    /// The policy in its annotations, for all that it calls.
    pub annotated: Annotated,
}

impl Pod {
    /// Reads the metadata; `None` if it says nothing that concerns us.
    pub fn read(meta: &ObjectMeta) -> Option<Self> {
        let of = |name: &str| {
            let value = meta.annotations.as_ref()?.get(name)?.trim();
            (!value.is_empty()).then(|| Arc::from(value))
        };
        let read = Self {
            uid: meta.uid.clone().unwrap_or_default(),
            zone: of(annotation::ZONE),
            region: of(annotation::REGION),
            annotated: super::annotated(meta),
        };
        let plain = Self { uid: read.uid.clone(), ..Self::default() };
        (read != plain).then_some(read)
    }
}
