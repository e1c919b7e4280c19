//! Step 5: one attempt on one endpoint.

use crate::clock::Clock;
use crate::outbound::body::request::{RequestBody, Upload};
use crate::outbound::detect::Version;
use crate::outbound::head;
use crate::outbound::resolve::Memo;
use crate::outbound::retry::Replay;
use crate::upstream::dial::Target;
use crate::upstream::failure::{Failed, Failure};
use crate::upstream::{Lease, Reuse};
use crate::worker::local::LocalEndpoint;
use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

const CHUNKED: HeaderValue = HeaderValue::from_static("chunked");

/// Sends a request and waits for the response headers. A connection that its peer closed in the moment it was used says
/// nothing about the endpoint: the request is sent once more on a fresh one, if it may be.
pub(crate) async fn send(
    endpoint: &LocalEndpoint,
    timing: Timing,
    request: Box<Request<RequestBody>>,
    replay: &Replay,
) -> Result<(Response<Incoming>, Lease), Failed> {
    let limit = timing.limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
    Limited { attempt: attempt(endpoint, timing, request, replay), limit }.await
}

async fn attempt(
    endpoint: &LocalEndpoint,
    timing: Timing,
    request: Box<Request<RequestBody>>,
    replay: &Replay,
) -> Result<(Response<Incoming>, Lease), Failed> {
    let Timing { clock, connect_timeout, .. } = timing;
    let to = Target { endpoint: endpoint.shared(), connect_timeout, clock };
    let failed = match endpoint.connections().send(&to, request, Reuse::Idle).await {
        Ok(answer) => return Ok(answer),
        Err(failed) => failed,
    };
    let again = match (failed.failure, failed.request) {
        (Failure::Unsent, Some(request)) => request,
        // What is no HTTP was sent by somebody: that is an answer, and not a connection that was just going away.
        (Failure::Broken { error, stale: true }, _) if !error.is_parse() => {
            match replay.request(endpoint.shared().protocol) {
                Some(request) if replay.idempotent() => request,
                _ => return Err(Failed::sent(Failure::Broken { error, stale: true })),
            }
        }
        (failure, request) => return Err(Failed { failure, request }),
    };
    Box::pin(endpoint.connections().send(&to, again, Reuse::Fresh)).await
}

/// What the clock and the policy say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) clock: Clock,
    pub(crate) connect_timeout: Duration,
    /// How long the attempt may take.
    pub(crate) limit: Option<Duration>,
}

pin_project_lite::pin_project! {
    /// An attempt that may be limited in time. Without a limit it costs no timer.
    struct Limited<F> {
        #[pin]
        attempt: F,
        limit: Option<Pin<Box<Sleep>>>,
    }
}

impl<T, F: Future<Output = Result<T, Failed>>> Future for Limited<F> {
    type Output = Result<T, Failed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(ended) = this.attempt.poll(cx) {
            return Poll::Ready(ended);
        }
        match this.limit {
            Some(limit) => limit.as_mut().poll(cx).map(|()| Err(Failed::sent(Failure::TimedOut))),
            None => Poll::Pending,
        }
    }
}

/// Makes a request's head fit for the version of HTTP in which the endpoint gets it. Boxed, since it is then handed through
/// several futures, each of which would hold a place for it.
pub(crate) fn fit(
    mut head: Parts,
    body: RequestBody,
    version: Version,
    memo: &Memo,
) -> Box<Request<RequestBody>> {
    match version {
        Version::Http1 => fit_http1(&mut head, &body, memo),
        Version::Http2 => fit_http2(&mut head, memo),
    }
    Box::new(Request::from_parts(head, body))
}

fn fit_http1(head: &mut Parts, body: &RequestBody, memo: &Memo) {
    if head.version == http::Version::HTTP_2 {
        head::join_cookies(&mut head.headers);
    }
    let absolute = head.uri.authority().is_some();
    if absolute || !head.headers.contains_key(HOST) {
        head.headers.insert(HOST, memo.host.clone());
    }
    if absolute {
        // What stands before the path is for the proxy; the endpoint gets the origin form.
        head.uri = head.uri.path_and_query().map_or_else(root, |path| Uri::from(path.clone()));
    }
    head.version = http::Version::HTTP_11;
    let unknown_length =
        !http_body::Body::is_end_stream(body) && !head.headers.contains_key(CONTENT_LENGTH);
    if unknown_length {
        // Without it the HTTP library takes a GET to have no body.
        head.headers.insert(TRANSFER_ENCODING, CHUNKED);
    }
}

/// Lets the endpoint decide whether the caller is to send the body that it holds back (RFC 9110, 10.1.1). What an HTTP/2
/// endpoint says to that is not told by the HTTP library: there, the body is asked for at once.
pub(crate) fn hold_body(request: &mut Request<RequestBody>, upload: &Upload) {
    if !head::expects_continue(request.headers()) {
        return;
    }
    if request.version() != http::Version::HTTP_11 {
        request.headers_mut().remove(EXPECT);
    } else if let Some(gate) = upload.hold() {
        hyper::ext::on_informational(request, move |answer| {
            if answer.status() == StatusCode::CONTINUE {
                gate.open();
            }
        });
    }
}

fn root() -> Uri {
    Uri::from(PathAndQuery::from_static("/"))
}

fn fit_http2(head: &mut Parts, memo: &Memo) {
    head.headers.remove(HOST);
    let uri = std::mem::take(&mut head.uri);
    let mut parts = uri.into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(memo.authority.clone());
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
    }
    if let Ok(uri) = Uri::from_parts(parts) {
        head.uri = uri;
    }
    head.version = http::Version::HTTP_2;
}
