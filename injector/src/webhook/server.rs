//! The webhook over TLS: connections, limits, deadline.
//!
//! `POST /inject` is all there is. Health and metrics are at the admin server, which the API server needs not.

use super::{ReviewError, Shared};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use kit::log::Throttle;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, ServiceBuilder};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

/// Where pods are asked about.
pub const PATH: &str = "/inject";
/// An object in etcd has at most 1.5 MiB, and what surrounds it in a review little.
const BODY_BYTES: usize = 4 * 1024 * 1024;
/// Headers of an API server.
const HEADER_BYTES: usize = 16 * 1024;
/// Below the 5 s that the API server waits: an answer that says why is better than none.
const ANSWER: Duration = Duration::from_secs(4);
/// API servers keep one or two connections each; more are a mistake or an attack.
const CONNECTIONS: usize = 256;
/// Reviews at a time; the others wait until the deadline. One is a fraction of a millisecond of work.
const REVIEWS: usize = 64;
/// Streams of one connection: what waits on it is bounded.
const STREAMS: u32 = 128;
/// Longest handshake. A peer that says nothing holds a connection no longer.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Longest wait for a request on an open HTTP/1 connection.
const IDLE: Duration = Duration::from_secs(75);
/// Pause after a failed accept, such as one for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Answer = Response<Full<Bytes>>;

/// The server, until it is told to drain.
pub struct Server {
    webhook: Shared,
    tls: TlsAcceptor,
    connections: Arc<Semaphore>,
    reviews: Arc<Semaphore>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A server that answers from `webhook`.
    pub fn new(webhook: Shared, tls: rustls::ServerConfig) -> Self {
        Self {
            webhook,
            tls: TlsAcceptor::from(Arc::new(tls)),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            reviews: Arc::new(Semaphore::new(REVIEWS)),
        }
    }

    /// Serves until `drain` is done, then until what is in flight is answered.
    pub async fn serve(self, listener: TcpListener, drain: impl Future<Output = ()>) {
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&listener, &graceful) => {}
            () = drain => {}
        }
        drop(listener);
        graceful.shutdown().await;
    }

    async fn accept(&self, listener: &TcpListener, graceful: &GracefulShutdown) {
        static ACCEPT_FAILED: Throttle = Throttle::new(Duration::from_secs(10));
        loop {
            // Never closed, so that an error cannot be.
            let Ok(permit) = Arc::clone(&self.connections).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let (webhook, tls) = (Arc::clone(&self.webhook), self.tls.clone());
                    let (reviews, watcher) = (Arc::clone(&self.reviews), graceful.watcher());
                    tokio::spawn(async move {
                        let ended = connection(stream, tls, webhook, reviews, watcher).await;
                        tracing::debug!(?ended, %peer, "webhook connection ended");
                        drop(permit);
                    });
                }
                Err(error) => {
                    if let Some(held_back) = ACCEPT_FAILED.pass(Instant::now()) {
                        tracing::warn!(%error, held_back, "the webhook cannot accept connections: check the limit of open files");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("no TLS handshake within {HANDSHAKE:?}")]
    Late,
    #[error("TLS handshake: {0}")]
    Handshake(std::io::Error),
    #[error("{0}")]
    Http(BoxError),
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    webhook: Shared,
    reviews: Arc<Semaphore>,
    watcher: Watcher,
) -> Result<(), Ended> {
    // A reply is several small writes: without this the last of them waits for the peer's delayed acknowledgement.
    stream.set_nodelay(true).map_err(Ended::Handshake)?;
    let stream = tokio::time::timeout(HANDSHAKE, tls.accept(stream))
        .await
        .map_err(|_late| Ended::Late)?
        .map_err(Ended::Handshake)?;
    let service = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, ANSWER))
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(reviews))
        .layer(RequestBodyLimitLayer::new(BODY_BYTES))
        .service_fn(move |request: Request<_>| answer(Arc::clone(&webhook), request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(HEADER_BYTES)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let connection =
        builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    watcher.watch(connection.into_owned()).await.map_err(Ended::Http)
}

async fn answer<B: Body<Data = Bytes>>(
    webhook: Shared,
    request: Request<B>,
) -> Result<Answer, Infallible>
where
    B::Error: Into<BoxError>,
{
    let start = Instant::now();
    if request.uri().path() != PATH {
        return Ok(text(StatusCode::NOT_FOUND, format!("nothing here; reviews go to {PATH}\n")));
    }
    if request.method() != Method::POST {
        return Ok(text(StatusCode::METHOD_NOT_ALLOWED, "only POST here\n".to_owned()));
    }
    let answer = match review(&webhook, request.into_body()).await {
        Ok(review) => {
            let mut answer = Response::new(Full::new(review.into()));
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            answer
        }
        Err((status, why)) => {
            static FAILED: Throttle = Throttle::new(Duration::from_secs(1));
            webhook.metrics.failed();
            if let Some(held_back) = FAILED.pass(Instant::now()) {
                tracing::warn!(status = status.as_u16(), why, held_back, "a review failed");
            }
            text(status, format!("tidegate-injector: {why}\n"))
        }
    };
    webhook.metrics.took(start.elapsed());
    Ok(answer)
}

async fn review<B: Body<Data = Bytes>>(
    webhook: &Shared,
    body: B,
) -> Result<Vec<u8>, (StatusCode, String)>
where
    B::Error: Into<BoxError>,
{
    let body = body.collect().await.map_err(|error| match error.into() {
        error if error.is::<http_body_util::LengthLimitError>() => {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("a review of more than {BODY_BYTES} bytes"))
        }
        error => (StatusCode::BAD_REQUEST, format!("the review broke off: {error}")),
    })?;
    let told = |error: ReviewError| (error.status(), error.to_string());
    webhook.review(&body.to_bytes()).await.map_err(told)
}

fn text(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
