//! An API server's side of a call: TLS by a bundle of authorities, HTTP/2 or HTTP/1.1.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The name that the certificate must be for.
pub(crate) const NAME: &str = "tidegate-injector.tidegate.svc";

/// An open connection.
#[derive(Debug)]
pub(crate) enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Connects, and accepts only what the bundle vouches for.
pub(crate) async fn connect(
    address: SocketAddr,
    bundle: &str,
    alpn: &str,
) -> Result<Connection, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let authority = authority.map_err(|error| text(&error))?;
        roots.add(authority).map_err(|error| text(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    stream.set_nodelay(true).map_err(|error| text(&error))?;
    let name = ServerName::try_from(NAME).map_err(|error| text(&error))?;
    let tls = Box::pin(TlsConnector::from(Arc::new(config)).connect(name, stream)).await;
    let io = TokioIo::new(tls.map_err(|error| text(&error))?);
    if alpn == "h2" {
        let shaking = Box::pin(http2::handshake(TokioExecutor::new(), io));
        let (sender, connection) = shaking.await.map_err(|error| text(&error))?;
        tokio::spawn(connection);
        return Ok(Connection::Http2(sender));
    }
    let (sender, connection) = http1::handshake(io).await.map_err(|error| text(&error))?;
    tokio::spawn(connection);
    Ok(Connection::Http1(sender))
}

impl Connection {
    /// Sends a request and reads the answer.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<(StatusCode, String), String> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{NAME}{path}"))
            .header("host", NAME)
            .body(Full::new(body.into()))
            .map_err(|error| error.to_string())?;
        let answer = match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        };
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    }

    /// Asks about a pod.
    pub(crate) async fn review(&mut self, namespace: &str, pod: &Value) -> Result<Value, String> {
        let (status, body) =
            self.send(Method::POST, "/inject", review(namespace, pod).to_string()).await?;
        if status != StatusCode::OK {
            return Err(format!("{status}: {body}"));
        }
        let answer: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        Ok(answer["response"].clone())
    }
}

/// A review as an API server writes it.
pub(crate) fn review(namespace: &str, pod: &Value) -> Value {
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": { "group": "", "version": "v1", "kind": "Pod" },
            "resource": { "group": "", "version": "v1", "resource": "pods" },
            "requestKind": { "group": "", "version": "v1", "kind": "Pod" },
            "requestResource": { "group": "", "version": "v1", "resource": "pods" },
            "namespace": namespace, "operation": "CREATE",
            "userInfo": { "username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:authenticated"] },
            "object": pod, "oldObject": null, "dryRun": false,
            "options": { "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" },
        },
    })
}

/// A small pod.
pub(crate) fn pod(annotations: &Value) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "generateName": "web-", "labels": { "app": "web" }, "annotations": annotations, "creationTimestamp": null },
        "spec": { "containers": [{ "name": "web", "image": "web:1", "resources": {}, "ports": [{ "containerPort": 8080, "protocol": "TCP" }] }] },
        "status": {},
    })
}
