//! Requests to an API server, one after the other.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client as Async, Config};
use serde_json::Value;
use std::fmt;
use tokio::runtime::{Builder, Runtime};

/// The API server said no, or nothing.
#[derive(Debug)]
pub struct Refusal {
    /// The status; 0 when there was no answer.
    pub status: u16,
    /// Its words.
    pub message: String,
}

/// A client that waits for each answer.
pub struct Client {
    runtime: Runtime,
    client: Async,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// A client as a kubeconfig describes it.
    pub fn new(kubeconfig: &str) -> Self {
        // One worker: connections are kept alive while nothing is asked.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            config.proxy_url = None;
            Async::try_from(config).unwrap()
        });
        Self { runtime, client }
    }

    /// The client itself, for programs of the test that do more at a time.
    pub fn inner(&self) -> Async {
        self.client.clone()
    }

    /// Runs something to its end.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Runs something until the client is dropped.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(future));
    }

    /// An object or a list.
    pub fn get(&self, path: &str) -> Result<Value, Refusal> {
        self.send("GET", path, "", Vec::new())
    }

    /// Text, such as that of `/readyz`.
    pub fn text(&self, path: &str) -> Result<String, Refusal> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.runtime.block_on(self.client.request_text(request)).map_err(Refusal::from)
    }

    /// Makes an object in a collection.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value, Refusal> {
        self.send("POST", path, "application/json", object.to_string().into_bytes())
    }

    /// Makes an object or changes it to be so (server-side apply).
    #[expect(clippy::needless_pass_by_value, reason = "objects are written where they are applied")]
    pub fn apply(&self, object: Value) -> Value {
        self.try_apply(&object).unwrap_or_else(|refusal| panic!("{refusal:?} for {object}"))
    }

    /// The same, when a refusal is of interest.
    pub fn try_apply(&self, object: &Value) -> Result<Value, Refusal> {
        self.patch(object, object.to_string())
    }

    /// The same with an object as it stands in a file.
    pub fn apply_yaml(&self, text: &str) -> Value {
        let object: Value = serde_saphyr::from_str(text).unwrap();
        self.patch(&object, text.to_owned()).unwrap()
    }

    fn patch(&self, object: &Value, text: String) -> Result<Value, Refusal> {
        let query = "fieldManager=test&force=true&fieldValidation=Strict";
        let path = format!("{}?{query}", path(object));
        self.send("PATCH", &path, "application/apply-patch+yaml", text.into_bytes())
    }

    /// Changes fields of an object's subresource `status` (merge patch).
    pub fn set_status(&self, object: &Value, status: &Value) {
        let text = serde_json::json!({ "status": status }).to_string();
        let path = format!("{}/status", path(object));
        self.send("PATCH", &path, "application/merge-patch+json", text.into_bytes()).unwrap();
    }

    /// Deletes what `object` names, at once; whatever else is in it does not matter.
    pub fn delete(&self, object: &Value) {
        let path = format!("{}?gracePeriodSeconds=0", path(object));
        self.send("DELETE", &path, "", Vec::new()).unwrap();
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        content: &str,
        body: Vec<u8>,
    ) -> Result<Value, Refusal> {
        let mut request = http::Request::builder().method(method).uri(path);
        if !content.is_empty() {
            request = request.header("content-type", content);
        }
        let request = request.body(body).unwrap();
        self.runtime.block_on(self.client.request::<Value>(request)).map_err(Refusal::from)
    }
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                Self { status: status.code, message: status.message.clone() }
            }
            error => Self { status: 0, message: format!("{error:?}") },
        }
    }
}

/// Where an object is.
pub(super) fn path(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let root = if version.contains('/') { "apis" } else { "api" };
    let namespace = match text(&object["metadata"]["namespace"]) {
        none if none.is_empty() => none,
        namespace => format!("/namespaces/{namespace}"),
    };
    let kind = text(&object["kind"]).to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    format!("/{root}/{version}{namespace}/{plural}/{}", text(&object["metadata"]["name"]))
}

/// RFC 4648, section 4: what Secrets and kubeconfigs are written in.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte));
        let group = group << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = LETTERS[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{base64, path};
    use serde_json::json;

    #[test]
    fn objects_have_their_paths() {
        let object = |version: &str, kind: &str, namespace: &str| {
            path(
                &json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": namespace}}),
            )
        };
        assert_eq!(object("v1", "Node", ""), "/api/v1/nodes/a");
        assert_eq!(
            object("tidegate.io/v1alpha1", "LocalityPolicy", "shop"),
            "/apis/tidegate.io/v1alpha1/namespaces/shop/localitypolicies/a"
        );
        assert_eq!(
            object("discovery.k8s.io/v1", "EndpointSlice", "shop"),
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/a"
        );
    }

    #[test]
    fn base64_is_padded() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
