//! Bodies on their way through the proxy. Data passes without a copy; what the ends of a body tell is taken from them here.

pub(crate) mod flow;
pub(crate) mod request;
pub(crate) mod response;

/// Why a body ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The caller's request body failed.
    #[error("the caller's request body failed: {0}")]
    Caller(#[source] hyper::Error),
    /// The caller's trailers are over the limits.
    #[error("the trailers are too large")]
    TooLarge,
    /// A newer attempt took the body over.
    #[error("another attempt took over")]
    Superseded,
    /// The endpoint's response body failed.
    #[error("the endpoint's response body failed: {0}")]
    Endpoint(#[source] hyper::Error),
}
