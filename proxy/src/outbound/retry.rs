//! May a request be sent again, and with what? The rules; the loop itself is in [`super::forward`].
//!
//! A request is sent again only while nothing of an answer was passed on, and only if that cannot do its work twice: its
//! method is idempotent, or the endpoint provably did not look at it. The balancer's budget has the last word.
//!
//! A connection that is refused is no attempt: nothing was sent, and it costs nobody anything. While a service is replaced, many
//! of the endpoints that are known may be gone, so that the next one is dialled at once, without asking the budget.

use crate::discovery::EndpointProtocol;
use crate::metrics::RetryResult;
use crate::outbound::attempt::{Attempted, Ended};
use crate::outbound::body::request::{RequestBody, Upload};
use crate::outbound::classify::{Origin, Reached};
use crate::outbound::record::Exchange;
use crate::service::again::Again;
use crate::settings::{Retry, Settings};
use crate::worker::local::LocalEndpoint;
use api::policy::{RetryMethods, Timeout};
use balance::balancer::{RetryRefused, Served};
use balance::endpoint::{EndpointKey, Locality};
use balance::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use std::rc::Rc;
use std::time::Duration;

/// Carried by an answer that was retried already: the next proxy up the chain of calls does not retry it again.
pub(crate) const RETRIED: HeaderName = HeaderName::from_static("tidegate-retried");

/// Endpoints that may refuse a connection before a request is given up. More than are replaced in the time that the breaker takes
/// to notice it; where all are gone, the caller is told so after as many refusals.
const REFUSALS_MAX: usize = 6;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// What is needed to send a request once more.
#[derive(Debug)]
pub(crate) struct Replay {
    saved: Option<Saved>,
    upload: Upload,
    idempotent: bool,
}

/// A copy of a request's head. Names and values are shared, not copied.
#[derive(Debug)]
struct Saved {
    method: Method,
    uri: Uri,
    version: Version,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// What was tried so far for one request, or for one opaque connection. Nothing for most, so that it is small.
#[derive(Debug, Default)]
pub(crate) struct Tried(Option<Box<Failures>>);

#[derive(Debug, Default)]
struct Failures {
    /// Attempts that an endpoint may have seen something of, or that nobody answered.
    attempts: u32,
    /// Endpoints that refused a connection.
    refused: Vec<EndpointKey>,
    /// Where to go when the balancer allows nothing, the best last; once they were asked for.
    spares: Option<Vec<(EndpointKey, Locality)>>,
}

/// What bounds the retries of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) rule: Retry,
    /// After this the caller does not wait any more.
    pub(crate) deadline: Option<Timestamp>,
    timeout: Timeout,
    started: Timestamp,
}

impl Replay {
    /// Keeps what a second attempt needs, if there may be one: an HTTP/2 endpoint may refuse any request unseen, an HTTP/1
    /// endpoint cannot say so.
    pub(crate) fn new(request: &Request<RequestBody>, upload: Upload, bounds: Bounds) -> Self {
        let idempotent =
            bounds.rule.methods == RetryMethods::Any || is_idempotent(request.method());
        let wanted =
            bounds.rule.attempts > 1 && (idempotent || request.version() == Version::HTTP_2);
        let saved = wanted.then(|| Saved {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request
                .headers()
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        });
        Self { saved, upload, idempotent }
    }

    pub(crate) fn idempotent(&self) -> bool {
        self.idempotent
    }

    pub(crate) fn upload(&self) -> &Upload {
        &self.upload
    }

    /// The request once more, if head and body are still there.
    pub(crate) fn request(&self, protocol: EndpointProtocol) -> Option<Box<Request<RequestBody>>> {
        let saved = self.saved.as_ref()?;
        if !is_spoken(saved.version, protocol) || !self.upload.replayable() {
            return None;
        }
        let mut request = Box::new(Request::new(self.upload.body()));
        *request.method_mut() = saved.method.clone();
        *request.uri_mut() = saved.uri.clone();
        *request.version_mut() = saved.version;
        let mut headers = HeaderMap::with_capacity(saved.headers.len());
        for (name, value) in &saved.headers {
            headers.append(name.clone(), value.clone());
        }
        *request.headers_mut() = headers;
        Some(request)
    }
}

impl Bounds {
    /// The bounds of a request that started at `started`.
    pub(crate) fn new(settings: &Settings, headers: &HeaderMap, started: Timestamp) -> Self {
        let patience = headers.get(GRPC_TIMEOUT).and_then(grpc_timeout);
        let timeout = settings.timeout;
        let whole = [patience, timeout.request].into_iter().flatten().min();
        Self {
            rule: settings.retry,
            deadline: whole.map(|whole| started.plus(whole)),
            timeout,
            started,
        }
    }

    /// Longest time to establish a connection.
    pub(crate) fn connect(&self) -> Duration {
        self.timeout.connect
    }

    /// How long an attempt that begins now may take, if the policy limits it.
    pub(crate) fn attempt(&self, exchange: &Exchange) -> Option<Duration> {
        let whole =
            self.timeout.request.map(|limit| self.started.plus(limit).since(exchange.now()));
        [self.timeout.per_try, whole].into_iter().flatten().min()
    }
}

impl Tried {
    /// An attempt failed. Whether there may be another one.
    pub(crate) fn failed(&mut self, endpoint: EndpointKey, reached: Reached, rule: Retry) -> bool {
        if rule.attempts <= 1 {
            return false;
        }
        let Failures { attempts, refused, .. } = &mut **self.0.get_or_insert_default();
        match reached {
            Reached::Nothing => refused.push(endpoint),
            Reached::Nobody | Reached::Refused | Reached::Perhaps => *attempts += 1,
        }
        *attempts < rule.attempts && refused.len() < REFUSALS_MAX
    }

    /// What the next pick has to know.
    pub(crate) fn again(&self, failed: Served) -> Again<'_> {
        Again { failed, refused: self.0.as_ref().map_or(&[], |tried| &tried.refused) }
    }

    /// An endpoint that did not refuse yet, whatever the budget says.
    fn spare(&mut self, exchange: &mut Exchange) -> Option<Rc<LocalEndpoint>> {
        let service = Rc::clone(exchange.service());
        let Failures { refused, spares, .. } = &mut **self.0.as_mut()?;
        let spares = spares.get_or_insert_with(|| {
            let mut spares = service.shared().spares(exchange.now());
            spares.reverse();
            spares
        });
        loop {
            let (key, locality) = spares.pop()?;
            let endpoint = service.endpoint(key).filter(|_| !refused.contains(&key));
            if let Some(endpoint) = endpoint {
                exchange.take_spare(&endpoint, locality);
                return Some(endpoint);
            }
        }
    }
}

/// The next attempt, if there is to be one: where to and what.
pub(crate) fn next(
    exchange: &mut Exchange,
    attempted: &mut Attempted,
    replay: &Replay,
    bounds: Bounds,
    tried: &mut Tried,
) -> Option<(Rc<LocalEndpoint>, Box<Request<RequestBody>>)> {
    let reached = attempted.ended.reached();
    if !is_wanted(&attempted.ended, bounds.rule)
        || !tried.failed(attempted.endpoint.shared().key(), reached, bounds.rule)
    {
        return None;
    }
    let now = exchange.now();
    if bounds.deadline.is_some_and(|deadline| deadline <= now) {
        return None;
    }
    let protocol = attempted.endpoint.shared().protocol;
    let again = attempted.unsent.take().or_else(|| {
        let may = replay.idempotent() || reached != Reached::Perhaps;
        if may { replay.request(protocol) } else { None }
    });
    let shared = Rc::clone(exchange.service());
    let Some(request) = again else {
        shared.shared().metrics().retried(RetryResult::NotReplayable);
        return None;
    };
    let picked = match attempted.served {
        Some(failed) => exchange.pick_again(tried.again(failed), now),
        None => Err(RetryRefused::NoOther),
    };
    let spare = |refused| match reached {
        Reached::Nothing => tried.spare(exchange).ok_or(refused),
        Reached::Nobody | Reached::Refused | Reached::Perhaps => Err(refused),
    };
    match picked.or_else(spare) {
        Ok(endpoint) => {
            shared.shared().metrics().retried(RetryResult::Sent);
            Some((endpoint, request))
        }
        Err(RetryRefused::Budget) => {
            shared.shared().metrics().retried(RetryResult::BudgetExhausted);
            None
        }
        Err(RetryRefused::NoOther) => None,
    }
}

/// Whether the policy wants a second attempt after this end of the first.
fn is_wanted(ended: &Ended, rule: Retry) -> bool {
    match ended {
        Ended::Answered { response, .. } => {
            rule.on_5xx
                && response.status().is_server_error()
                && !response.headers().contains_key(RETRIED)
        }
        Ended::Failed(verdict) => match (verdict.origin, verdict.reached) {
            (Origin::Caller | Origin::Proxy, _) => false,
            (Origin::Endpoint, Reached::Nothing | Reached::Nobody) => rule.on_connect,
            (Origin::Endpoint, Reached::Refused) => rule.on_refused,
            // No answer at all is no better than an answer that says "error".
            (Origin::Endpoint, Reached::Perhaps) => rule.on_5xx,
        },
    }
}

fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS | Method::TRACE
    )
}

fn is_spoken(version: Version, protocol: EndpointProtocol) -> bool {
    match protocol {
        EndpointProtocol::Http1 => version == Version::HTTP_11,
        EndpointProtocol::Http2 => version == Version::HTTP_2,
        EndpointProtocol::Detect | EndpointProtocol::Opaque => true,
    }
}

/// Parses `grpc-timeout`: at most 8 digits and a unit. What is no timeout sets none.
fn grpc_timeout(value: &HeaderValue) -> Option<Duration> {
    let (digits, unit) = value.as_bytes().split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    match unit {
        b"H" => Some(Duration::from_secs(count * 3600)),
        b"M" => Some(Duration::from_secs(count * 60)),
        b"S" => Some(Duration::from_secs(count)),
        b"m" => Some(Duration::from_millis(count)),
        b"u" => Some(Duration::from_micros(count)),
        b"n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::grpc_timeout;
    use http::HeaderValue;
    use std::time::Duration;

    #[test]
    fn grpc_timeouts_are_parsed_as_written() {
        let cases = [
            ("1S", Some(Duration::from_secs(1))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("2H", Some(Duration::from_hours(2))),
            ("3M", Some(Duration::from_mins(3))),
            ("7u", Some(Duration::from_micros(7))),
            ("100000000m", None),
            ("S", None),
            ("", None),
            ("-1S", None),
            ("1x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(grpc_timeout(&HeaderValue::from_static(text)), expected, "{text}");
        }
    }
}
