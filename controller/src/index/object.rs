//! What is kept of each Kubernetes object: a few fields, read once when the object arrives.
//!
//! Objects are written by whoever may write them: nothing here fails. What means nothing is left out, and told where its
//! author can see it (see [`finding`](super::finding)).

mod namespace;
mod node;
mod pod;
mod policy;
mod service;
mod slice;

pub use namespace::Namespace;
pub use node::Node;
pub use pod::Pod;
pub use policy::LocalityPolicy;
pub use service::{Port, Reach, Service};
pub use slice::{Condition, Endpoint, Slice};

use super::key::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The key of an object; `None` for one without a name, which the API server never sends.
pub fn key(meta: &ObjectMeta) -> Option<Key> {
    Some(Key::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref()?))
}

/// The policy that annotations set, and their mistakes.
fn annotated(meta: &ObjectMeta) -> api::policy::annotations::Annotated {
    let all = meta.annotations.iter().flatten();
    api::policy::annotations::policy(all.map(|(key, value)| (key.as_str(), value.as_str())))
}
