//! Which pod a proxy belongs to.

use crate::index::key::Key;
use crate::index::place::Proxy;
use api::discovery::Hello;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};
use std::fmt;
use std::time::Duration;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// A review is one small request; a proxy that waits longer tries another replica.
const REVIEW: Duration = Duration::from_secs(5);

/// How proxies are identified.
pub enum Identify {
    /// By what they say: where nobody else can reach the port, and in tests.
    Trust,
    /// By a token of their pod's service account, bound to the pod and made for this audience.
    Tokens {
        /// The client that asks for reviews.
        client: Client,
        /// The audience that tokens must be made for.
        audience: String,
    },
}

impl fmt::Debug for Identify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trust => f.write_str("Trust"),
            Self::Tokens { audience, .. } => f.debug_tuple("Tokens").field(audience).finish(),
        }
    }
}

impl Identify {
    /// The proxy behind a call, or why it is refused.
    pub async fn proxy(&self, metadata: &MetadataMap, hello: &Hello) -> Result<Proxy, Status> {
        let Self::Tokens { client, audience } = self else { return Ok(claimed(hello)) };
        let bearer = metadata.get("authorization").and_then(|value| value.to_str().ok());
        let token = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let token = token.ok_or_else(|| {
            Status::unauthenticated("no bearer token: the proxy sends its service account's")
        })?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![audience.clone()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(client.clone());
        let params = PostParams::default();
        let asked = tokio::time::timeout(REVIEW, reviews.create(&params, &review)).await;
        let review = match asked {
            Ok(Ok(review)) => review,
            Ok(Err(error)) => {
                return Err(Status::unavailable(format!("no review of the token: {error}")));
            }
            Err(_elapsed) => return Err(Status::unavailable("no review of the token in time")),
        };
        let status = review.status.unwrap_or_default();
        match status.user {
            Some(user) if status.authenticated == Some(true) => Ok(proven(&user, hello)),
            _ => Err(Status::unauthenticated("the token is not valid for this audience")),
        }
    }
}

fn claimed(hello: &Hello) -> Proxy {
    let pod = (!hello.pod_name.is_empty()).then(|| Key::new(&hello.pod_namespace, &hello.pod_name));
    Proxy { pod, pod_uid: "".into(), node: hello.node.as_str().into() }
}

/// A token that is bound to a pod names it, and since Kubernetes 1.32 its node. Before, the node is what the proxy says: a lie
/// harms nobody else.
fn proven(user: &UserInfo, hello: &Hello) -> Proxy {
    let extra = |name: &str| {
        let values = user.extra.as_ref()?.get(&format!("authentication.kubernetes.io/{name}"))?;
        values.first().map(String::as_str)
    };
    // system:serviceaccount:NAMESPACE:NAME
    let namespace = user.username.as_deref().and_then(|name| name.split(':').nth(2));
    let pod = extra("pod-name").zip(namespace).map(|(name, namespace)| Key::new(namespace, name));
    Proxy {
        pod,
        pod_uid: extra("pod-uid").unwrap_or_default().into(),
        node: extra("node-name").unwrap_or(&hello.node).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Hello, Key, UserInfo, proven};
    use std::collections::BTreeMap;

    #[test]
    fn a_bound_token_names_pod_and_node() {
        let extra = |name: &str, value: &str| {
            (format!("authentication.kubernetes.io/{name}"), vec![value.to_owned()])
        };
        let user = UserInfo {
            username: Some("system:serviceaccount:shop:till".to_owned()),
            extra: Some(BTreeMap::from([
                extra("pod-name", "till-1"),
                extra("pod-uid", "u1"),
                extra("node-name", "n1"),
            ])),
            ..UserInfo::default()
        };
        let lie = Hello { pod_name: "other".to_owned(), node: "n9".to_owned(), ..Hello::default() };
        let proxy = proven(&user, &lie);
        assert_eq!(proxy.pod, Some(Key::new("shop", "till-1")));
        assert_eq!((&*proxy.pod_uid, &*proxy.node), ("u1", "n1"));

        let old = UserInfo { extra: None, ..user };
        let proxy = proven(&old, &lie);
        assert_eq!((proxy.pod, &*proxy.node), (None, "n9"), "an unbound token proves no pod");
    }
}
