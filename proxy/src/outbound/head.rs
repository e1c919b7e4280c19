//! The heads of messages: what is refused, what belongs to one connection only and is not passed on.

use crate::metrics::Protocol;
use crate::outbound::detect::Version;
use crate::outbound::limits;
use crate::outbound::reply::Refusal;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// What the caller speaks, in the terms of metrics.
pub(crate) fn protocol(version: Version, headers: &HeaderMap) -> Protocol {
    match version {
        Version::Http1 => Protocol::Http1,
        Version::Http2 if headers.get(CONTENT_TYPE).is_some_and(is_grpc) => Protocol::Grpc,
        Version::Http2 => Protocol::Http2,
    }
}

fn is_grpc(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(b"application/grpc")
}

/// Checks what must not be passed on.
pub(crate) fn check(version: Version, head: &Parts) -> Result<(), Refusal> {
    if head.method == Method::CONNECT {
        return Err(Refusal::Connect);
    }
    match version {
        // The HTTP/1 parser has applied the limits already.
        Version::Http1 => {
            check_scheme(&head.uri).and_then(|()| check_transfer_encoding(&head.headers))
        }
        Version::Http2 if limits::too_large(&head.headers) => Err(Refusal::HeadersTooLarge),
        Version::Http2 => Ok(()),
    }
}

/// An absolute target is a wish to be forwarded by its scheme (RFC 9112, 3.2.2), and calls are forwarded in plain text only. Over
/// HTTP/2 the scheme may be what a balancer in front has ended.
fn check_scheme(target: &Uri) -> Result<(), Refusal> {
    match target.scheme() {
        None => Ok(()),
        Some(scheme) if *scheme == Scheme::HTTP => Ok(()),
        Some(_) => Err(Refusal::Scheme),
    }
}

/// Exactly one `chunked`, or nothing: what two parsers may read in two ways is not passed on (RFC 9112, 6.1).
fn check_transfer_encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Ok(()),
        _ => Err(Refusal::TransferEncoding),
    }
}

/// Whether the framing of an endpoint's answer can be read in one way only. The HTTP library is lenient here: of a length
/// beside chunks it keeps both, of several codings it looks at the last.
pub(crate) fn is_framed(headers: &HeaderMap) -> bool {
    if headers.contains_key(TRANSFER_ENCODING) {
        return check_transfer_encoding(headers).is_ok() && !headers.contains_key(CONTENT_LENGTH);
    }
    headers.get_all(CONTENT_LENGTH).iter().count() <= 1
}

/// Whether the caller waits with the body until it is asked for it.
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// The one `Host` of an HTTP/1 request.
pub(crate) fn host(headers: &HeaderMap) -> Result<Option<&HeaderValue>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (host, None) => Ok(host),
        _ => Err(Refusal::Host),
    }
}

/// Removes what is meant for the connection only (RFC 9110, 7.6.1). Returns a wish to change its protocol, if there is one.
pub(crate) fn strip_request(headers: &mut HeaderMap) -> Option<HeaderValue> {
    if !headers.keys().any(is_for_one_connection) {
        return None;
    }
    let found = for_one_connection(headers);
    // As gRPC has it.
    if found == [TE] && headers.get_all(TE).iter().eq([&TRAILERS]) {
        return None;
    }
    let trailers = headers.get(TE).is_some_and(accepts_trailers);
    let wish = wished(headers);
    strip(headers, &found);
    if trailers {
        headers.insert(TE, TRAILERS);
    }
    wish
}

/// An `Upgrade` counts only where `Connection` names it, and where there is one.
fn wished(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut wishes = headers.get_all(UPGRADE).iter();
    let (Some(wish), None) = (wishes.next(), wishes.next()) else { return None };
    let mut names = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"upgrade")).then(|| wish.clone())
}

/// The same for a response. The framing of its body is left to the HTTP library.
pub(crate) fn strip_response(headers: &mut HeaderMap) {
    if headers.keys().any(is_for_one_connection) {
        strip(headers, &for_one_connection(headers));
    }
}

/// What of it there is.
fn for_one_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers.keys().filter(|name| is_for_one_connection(name)).cloned().collect()
}

/// One look at each name is a tenth of the cost of asking the map for each of these.
fn is_for_one_connection(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "upgrade"
            | "transfer-encoding"
            | "te"
            | "http2-settings"
    )
}

fn strip(headers: &mut HeaderMap, found: &[HeaderName]) {
    if found.contains(&CONNECTION) {
        strip_named(headers);
    }
    for name in found {
        headers.remove(name);
    }
}

/// Puts the cookies of an HTTP/2 request into one field, as HTTP/1 has it (RFC 9113, 8.2.3).
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// Removes `Connection` and the fields that it names. Those that frame or route the message cannot be named away.
fn strip_named(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH && *name != CONTENT_TYPE)
        .collect();
    headers.remove(CONNECTION);
    for name in named {
        headers.remove(name);
    }
}

fn accepts_trailers(te: &HeaderValue) -> bool {
    te.as_bytes()
        .split(|byte| *byte == b',')
        .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}
