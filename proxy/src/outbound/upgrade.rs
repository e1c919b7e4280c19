//! Requests that turn their connection into something else: WebSocket, or any other `Upgrade` (RFC 9110, 7.8).
//!
//! The request is one like others: picked, retried, classified. When the endpoint agrees (101) it is done, and what follows
//! is a connection that is not HTTP. Only HTTP/1.1 has it on both sides; elsewhere the wish is not passed on, as the RFC
//! allows, and the endpoint answers a request without it. A wish for HTTP/2 (`h2c`) is never passed on: it would carry
//! requests past everything that looks at them.

use crate::metrics::ZoneMetrics;
use crate::outbound::detect::{Inbound, Version};
use crate::outbound::head;
use crate::outbound::opaque;
use crate::tunnel::First;
use crate::upstream::stream::Counted;
use crate::worker::local::LocalEndpoint;
use crate::worker::roster::Entry;
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::rc::Rc;
use std::sync::Arc;

/// The value of `Connection` beside an `Upgrade`.
const TOKEN: HeaderValue = HeaderValue::from_static("upgrade");

/// What an endpoint agreed to.
#[derive(Debug)]
pub(crate) struct Switch {
    endpoint: OnUpgrade,
    metrics: Arc<ZoneMetrics>,
}

/// Passes a wish on that was taken from the head, if both sides can have it. Whether they can.
pub(crate) fn wish(wish: Option<HeaderValue>, head: &mut Parts, endpoint: Version) -> bool {
    let possible = head.version == http::Version::HTTP_11 && endpoint == Version::Http1;
    match wish {
        Some(wish) if possible && !names_http2(&wish) => {
            restore(&mut head.headers, wish);
            true
        }
        _ => false,
    }
}

fn names_http2(wish: &HeaderValue) -> bool {
    let mut protocols = wish.as_bytes().split(|byte| *byte == b',');
    protocols.any(|name| name.trim_ascii().to_ascii_lowercase().starts_with(b"h2"))
}

fn restore(headers: &mut HeaderMap, value: HeaderValue) {
    headers.insert(CONNECTION, TOKEN);
    headers.insert(UPGRADE, value);
}

/// The endpoint agreed: its answer for the caller, and what is to be served once that is sent.
pub(crate) fn agree<B>(
    mut response: Response<B>,
    endpoint: &Rc<LocalEndpoint>,
) -> (http::response::Parts, Switch) {
    debug_assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let switch = Switch {
        endpoint: hyper::upgrade::on(&mut response),
        metrics: Arc::clone(&endpoint.shared().zone),
    };
    let (mut head, _no_body) = response.into_parts();
    let agreed = head.headers.get(UPGRADE).cloned();
    head::strip_response(&mut head.headers);
    if let Some(agreed) = agreed {
        restore(&mut head.headers, agreed);
    }
    (head, switch)
}

/// Serves what the connection became, to its end. `sent` is what the caller sent right behind its request.
pub(crate) async fn serve(entry: &Entry, switch: Switch, mut caller: Inbound, sent: Bytes) {
    entry.is_opaque();
    let upgraded = match switch.endpoint.await {
        Ok(upgraded) => upgraded.downcast::<TokioIo<Counted>>(),
        Err(error) => {
            tracing::debug!(%error, "an upgrade did not come about");
            return caller.reset();
        }
    };
    let Ok(parts) = upgraded else {
        return tracing::error!("an endpoint's connection is of a kind that is not known");
    };
    let mut endpoint = parts.io.into_inner();
    let first = First { to_endpoint: sent.into(), to_caller: parts.read_buf.into() };
    let _open = switch.metrics.connection_opened();
    let ended = opaque::join(entry, &mut caller, &mut endpoint, first).await;
    switch.metrics.connected(opaque::judge(ended.as_ref(), true).0);
    opaque::pass_on(ended, &caller, &endpoint);
}
