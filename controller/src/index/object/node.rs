//! Nodes: only their topology labels count.

use api::names::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::sync::Arc;

/// Where a node stands; empty is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its zone.
    pub zone: Arc<str>,
    /// Its region.
    pub region: Arc<str>,
    /// Its zone's id on AWS: the same in every account, where names are not.
    pub zone_id: Arc<str>,
}

impl Node {
    /// Reads the metadata.
    pub fn read(meta: &ObjectMeta) -> Self {
        let of = |names: &[&str]| -> Arc<str> {
            let labels = meta.labels.as_ref();
            let mut values = names.iter().filter_map(|name| labels?.get(*name));
            values.find(|value| !value.is_empty()).map(String::as_str).unwrap_or_default().into()
        };
        Self {
            zone: of(&[label::NODE_ZONE, label::NODE_ZONE_BETA]),
            region: of(&[label::NODE_REGION, label::NODE_REGION_BETA]),
            zone_id: of(&[label::AWS_ZONE_ID]),
        }
    }
}
