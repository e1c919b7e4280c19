//! The application's calls: from the connection that it opens to the answer that it gets. The steps are files, in this order.
//!
//! ```text
//! accept ─ detect ─ resolve ─┬─ pick ─ send ─ classify ─┬─ record
//!                            │    ▲                     │
//!                            │    └──────── retry ◀─────┤
//!                            └─ refused ────────────────┴─▶ reply
//! ```

pub(crate) mod accept;
pub(crate) mod attempt;
pub(crate) mod body;
pub(crate) mod classify;
pub(crate) mod detect;
pub(crate) mod head;
pub(crate) mod limits;
pub(crate) mod opaque;
pub(crate) mod original;
pub(crate) mod record;
pub(crate) mod reply;
pub(crate) mod resolve;
pub(crate) mod retry;
pub(crate) mod send;
pub(crate) mod shed;
pub(crate) mod straight;
pub(crate) mod unparsed;
pub(crate) mod upgrade;

use crate::inbound;
use crate::metrics::{Class, Protocol};
use crate::outbound::accept::Caller;
use crate::outbound::body::request::Upload;
use crate::outbound::body::response::ResponseBody;
use crate::outbound::detect::Version;
use crate::outbound::record::Exchange;
use crate::outbound::reply::Refusal;
use crate::outbound::resolve::{Memo, Route, Target};
use crate::outbound::retry::{Bounds, Replay, Tried};
use crate::outbound::send::Timing;
use crate::worker::local::LocalService;
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use std::rc::Rc;

/// Answers one request.
pub(crate) async fn answer(caller: &Caller, request: Request<Incoming>) -> Response<ResponseBody> {
    let (head, incoming) = request.into_parts();
    let protocol = head::protocol(caller.version, &head.headers);
    let resolved = if caller.worker.overload().is_pressed() {
        Err(Refusal::Overloaded)
    } else {
        match head::check(caller.version, &head) {
            Ok(()) => resolve::resolve(caller, &head).await,
            Err(refusal) => Err(refusal),
        }
    };
    let mut response = match resolved {
        Err(refusal) => refuse(caller, protocol, refusal),
        Ok(memo) => match &memo.route {
            Route::Refused(refusal) => refuse(caller, protocol, *refusal),
            Route::Passthrough(address) => {
                let service = caller.worker.straight(*address);
                forward(caller, &memo, service, head, incoming).await
            }
            Route::Balanced(service) => {
                forward(caller, &memo, Rc::clone(service), head, incoming).await
            }
        },
    };
    if caller.version == Version::Http1 && caller.worker.draining.get() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Sends a request to an endpoint of the service, to another one if the first did not serve it and it may be sent again.
async fn forward(
    caller: &Caller,
    memo: &Memo,
    service: Rc<LocalService>,
    mut head: Parts,
    incoming: Incoming,
) -> Response<ResponseBody> {
    let clock = caller.worker.clock();
    let protocol = head::protocol(caller.version, &head.headers);
    let retries = service.setting(|settings| settings.retry.attempts > 1);
    let upload = Upload::new(incoming, retries, caller);
    let mut exchange = Exchange::begin(Rc::clone(&service), protocol, upload.clone(), clock.now());
    if matches!(caller.target, Target::Application(_)) && inbound::is_probe(&head.headers) {
        exchange.is_probe();
    }
    caller.asked(exchange.started());
    let Some(mut endpoint) = exchange.pick() else {
        exchange.fail(classify::Origin::Proxy);
        return reply::refuse(protocol, Refusal::NoEndpoints);
    };
    let bounds =
        service.setting(|settings| Bounds::new(settings, &head.headers, exchange.started()));
    let version = endpoint.shared().protocol.version(caller.version);
    let wish = head::strip_request(&mut head.headers);
    if upgrade::wish(wish, &mut head, version) {
        exchange.wish_upgrade();
    }
    let mut request = send::fit(head, upload.body(), version, memo);
    send::hold_body(&mut request, &upload);
    let replay = Replay::new(&request, upload, bounds);
    let mut count = 1;
    let mut tried = Tried::default();
    loop {
        let limit = bounds.attempt(&exchange);
        let timing = Timing { clock, connect_timeout: bounds.connect(), limit };
        let sent = send::send(&endpoint, timing, request, &replay).await;
        if matches!(&sent, Err(failed) if failed.failure.is_local()) {
            caller.worker.release_idle();
        }
        let mut attempted = attempt::classify(&mut exchange, endpoint, count, sent, &replay);
        match retry::next(&mut exchange, &mut attempted, &replay, bounds, &mut tried) {
            Some(next) => {
                attempted.discard(&exchange);
                (endpoint, request) = next;
                count += 1;
            }
            None => return attempted.into_response(exchange, caller),
        }
    }
}

/// Refuses a request that reaches no service.
fn refuse(caller: &Caller, protocol: Protocol, refusal: Refusal) -> Response<ResponseBody> {
    caller.worker.unresolved().requested(protocol, Class::Rejected);
    reply::refuse(protocol, refusal)
}
