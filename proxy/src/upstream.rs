//! Connections to endpoints: every worker has its own, so that no request takes a lock for them.
//!
//! ```text
//! Connections (one a worker and endpoint) ─┬─ http1::Pool  idle keep-alive connections, the last used first
//!                                          └─ http2::Pool  shared connections, a new one when the stream limit is reached
//! ```

pub(crate) mod dial;
pub(crate) mod failure;
pub(crate) mod http1;
pub(crate) mod http2;
pub(crate) mod stream;

use crate::outbound::body::request::{RequestBody, Upload};
use crate::overload::Overload;
use crate::upstream::failure::Failed;
use balance::time::Timestamp;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The connections of one worker to one endpoint.
#[derive(Debug)]
pub(crate) struct Connections {
    http1: Rc<http1::Pool>,
    http2: Rc<http2::Pool>,
}

/// What a response keeps of its connection until its body ended.
#[derive(Debug)]
pub(crate) enum Lease {
    Http1(http1::Lease),
    Http2(http2::Lease),
}

/// Whether an idle connection may be used. One that its peer closed at the same moment fails without a trace, so the second
/// try takes a fresh one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    Idle,
    Fresh,
}

impl Connections {
    pub(crate) fn new(overload: &Arc<Overload>) -> Self {
        Self {
            http1: Rc::new(http1::Pool::new(Arc::clone(overload))),
            http2: Rc::new(http2::Pool::new(Arc::clone(overload))),
        }
    }

    /// Sends a request, in the version that it names, and waits for the response headers.
    pub(crate) async fn send(
        &self,
        to: &dial::Target<'_>,
        request: Box<Request<RequestBody>>,
        reuse: Reuse,
    ) -> Result<(Response<Incoming>, Lease), Failed> {
        if request.version() == Version::HTTP_2 {
            http2::send(&self.http2, to, request, reuse).await
        } else {
            http1::send(&self.http1, to, request, reuse).await
        }
    }

    /// Gives up connections that were idle for too long, all of them when the endpoint is gone.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.http1.sweep(now);
        self.http2.sweep(now);
    }

    /// The endpoint is gone: no connection is kept any more; what is under way goes on.
    pub(crate) fn close(&self) {
        self.http1.close();
        self.http2.close();
    }
}

impl Lease {
    /// The body ended as it should: the connection may serve the next request.
    pub(crate) fn release(self, now: Timestamp, upload: &Upload) {
        match self {
            Self::Http1(lease) => lease.release(now, upload),
            Self::Http2(lease) => lease.release(now),
        }
    }
}

/// Idle connections are closed after this time: shorter than the 5 s after which common servers close theirs, so that a
/// request seldom meets a connection that is just going away.
pub(crate) const IDLE_TIME: Duration = Duration::from_millis(4500);
