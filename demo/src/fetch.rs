//! One HTTP/1.1 request on a connection of its own: for control, readiness and scrapes, once a second.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// An answer as far as it is needed here.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("no connection to {address}: {source}")]
    Connect { address: SocketAddr, source: std::io::Error },
    #[error("no answer from {address} within {limit:?}")]
    Timeout { address: SocketAddr, limit: Duration },
    #[error("no good answer from {address}: {source}")]
    Http { address: SocketAddr, source: hyper::Error },
    #[error("answer of {address} to {path} cannot be read: {why}")]
    Unreadable { address: SocketAddr, path: String, why: String },
}

/// Larger than any scrape of a demo proxy, small enough to stop a runaway answer.
const BODY_BYTES_MAX: usize = 8 << 20;

/// `GET http://address/path`.
pub(crate) async fn get(
    address: SocketAddr,
    path: &str,
    limit: Duration,
) -> Result<Answer, FetchError> {
    within(limit, address, exchange(address, Method::GET, path)).await
}

/// `POST http://address/path` without a body.
pub(crate) async fn post(
    address: SocketAddr,
    path: &str,
    limit: Duration,
) -> Result<Answer, FetchError> {
    within(limit, address, exchange(address, Method::POST, path)).await
}

async fn within(
    limit: Duration,
    address: SocketAddr,
    exchange: impl Future<Output = Result<Answer, FetchError>>,
) -> Result<Answer, FetchError> {
    tokio::time::timeout(limit, exchange)
        .await
        .unwrap_or(Err(FetchError::Timeout { address, limit }))
}

async fn exchange(address: SocketAddr, method: Method, path: &str) -> Result<Answer, FetchError> {
    let http = |source| FetchError::Http { address, source };
    let unreadable = |why: String| FetchError::Unreadable { address, path: path.to_owned(), why };
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| FetchError::Connect { address, source })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let _ends_with_the_sender = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::HOST, address.to_string())
        .header(hyper::header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| unreadable(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(http)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| unreadable(error.to_string()))?.to_bytes();
    let body = String::from_utf8(body.to_vec()).map_err(|error| unreadable(error.to_string()))?;
    Ok(Answer { status, body })
}
