//! The admin server: health, metrics, and what a program wants to show.
//!
//! Answers are made by plain functions from a table ([`Route`]); `GET /` lists it. Reading is open to whoever reaches the
//! port; changing anything (`POST`) only to this machine. `Host` must be an address or `localhost`, so that no web page can
//! come here by a name of its own (DNS rebinding).

pub mod guard;
pub mod reply;

use crate::log::Throttle;
use crate::metrics::{CONTENT_TYPE, Metrics};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceBuilder;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

/// Connections at a time: scrapers, probes and a few people.
const CONNECTIONS: usize = 64;
/// Answers in the making at a time; rendering metrics is the costliest.
const REQUESTS: usize = 16;
/// No request has a body worth reading.
const BODY_BYTES: usize = 16 * 1024;
/// Headers of a scraper fit easily.
const HEADER_BYTES: usize = 16 * 1024;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest wait for a request on an open connection, the first or the next.
const IDLE: Duration = Duration::from_secs(75);
/// Pause after a failed accept, such as one for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An answer.
pub type Reply = Response<Full<Bytes>>;

/// What makes an answer. It must be quick: it runs on the admin thread.
pub type Handler = Box<dyn Fn(&Parts) -> Reply + Send + Sync>;

/// One page, or one command.
pub struct Route {
    method: Method,
    path: &'static str,
    about: &'static str,
    handler: Handler,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl Route {
    /// A page, for `GET` and `HEAD`. `about` says in a few words what it shows.
    pub fn get(
        path: &'static str,
        about: &'static str,
        handler: impl Fn(&Parts) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self { method: Method::GET, path, about, handler: Box::new(handler) }
    }

    /// A command, for `POST` from this machine alone. `about` says in a few words what it does.
    pub fn post(
        path: &'static str,
        about: &'static str,
        handler: impl Fn(&Parts) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self { method: Method::POST, path, about, handler: Box::new(handler) }
    }
}

/// Whether the program wants traffic. Cheap to clone; all clones are one state.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<parking_lot::RwLock<Option<&'static str>>>);

impl Readiness {
    /// Not ready, for the reason given.
    pub fn waiting(reason: &'static str) -> Self {
        Self(Arc::new(parking_lot::RwLock::new(Some(reason))))
    }

    /// Ready from now on.
    pub fn ready(&self) {
        *self.0.write() = None;
    }

    /// Not ready from now on, for the reason given.
    pub fn not_ready(&self, reason: &'static str) {
        *self.0.write() = Some(reason);
    }

    /// Why not, or `None` when ready.
    pub fn obstacle(&self) -> Option<&'static str> {
        *self.0.read()
    }
}

/// The admin server of one program.
#[derive(Debug)]
pub struct Admin {
    routes: Vec<Route>,
}

impl Admin {
    /// A server with `/live`, `/ready` and `/metrics`. `before_scrape` sets the gauges that nobody keeps current.
    pub fn new(
        readiness: Readiness,
        metrics: Metrics,
        before_scrape: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let live = Route::get("/live", "200 while the process answers", |_| {
            reply::text(StatusCode::OK, "live\n")
        });
        let ready = Route::get(
            "/ready",
            "200 while it wants traffic, else 503 with the reason",
            move |_| match readiness.obstacle() {
                None => reply::text(StatusCode::OK, "ready\n"),
                Some(reason) => {
                    reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n"))
                }
            },
        );
        let metrics = Route::get("/metrics", "Prometheus metrics", move |_| {
            before_scrape();
            reply::with_type(StatusCode::OK, CONTENT_TYPE, metrics.render())
        });
        Self { routes: vec![live, ready, metrics] }
    }

    /// Adds a page or a command.
    #[must_use]
    pub fn route(mut self, route: Route) -> Self {
        debug_assert!(
            !self
                .routes
                .iter()
                .any(|other| other.path == route.path && other.method == route.method),
            "each route once: {route:?}"
        );
        self.routes.push(route);
        self
    }

    /// Serves for ever, on the current runtime.
    pub async fn serve(self, listener: TcpListener) {
        static ACCEPT_FAILED: Throttle = Throttle::new(Duration::from_secs(10));
        let admin = Arc::new(self);
        let (connections, requests) =
            (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(Semaphore::new(REQUESTS)));
        loop {
            // Never closed, so that an error cannot be.
            let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let (admin, requests) = (Arc::clone(&admin), Arc::clone(&requests));
                    tokio::spawn(async move {
                        admin.connection(stream, peer, requests).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    if let Some(held_back) = ACCEPT_FAILED.pass(tokio::time::Instant::now()) {
                        tracing::warn!(%error, held_back, "admin server cannot accept connections: check the limit of open files");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        requests: Arc<Semaphore>,
    ) {
        let service = ServiceBuilder::new()
            .layer(TraceLayer::new_for_http())
            .layer(RequestBodyLimitLayer::new(BODY_BYTES))
            .layer(TimeoutLayer::with_status_code(StatusCode::SERVICE_UNAVAILABLE, ANSWER))
            .layer(GlobalConcurrencyLimitLayer::with_semaphore(requests))
            .service_fn(move |request: Request<_>| {
                let reply = self.answer(&request.into_parts().0, peer);
                std::future::ready(Ok::<_, Infallible>(reply))
            });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .max_buf_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, %peer, "admin connection ended");
        }
    }

    /// The answer to one request.
    fn answer(&self, request: &Parts, peer: SocketAddr) -> Reply {
        if !guard::host_is_literal(request) {
            return reply::text(
                StatusCode::FORBIDDEN,
                "open this by IP address or as localhost, not by another name\n",
            );
        }
        let path = request.uri.path();
        let wanted = if request.method == Method::HEAD { &Method::GET } else { &request.method };
        let here: Vec<&Route> = self.routes.iter().filter(|route| route.path == path).collect();
        if let Some(route) = here.iter().find(|route| route.method == *wanted) {
            if route.method != Method::GET && !guard::is_loopback(peer) {
                return reply::text(
                    StatusCode::FORBIDDEN,
                    "commands are taken from this machine only\n",
                );
            }
            return (route.handler)(request);
        }
        if !here.is_empty() {
            return reply::method_not_allowed(
                &here.iter().map(|route| &route.method).collect::<Vec<_>>(),
            );
        }
        if path != "/" {
            return reply::text(StatusCode::NOT_FOUND, "no such page; / lists what there is\n");
        }
        if *wanted == Method::GET {
            self.index()
        } else {
            reply::method_not_allowed(&[&Method::GET])
        }
    }

    /// Method, path and description of all there is.
    pub fn pages(&self) -> impl Iterator<Item = (&Method, &'static str, &'static str)> {
        self.routes.iter().map(|route| (&route.method, route.path, route.about))
    }

    fn index(&self) -> Reply {
        let line = |(method, path, about): (&Method, _, _)| {
            format!("{:4} {path:24} {about}\n", method.as_str())
        };
        reply::text(StatusCode::OK, self.pages().map(line).collect::<String>())
    }
}
