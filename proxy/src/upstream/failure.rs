//! Why no response headers came.

use crate::outbound::body::request::RequestBody;
use http::Request;
use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

/// Why no response headers came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection came about.
    #[error("no connection to {address}: {source}")]
    Connect { address: std::net::SocketAddr, source: std::io::Error },
    /// No connection came about in time.
    #[error("no connection to {address} within {limit:?}")]
    ConnectTimeout { address: std::net::SocketAddr, limit: Duration },
    /// All connections have as many streams as they may, and no more connections are allowed.
    #[error("too many requests wait for a stream to the endpoint")]
    Full,
    /// The connection went away before the request was written.
    #[error("the connection closed before the request was written")]
    Unsent,
    /// No answer came in the time that the policy allows.
    #[error("no answer in time")]
    TimedOut,
    /// This machine has no descriptor, port or memory left for a connection.
    #[error("no resources for a connection to {address}: {source}")]
    Local { address: std::net::SocketAddr, source: std::io::Error },
    /// The endpoint says, or its GOAWAY implies, that it did not look at the request.
    #[error("the endpoint refused the stream: {0}")]
    Refused(hyper::Error),
    /// The connection failed while the request was under way. `stale`: it had been idle, and its peer closed it.
    #[error("the connection failed: {error}")]
    Broken { error: hyper::Error, stale: bool },
}

impl Failure {
    /// Whether it was for want of something that this process has used up.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::Local { .. })
    }
}

/// A request that got no response headers.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// The request, whole, when nothing of it was sent.
    pub(crate) request: Option<Box<Request<RequestBody>>>,
}

impl Failed {
    pub(crate) fn unsent(failure: Failure, request: Box<Request<RequestBody>>) -> Self {
        Self { failure, request: Some(request) }
    }

    pub(crate) fn sent(failure: Failure) -> Self {
        Self { failure, request: None }
    }
}

/// Whether a connection ended because nobody is there any more, and not because its peer closed it.
pub(crate) fn is_unanswered(error: &hyper::Error) -> bool {
    causes(error).filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(|cause| {
        matches!(
            cause.kind(),
            ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
        )
    })
}

fn causes(error: &hyper::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source())
}

/// Whether an error of an HTTP/2 connection proves that the endpoint did not process the request: `REFUSED_STREAM`, or a
/// GOAWAY whose last stream came before it (RFC 9113, 8.7).
pub(crate) fn unprocessed(error: &hyper::Error) -> bool {
    causes(error).find_map(|cause| cause.downcast_ref::<h2::Error>()).is_some_and(|h2| {
        let refused = h2.is_reset() && h2.reason() == Some(h2::Reason::REFUSED_STREAM);
        h2.is_remote() && (refused || h2.is_go_away())
    })
}
