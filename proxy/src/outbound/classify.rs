//! What an answer, or its absence, says and about whom.

use crate::outbound::body::request::{Fault, Upload};
use crate::outbound::reply::Refusal;
use crate::upstream::failure::Failure;
use balance::balancer::Outcome;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Whose fault an error is. Only endpoint faults count against an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Bad bytes, a cancel, a timeout of the caller.
    Caller,
    /// Limits of this proxy, nowhere to send to.
    Proxy,
    /// No connection, a reset, an error status, a body cut short.
    Endpoint,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Caller => "caller",
            Self::Proxy => "proxy",
            Self::Endpoint => "endpoint",
        })
    }
}

/// How far an attempt without an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// A connection was asked for and refused.
    Nothing,
    /// Nobody answered when a connection was asked for.
    Nobody,
    /// The endpoint did not look at the request, provably.
    Refused,
    /// The endpoint may have acted on it.
    Perhaps,
}

/// Why an attempt got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) origin: Origin,
    pub(crate) reached: Reached,
    /// What the caller is told if it is not retried.
    pub(crate) refusal: Refusal,
}

pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// What the headers of a response say about its endpoint.
pub(crate) fn headers(grpc: bool, status: StatusCode, headers: &HeaderMap) -> Outcome {
    let failed = status.is_server_error()
        || grpc && headers.get(GRPC_STATUS).is_some_and(is_endpoint_failure);
    if failed { Outcome::Failure } else { Outcome::Success }
}

/// What a gRPC response without `grpc-status` in its headers says by its trailers. A missing status is a failure: the
/// endpoint did not say how it went.
pub(crate) fn trailers(trailers: Option<&HeaderMap>) -> Outcome {
    match trailers.and_then(|trailers| trailers.get(GRPC_STATUS)) {
        Some(status) if !is_endpoint_failure(status) => Outcome::Success,
        _ => Outcome::Failure,
    }
}

/// UNKNOWN, `DEADLINE_EXCEEDED`, INTERNAL, UNAVAILABLE and `DATA_LOSS` are failures of the endpoint; all other codes say
/// something about the request. What is no number is treated as UNKNOWN, as gRPC clients do.
fn is_endpoint_failure(status: &HeaderValue) -> bool {
    let code = status.to_str().ok().and_then(|text| text.parse::<u8>().ok());
    matches!(code, None | Some(2 | 4 | 13..=15 | 17..))
}

/// Why an attempt got no answer. The caller's body is asked first: the HTTP library reports its errors as errors of the
/// endpoint's connection.
pub(crate) fn failure(failure: &Failure, upload: &Upload) -> Verdict {
    let (origin, reached, refusal) = match (upload.fault(), failure) {
        (Some(Fault::Broken), _) => (Origin::Caller, Reached::Perhaps, Refusal::RequestBody),
        (Some(Fault::TooLarge), _) => (Origin::Caller, Reached::Perhaps, Refusal::HeadersTooLarge),
        (None, Failure::Connect { .. }) => {
            (Origin::Endpoint, Reached::Nothing, Refusal::Unreachable)
        }
        (None, Failure::ConnectTimeout { .. }) => {
            (Origin::Endpoint, Reached::Nobody, Refusal::Unreachable)
        }
        (None, Failure::Full | Failure::Local { .. }) => {
            (Origin::Proxy, Reached::Nothing, Refusal::Overloaded)
        }
        (None, Failure::Unsent | Failure::Refused(_)) => {
            (Origin::Endpoint, Reached::Refused, Refusal::Reset)
        }
        (None, Failure::TimedOut) => (Origin::Endpoint, Reached::Perhaps, Refusal::Timeout),
        (None, Failure::Broken { error, .. }) if error.is_parse() => {
            (Origin::Endpoint, Reached::Perhaps, Refusal::Protocol)
        }
        (None, Failure::Broken { .. }) => (Origin::Endpoint, Reached::Perhaps, Refusal::Reset),
    };
    Verdict { origin, reached, refusal }
}
