//! Answers that the proxy makes itself. Each says why in `tidegate-reason`.

use crate::metrics::{Protocol, edge};
use crate::outbound::body::response::ResponseBody;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

/// Why the proxy answers itself: one closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The head is no HTTP/1.
    Malformed,
    /// The target is longer than any that the HTTP/1 library reads.
    TargetTooLong,
    /// No `Host`, two of them, or one that is no authority.
    Host,
    /// A `Transfer-Encoding` other than `chunked`, or more than one.
    TransferEncoding,
    /// An absolute target with another scheme than `http`.
    Scheme,
    /// Header or trailers over the limits.
    HeadersTooLarge,
    /// `CONNECT` is not offered here.
    Connect,
    /// No service of that name is known.
    UnknownService,
    /// The service has no endpoint.
    NoEndpoints,
    /// No connection to the endpoint came about.
    Unreachable,
    /// The endpoint closed or reset the connection before an answer.
    Reset,
    /// The endpoint did not answer in the time that the policy allows.
    Timeout,
    /// The endpoint's answer is not valid HTTP.
    Protocol,
    /// The caller's body is malformed or ended early.
    RequestBody,
    /// A limit of the proxy is reached.
    Overloaded,
}

/// The header that says why the proxy answered itself.
pub(crate) const REASON: HeaderName = HeaderName::from_static("tidegate-reason");

const GRPC_CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

impl Refusal {
    const fn status(self) -> StatusCode {
        match self {
            Self::Malformed
            | Self::Host
            | Self::TransferEncoding
            | Self::Scheme
            | Self::RequestBody => StatusCode::BAD_REQUEST,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
            Self::UnknownService | Self::NoEndpoints | Self::Unreachable | Self::Overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Reset | Self::Protocol => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// INTERNAL for what the caller did wrong, as gRPC maps 400 and 431; `DEADLINE_EXCEEDED` or UNAVAILABLE for the rest.
    const fn grpc_status(self) -> &'static str {
        match self {
            Self::Malformed
            | Self::TargetTooLong
            | Self::Host
            | Self::TransferEncoding
            | Self::Scheme
            | Self::RequestBody
            | Self::HeadersTooLarge
            | Self::Connect => "13",
            Self::Timeout => "4",
            Self::UnknownService
            | Self::NoEndpoints
            | Self::Unreachable
            | Self::Overloaded
            | Self::Reset
            | Self::Protocol => "14",
        }
    }

    /// What `tidegate-reason` and the metrics say.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "bad_request",
            Self::TargetTooLong => "target_too_long",
            Self::Host => "bad_host",
            Self::TransferEncoding => "bad_transfer_encoding",
            Self::Scheme => "scheme_refused",
            Self::HeadersTooLarge => "headers_too_large",
            Self::Connect => "connect_refused",
            Self::UnknownService => "unknown_service",
            Self::NoEndpoints => "no_endpoints",
            Self::Unreachable => "endpoint_unreachable",
            Self::Reset => "endpoint_reset",
            Self::Timeout => "timeout",
            Self::Protocol => "endpoint_protocol",
            Self::RequestBody => "bad_request_body",
            Self::Overloaded => "overloaded",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Malformed => "the head of the request is not valid HTTP/1",
            Self::TargetTooLong => "the request's target is too long",
            Self::Host => "the request needs exactly one valid Host",
            Self::TransferEncoding => "the only transfer coding understood is one 'chunked'",
            Self::Scheme => {
                "calls are forwarded as http only: call the service by http, or open TLS to it yourself"
            }
            Self::HeadersTooLarge => "more than 64 KiB or 200 fields in the header or trailers",
            Self::Connect => "CONNECT is not offered here",
            Self::UnknownService => "no service of this name is known",
            Self::NoEndpoints => "the service has no endpoint",
            Self::Unreachable => "no connection to the endpoint",
            Self::Reset => "the endpoint closed the connection before it answered",
            Self::Timeout => "the endpoint did not answer in the time that the policy allows",
            Self::Protocol => "the endpoint's answer is not valid HTTP",
            Self::RequestBody => "the request body is malformed or ended early",
            Self::Overloaded => "the proxy has no connections, descriptors or memory left",
        }
    }
}

/// The answer for a refused request, in the form that its protocol has for errors.
pub(crate) fn refuse(protocol: Protocol, refusal: Refusal) -> Response<ResponseBody> {
    let mut response = match protocol {
        Protocol::Grpc => grpc(refusal),
        Protocol::Http1 | Protocol::Http2 => plain(refusal),
    };
    response.headers_mut().insert(REASON, HeaderValue::from_static(refusal.name()));
    edge::refused(refusal as usize, refusal.name());
    response
}

fn plain(refusal: Refusal) -> Response<ResponseBody> {
    let text = refusal.text();
    let mut response = Response::new(ResponseBody::text(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = refusal.status();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, TEXT);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    if refusal == Refusal::TransferEncoding {
        // Where the next request begins is anybody's guess.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The answer to an HTTP/1 request as bytes, after which the connection ends.
pub(crate) fn http1(refusal: Refusal) -> String {
    let (status, reason, text) = (refusal.status(), refusal.name(), refusal.text());
    format!(
        "HTTP/1.1 {status}\r\n{REASON}: {reason}\r\ncontent-type: text/plain; charset=utf-8\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    )
}

/// A trailers-only answer: gRPC clients look at nothing else.
fn grpc(refusal: Refusal) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC_CONTENT);
    headers.insert(super::classify::GRPC_STATUS, HeaderValue::from_static(refusal.grpc_status()));
    headers.insert(GRPC_MESSAGE, HeaderValue::from_static(refusal.text()));
    response
}
