//! As much of an API server as the injector talks to: Secrets with optimistic locking, one webhook configuration, namespaces,
//! pods and events, over HTTP.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The state that tests look at and change.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) secrets: BTreeMap<String, Value>,
    pub(crate) bundle: Option<String>,
    pub(crate) namespaces: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) events: Vec<Value>,
    /// Every request, `METHOD path`.
    pub(crate) asked: Vec<String>,
    /// Paths that contain this are answered with 500.
    pub(crate) broken: Option<&'static str>,
    version: u64,
}

/// A running API server.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) url: String,
    pub(crate) state: Arc<Mutex<State>>,
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

impl Cluster {
    /// Starts one, with namespaces of these names and labels.
    pub(crate) async fn start(namespaces: &[(&str, Value)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let objects = namespaces.iter().map(|(name, labels)| {
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": { "name": name, "labels": labels, "uid": name, "resourceVersion": "1" },
            })
        });
        let state = State { namespaces: objects.collect(), version: 1, ..State::default() };
        let cluster = Self { url, state: Arc::new(Mutex::new(state)) };
        let serving = cluster.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let cluster = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| cluster.clone().answer(request));
                    // A client that goes away is none of a test's business.
                    drop(
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                    );
                });
            }
        });
        cluster
    }

    /// A kubeconfig that leads to it.
    pub(crate) fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{ "name": "x", "cluster": { "server": self.url } }],
            "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "x" } }],
            "users": [{ "name": "x", "user": {} }],
        })
        .to_string()
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let path = head.uri.path().to_owned();
        let watch = head.uri.query().is_some_and(|query| query.contains("watch="));
        let mut state = self.state.lock();
        state.asked.push(format!("{} {path}", head.method));
        if watch {
            return Ok(endless());
        }
        let (status, answer) = if state.broken.is_some_and(|broken| path.contains(broken)) {
            (StatusCode::INTERNAL_SERVER_ERROR, failure(500, "Broken"))
        } else {
            state.answer(&head.method, &path, body)
        };
        let text = Full::new(Bytes::from(answer.to_string())).boxed();
        Ok(Response::builder().status(status).body(text).unwrap())
    }
}

/// A watch in which nothing happens.
fn endless() -> Answer {
    let frames = tokio_stream::pending::<Result<Frame<Bytes>, Infallible>>();
    Response::new(StreamBody::new(frames).boxed())
}

fn failure(code: u16, reason: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": reason })
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let not_found = (StatusCode::NOT_FOUND, failure(404, "NotFound"));
        match (method.as_str(), parts.as_slice()) {
            ("GET", ["api", "v1", "namespaces"]) => {
                (StatusCode::OK, list("Namespace", &self.namespaces))
            }
            ("GET", ["api", "v1", "pods"]) => (StatusCode::OK, list("Pod", &self.pods)),
            ("GET", ["api", "v1", "namespaces", name]) => {
                let found =
                    self.namespaces.iter().find(|object| object["metadata"]["name"] == *name);
                found.map_or(not_found, |object| (StatusCode::OK, object.clone()))
            }
            ("GET", ["api", "v1", "namespaces", _, "pods", name]) => {
                let found = self.pods.iter().find(|pod| pod["metadata"]["name"] == *name);
                found.map_or(not_found, |pod| (StatusCode::OK, pod.clone()))
            }
            ("POST", ["api", "v1", "namespaces", _, "events"]) => {
                let name = &body["metadata"]["name"];
                if self.events.iter().any(|event| event["metadata"]["name"] == *name) {
                    return (StatusCode::CONFLICT, failure(409, "AlreadyExists"));
                }
                self.events.push(body.clone());
                (StatusCode::CREATED, body)
            }
            ("GET", ["api", "v1", "namespaces", _, "secrets", name]) => {
                self.secrets.get(*name).map_or(not_found, |secret| (StatusCode::OK, secret.clone()))
            }
            ("POST", ["api", "v1", "namespaces", _, "secrets"]) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if self.secrets.contains_key(&name) {
                    return (StatusCode::CONFLICT, failure(409, "AlreadyExists"));
                }
                (StatusCode::CREATED, self.keep(&name, body))
            }
            ("PUT", ["api", "v1", "namespaces", _, "secrets", name]) => {
                let held = self.secrets.get(*name).map(|held| &held["metadata"]["resourceVersion"]);
                if held != Some(&body["metadata"]["resourceVersion"]) {
                    return (StatusCode::CONFLICT, failure(409, "Conflict"));
                }
                (StatusCode::OK, self.keep(name, body))
            }
            (
                _,
                [
                    "apis",
                    "admissionregistration.k8s.io",
                    "v1",
                    "mutatingwebhookconfigurations",
                    "tidegate",
                ],
            ) => {
                if method == Method::PATCH {
                    assert_eq!(body["webhooks"][0]["name"], "pods.tidegate.io");
                    let bundle = body["webhooks"][0]["clientConfig"]["caBundle"].as_str();
                    self.bundle = bundle.map(decoded);
                }
                (StatusCode::OK, self.configuration())
            }
            _ => not_found,
        }
    }

    fn keep(&mut self, name: &str, mut secret: Value) -> Value {
        self.version += 1;
        secret["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.secrets.insert(name.to_owned(), secret.clone());
        secret
    }

    fn configuration(&self) -> Value {
        let bundle = self.bundle.as_deref().map(encoded);
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": "tidegate" },
            "webhooks": [{
                "name": "pods.tidegate.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": "https://127.0.0.1/inject", "caBundle": bundle },
            }],
        })
    }
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({ "kind": format!("{kind}List"), "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items })
}

/// Base64, as the API server has it: by the type that does it.
pub(crate) fn decoded(text: &str) -> String {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(json!(text)).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

fn encoded(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}
