//! Namespaces: only their annotations count.

use api::policy::annotations::Annotated;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A Namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// Its uid, for events.
    pub uid: String,
    /// The policy in its annotations.
    pub annotated: Annotated,
}

impl Namespace {
    /// Reads the metadata.
    pub fn read(meta: &ObjectMeta) -> Self {
        Self { uid: meta.uid.clone().unwrap_or_default(), annotated: super::annotated(meta) }
    }
}
