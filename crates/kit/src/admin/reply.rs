//! Answers.

use super::Reply;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Method, StatusCode};
use http_body_util::Full;
use std::collections::BTreeSet;

/// Plain text.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    with_type(status, "text/plain; charset=utf-8", body)
}

/// JSON, written already.
pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    with_type(status, "application/json", body)
}

/// Anything. Answers are of the moment and are never stored.
pub fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Reply::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

/// 405 with what is allowed.
pub(crate) fn method_not_allowed(methods: &[&Method]) -> Reply {
    let mut allowed: BTreeSet<&str> = methods.iter().map(|method| method.as_str()).collect();
    if allowed.contains("GET") {
        allowed.insert("HEAD");
    }
    let allowed = allowed.into_iter().collect::<Vec<_>>().join(", ");
    let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, format!("only {allowed} here\n"));
    if let Ok(value) = HeaderValue::try_from(allowed) {
        reply.headers_mut().insert(ALLOW, value);
    }
    reply
}
