//! The view over HTTP, for people and for proxies of other makes: all services, or as one zone should use them.

mod page;

use crate::clock;
use crate::hub::Hub;
use bytes::Bytes;
use http::header::{
    ALLOW, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH, LAST_MODIFIED,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use page::Page;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// An answer.
type Reply = Response<Full<Bytes>>;

/// Number of services in the answer.
const COUNT: HeaderName = HeaderName::from_static("x-count");
/// Connections at a time: routers that poll, and people.
const CONNECTIONS: usize = 256;
/// Longest wait for a request on an open connection.
const IDLE: Duration = Duration::from_secs(75);
/// Zones that pages are kept for. A region has a handful; names that are none share the full page.
const PAGES_MAX: usize = 64;

/// What is served.
#[derive(Debug)]
pub struct View {
    hub: Arc<Hub>,
    synced: Arc<AtomicBool>,
    pages: Mutex<HashMap<String, Kept>>,
}

/// A page as of one generation of the index.
#[derive(Clone, Debug)]
struct Kept {
    generation: u64,
    page: Arc<Rendered>,
}

#[derive(Debug)]
struct Rendered {
    body: Bytes,
    count: usize,
    etag: String,
    modified: Timestamp,
}

impl View {
    /// A view of the hub's services, to be served once `synced` is true.
    pub fn new(hub: Arc<Hub>, synced: Arc<AtomicBool>) -> Self {
        Self { hub, synced, pages: Mutex::default() }
    }

    /// Serves for ever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        let connections = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            // Never closed, so that an error cannot be.
            let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // Mostly for want of file descriptors: others must be closed first.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let view = Arc::clone(&self);
            tokio::spawn(async move {
                view.connection(stream).await;
                drop(permit);
            });
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let reply = self.answer(&request.into_parts().0);
            std::future::ready(Ok::<_, Infallible>(reply))
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "connection to the view ended");
        }
    }

    /// The answer to one request.
    pub fn answer(&self, request: &Parts) -> Reply {
        let path = request.uri.path().trim_end_matches('/');
        let zone = match path.strip_prefix("/v1/endpoints") {
            Some("") => "",
            Some(rest) => match rest.strip_prefix('/').filter(|zone| !zone.contains('/')) {
                Some(zone) => zone,
                None => return plain(StatusCode::NOT_FOUND),
            },
            None => return plain(StatusCode::NOT_FOUND),
        };
        if request.method != Method::GET && request.method != Method::HEAD {
            let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED);
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return reply;
        }
        if !self.synced.load(Ordering::Acquire) {
            return plain(StatusCode::NOT_FOUND);
        }
        let only = request.uri.query().and_then(|query| query.strip_prefix("service="));
        let page = match only {
            Some(service) => Arc::new(render(&Page::new(&self.hub, zone, Some(service)), None)),
            None => self.page(zone),
        };
        reply(&page, &request.headers)
    }

    /// The page of a zone, made again only when something changed.
    fn page(&self, zone: &str) -> Arc<Rendered> {
        let generation = self.hub.look(|state| state.generation());
        let kept = self.pages.lock().get(zone).cloned();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.generation == generation) {
            return Arc::clone(&kept.page);
        }
        let page = Page::new(&self.hub, zone, None);
        if !page.zone_known() && !zone.is_empty() {
            return self.page("");
        }
        let page = Arc::new(render(&page, kept.map(|kept| kept.page).as_deref()));
        let mut pages = self.pages.lock();
        if pages.len() >= PAGES_MAX {
            pages.clear();
        }
        pages.insert(zone.to_owned(), Kept { generation, page: Arc::clone(&page) });
        page
    }
}

/// A page as bytes. Unless its bytes changed, it is as old as it was.
fn render(page: &Page, before: Option<&Rendered>) -> Rendered {
    // Text and numbers only: always written.
    let body = Bytes::from(serde_json::to_vec(page).unwrap_or_default());
    let mut hasher = DefaultHasher::new();
    hasher.write(&body);
    let etag = format!("\"{:016x}\"", hasher.finish());
    let same = before.filter(|before| before.etag == etag);
    let modified = same.map_or_else(clock::now, |before| before.modified);
    Rendered { body, count: page.services.len(), etag, modified }
}

fn reply(page: &Rendered, asked: &HeaderMap) -> Reply {
    let fresh =
        asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
            value
                .split(',')
                .map(str::trim)
                .any(|tag| tag == "*" || tag.trim_start_matches("W/") == page.etag)
        });
    let (status, body) = if fresh {
        (StatusCode::NOT_MODIFIED, Bytes::new())
    } else {
        (StatusCode::OK, page.body.clone())
    };
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(COUNT, HeaderValue::from(page.count));
    let modified = DateTimePrinter::new().timestamp_to_rfc9110_string(&page.modified);
    for (name, value) in [(ETAG, Some(&page.etag)), (LAST_MODIFIED, modified.as_ref().ok())] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    if !fresh {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    reply
}

fn plain(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(format!("{status}\n"))));
    *reply.status_mut() = status;
    reply
}

#[cfg(test)]
mod tests;
