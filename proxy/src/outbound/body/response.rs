//! The response's body on its way to the caller. Its end is the second moment at which something is learnt: truncation,
//! gRPC status, duration.

use crate::metrics::Class;
use crate::outbound::accept::Busy;
use crate::outbound::body::BodyError;
use crate::outbound::body::flow::Flow;
use crate::outbound::record::Exchange;
use crate::outbound::{classify, limits};
use crate::overload::Overload;
use crate::upstream::Lease;
use crate::worker::local::LocalEndpoint;
use balance::balancer::{Outcome, Served};
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The body of a response.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    kind: Kind,
    /// The connection of the caller is busy until this is dropped.
    busy: Option<Busy>,
}

#[derive(Debug)]
enum Kind {
    Empty,
    Text(Bytes),
    /// No body, but a `Content-Length` that must stay: the answer of an HTTP/1 endpoint to a conditional request.
    Claimed(u64),
    Stream(Stream),
}

/// A body that an endpoint sends.
#[derive(Debug)]
struct Stream {
    incoming: Incoming,
    flow: Option<Arc<Flow>>,
    ending: Option<Ending>,
}

/// What is to be done at the end of the body.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) exchange: Exchange,
    pub(crate) endpoint: Rc<LocalEndpoint>,
    pub(crate) served: Option<Served>,
    pub(crate) outcome: Outcome,
    pub(crate) lease: Option<Lease>,
    /// Whether the trailers have to carry a gRPC status.
    pub(crate) status_in_trailers: bool,
}

impl ResponseBody {
    pub(crate) const fn empty() -> Self {
        Self { kind: Kind::Empty, busy: None }
    }

    pub(crate) const fn text(text: Bytes) -> Self {
        Self { kind: Kind::Text(text), busy: None }
    }

    /// No bytes, though the header names a length.
    pub(crate) const fn claimed(length: u64) -> Self {
        Self { kind: Kind::Claimed(length), busy: None }
    }

    /// The body that an endpoint sends.
    pub(crate) fn stream(incoming: Incoming, ending: Ending, overload: &Arc<Overload>) -> Self {
        ending.endpoint.shared().counts.body_opened();
        let flow = Flow::of(&incoming, overload);
        Self { kind: Kind::Stream(Stream { incoming, flow, ending: Some(ending) }), busy: None }
    }

    #[must_use]
    pub(crate) fn keeping(mut self, busy: Busy) -> Self {
        self.busy = Some(busy);
        self
    }
}

impl Ending {
    /// The body ended as the endpoint meant it to.
    pub(crate) fn complete(mut self, trailers: Option<&HeaderMap>) {
        let now = self.exchange.now();
        if let Some(lease) = self.lease.take() {
            lease.release(now, self.exchange.upload());
        }
        let mut outcome = self.outcome;
        if self.status_in_trailers && classify::trailers(trailers) == Outcome::Failure {
            self.blame(now);
            outcome = Outcome::Failure;
        }
        let class = match outcome {
            Outcome::Success => Class::Success,
            Outcome::Failure => Class::Failure,
        };
        self.exchange.finish(class, now);
    }

    /// The body was cut short by the endpoint.
    fn truncated(mut self) {
        let now = self.exchange.now();
        self.blame(now);
        self.exchange.finish(Class::Failure, now);
    }

    fn blame(&mut self, now: balance::time::Timestamp) {
        // An answer that already was a failure is not counted twice.
        if let (Some(served), Outcome::Success) = (self.served.take(), self.outcome) {
            self.exchange.body_failed(served, now);
        }
    }
}

impl Stream {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(flow) = &self.flow {
            std::task::ready!(flow.poll_room(cx));
        }
        let frame = match std::task::ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                self.end(Ending::truncated);
                return Poll::Ready(Some(Err(BodyError::Endpoint(error))));
            }
            None => {
                self.end(|ending| ending.complete(None));
                return Poll::Ready(None);
            }
        };
        if let Some(trailers) = frame.trailers_ref() {
            if limits::too_large(trailers) {
                self.end(Ending::truncated);
                return Poll::Ready(Some(Err(BodyError::TooLarge)));
            }
            self.end(|ending| ending.complete(Some(trailers)));
        } else if self.incoming.is_end_stream() {
            self.end(|ending| ending.complete(None));
        }
        Poll::Ready(Some(Ok(match &self.flow {
            Some(flow) => frame.map_data(|data| flow.count(data)),
            None => frame,
        })))
    }

    fn end(&mut self, how: impl FnOnce(Ending)) {
        if let Some(ending) = self.ending.take() {
            ending.endpoint.shared().counts.body_closed();
            how(ending);
        }
    }
}

impl Drop for Stream {
    /// The caller does not want the rest; dropping the exchange counts it as cancelled.
    fn drop(&mut self) {
        self.end(drop);
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.kind {
            Kind::Stream(stream) => stream.poll(cx),
            Kind::Text(text) if !text.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(text)))))
            }
            Kind::Empty | Kind::Text(_) | Kind::Claimed(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Text(text) => text.is_empty(),
            Kind::Claimed(_) => false,
            Kind::Stream(stream) => stream.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Text(text) => SizeHint::with_exact(text.len() as u64),
            Kind::Claimed(length) => SizeHint::with_exact(*length),
            Kind::Stream(stream) => stream.incoming.size_hint(),
        }
    }
}
