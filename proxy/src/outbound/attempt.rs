//! How one attempt ended, and what the caller gets if it was the last one.

use crate::metrics::{Class, Protocol};
use crate::outbound::accept::Caller;
use crate::outbound::body::response::{Ending, ResponseBody};
use crate::outbound::classify::{self, Reached, Verdict};
use crate::outbound::detect::Version;
use crate::outbound::record::Exchange;
use crate::outbound::reply::Refusal;
use crate::outbound::retry::{RETRIED, Replay};
use crate::outbound::{head, limits, reply, upgrade};
use crate::upstream::Lease;
use crate::upstream::failure::Failed;
use crate::worker::local::LocalEndpoint;
use balance::balancer::{Outcome, Served};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use std::rc::Rc;

/// One attempt after its end.
#[derive(Debug)]
pub(crate) struct Attempted {
    pub(crate) endpoint: Rc<LocalEndpoint>,
    /// Its number, from 1.
    pub(crate) count: u32,
    pub(crate) ended: Ended,
    /// The balancer's note of it; `None` when it says nothing about the endpoint.
    pub(crate) served: Option<Served>,
    /// The request, when nothing of it was sent.
    pub(crate) unsent: Option<Box<Request<super::body::request::RequestBody>>>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By response headers.
    Answered { response: Response<Incoming>, lease: Lease, outcome: Outcome },
    /// Without an answer.
    Failed(Verdict),
}

impl Ended {
    /// How far it came.
    pub(crate) fn reached(&self) -> Reached {
        match self {
            Self::Answered { .. } => Reached::Perhaps,
            Self::Failed(verdict) => verdict.reached,
        }
    }
}

/// Step 6: what an attempt's end says about its endpoint, told to the balancer.
pub(crate) fn classify(
    exchange: &mut Exchange,
    endpoint: Rc<LocalEndpoint>,
    count: u32,
    sent: Result<(Response<Incoming>, Lease), Failed>,
    replay: &Replay,
) -> Attempted {
    match sent {
        // Nobody asked for another protocol, or nobody can say where the answer ends: what follows on that connection means
        // nothing here. The HTTP/1 library keeps the limits of a header itself.
        Ok((response, lease))
            if response.status() == StatusCode::SWITCHING_PROTOCOLS
                && !exchange.wishes_upgrade()
                || !head::is_framed(response.headers())
                || matches!(lease, Lease::Http2(_)) && limits::too_large(response.headers()) =>
        {
            let verdict = Verdict {
                origin: classify::Origin::Endpoint,
                reached: Reached::Perhaps,
                refusal: Refusal::Protocol,
            };
            let served = exchange.answered(Outcome::Failure, exchange.now());
            Attempted { endpoint, count, ended: Ended::Failed(verdict), served, unsent: None }
        }
        Ok((response, lease)) => {
            let grpc = exchange.protocol() == Protocol::Grpc;
            let outcome = classify::headers(grpc, response.status(), response.headers());
            let served = exchange.answered(outcome, exchange.now());
            let ended = Ended::Answered { response, lease, outcome };
            Attempted { endpoint, count, ended, served, unsent: None }
        }
        Err(failed) => {
            let verdict = classify::failure(&failed.failure, replay.upload());
            tracing::debug!(endpoint = %endpoint.shared().address, failure = %failed.failure, origin = %verdict.origin, "no answer");
            let served = match verdict.origin {
                classify::Origin::Endpoint => exchange.answered(Outcome::Failure, exchange.now()),
                classify::Origin::Caller | classify::Origin::Proxy => {
                    exchange.excused();
                    None
                }
            };
            Attempted {
                endpoint,
                count,
                ended: Ended::Failed(verdict),
                served,
                unsent: failed.request,
            }
        }
    }
}

impl Attempted {
    /// Gives up the answer for another attempt. Its connection is used again when the rest of the body is there already.
    pub(crate) fn discard(self, exchange: &Exchange) {
        if let Ended::Answered { response, lease, .. } = self.ended {
            drop(response);
            lease.release(exchange.now(), exchange.upload());
        }
    }

    /// Step 7: the answer for the caller. Its body carries the exchange to its end.
    pub(crate) fn into_response(
        self,
        mut exchange: Exchange,
        caller: &Caller,
    ) -> Response<ResponseBody> {
        let retried = self.count > 1;
        exchange.settle();
        let mut response = match self.ended {
            Ended::Answered { response, .. }
                if response.status() == StatusCode::SWITCHING_PROTOCOLS =>
            {
                let (head, switch) = upgrade::agree(response, &self.endpoint);
                caller.switch(switch);
                exchange.finish(Class::Success, exchange.now());
                Response::from_parts(head, ResponseBody::empty())
            }
            Ended::Answered { response, lease, outcome } => {
                let grpc = exchange.protocol() == Protocol::Grpc;
                let status_in_trailers = grpc
                    && response.status() == StatusCode::OK
                    && !response.headers().contains_key(classify::GRPC_STATUS);
                let ending = Ending {
                    exchange,
                    endpoint: self.endpoint,
                    served: self.served,
                    outcome,
                    lease: Some(lease),
                    status_in_trailers,
                };
                deliver(response, ending, caller)
            }
            Ended::Failed(verdict) => {
                exchange.fail(verdict.origin);
                reply::refuse(exchange.protocol(), verdict.refusal)
            }
        };
        if retried {
            response.headers_mut().insert(RETRIED, HeaderValue::from_static("1"));
        }
        response
    }
}

fn deliver(
    response: Response<Incoming>,
    ending: Ending,
    caller: &Caller,
) -> Response<ResponseBody> {
    let (mut head, incoming) = response.into_parts();
    head::strip_response(&mut head.headers);
    head.version = match caller.version {
        Version::Http1 => http::Version::HTTP_11,
        Version::Http2 => http::Version::HTTP_2,
    };
    let body = if incoming.is_end_stream() {
        ending.complete(None);
        claimed(&head, caller.version).map_or(ResponseBody::empty(), ResponseBody::claimed)
    } else {
        ResponseBody::stream(incoming, ending, caller.worker.overload())
    };
    Response::from_parts(head, body)
}

/// The length that a 304 names though it has no body. The HTTP/1 library keeps it only for a body that claims it.
fn claimed(head: &http::response::Parts, version: Version) -> Option<u64> {
    if head.status != StatusCode::NOT_MODIFIED || version != Version::Http1 {
        return None;
    }
    head.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok().filter(|length| *length > 0)
}
