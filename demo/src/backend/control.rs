//! The switch of a running backend.
//!
//! ```text
//! GET  /_control                                     what it does now and what it has counted, as JSON
//! POST /_control?fail-percent=100&fail-after=500ms   changes what is named, keeps the rest
//! POST /_control?reset                               back to how it was started
//! POST /_control?crash                               ends the process
//! ```

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use super::State;
use super::behaviour::Behaviour;

/// What a control request asks for.
#[derive(Debug, PartialEq)]
enum Change {
    Behave(Behaviour),
    Crash,
}

#[derive(Serialize)]
struct Report<'a> {
    address: SocketAddr,
    zone: &'a str,
    behaviour: Behaviour,
    requests: u64,
    answered: u64,
    failed: u64,
    given_up: u64,
}

/// Carries out a control request; the answer is the state after it.
pub(super) fn answer<B>(state: &State, request: &Request<B>) -> Response<Full<Bytes>> {
    if request.method() == Method::GET {
        return report(state);
    }
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "ask with GET, change with POST\n");
    }
    let query = request.uri().query().unwrap_or_default();
    let change = parse(query, &state.behaviour.lock(), &state.at_start);
    match change {
        Ok(Change::Behave(behaviour)) => {
            *state.behaviour.lock() = behaviour;
            report(state)
        }
        Ok(Change::Crash) => {
            state.crash.notify_one();
            text(StatusCode::OK, "crashing\n")
        }
        Err(mistake) => text(StatusCode::BAD_REQUEST, &format!("{mistake}\n")),
    }
}

/// Why a control request changed nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
enum ControlError {
    #[error("nothing to change; name any of {KEYS}")]
    Nothing,
    #[error("unknown key {0:?}; there are {KEYS}")]
    UnknownKey(String),
    #[error("{key}={value:?} does not fit: {why}")]
    BadValue { key: String, value: String, why: String },
}

const KEYS: &str =
    "latency, add-latency, fail-percent, fail-after, fail-status, hang, body-bytes, reset, crash";

fn parse(query: &str, now: &Behaviour, at_start: &Behaviour) -> Result<Change, ControlError> {
    let mut behaviour = now.clone();
    if query.is_empty() {
        return Err(ControlError::Nothing);
    }
    for pair in query.split('&') {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("crash", _) => return Ok(Change::Crash),
            ("reset", _) => behaviour = at_start.clone(),
            ("hang", "") => behaviour.hang = true,
            (key, value) => set(&mut behaviour, key, value)?,
        }
    }
    Ok(Change::Behave(behaviour))
}

fn set(behaviour: &mut Behaviour, key: &str, value: &str) -> Result<(), ControlError> {
    let bad =
        |why: String| ControlError::BadValue { key: key.to_owned(), value: value.to_owned(), why };
    let duration = || humantime::parse_duration(value).map_err(|error| bad(error.to_string()));
    let within = |low: u32, high: u32| match value.parse::<u32>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(bad(format!("a whole number from {low} to {high} is needed"))),
    };
    match key {
        "latency" => {
            behaviour.latency = value
                .parse()
                .map_err(|error: super::latency::LatencyError| bad(error.to_string()))?;
        }
        "add-latency" => behaviour.add_latency = duration()?,
        "fail-percent" => behaviour.fail_percent = u8::try_from(within(0, 100)?).unwrap_or(100),
        "fail-after" => behaviour.fail_after = duration()?,
        "fail-status" => behaviour.fail_status = u16::try_from(within(200, 599)?).unwrap_or(503),
        "hang" => {
            behaviour.hang =
                value.parse().map_err(|error| bad(format!("true or false is needed ({error})")))?;
        }
        "body-bytes" => behaviour.body_bytes = within(0, 1_048_576)?,
        _ => return Err(ControlError::UnknownKey(key.to_owned())),
    }
    Ok(())
}

fn report(state: &State) -> Response<Full<Bytes>> {
    let report = Report {
        address: state.address,
        zone: &state.zone,
        behaviour: state.behaviour.lock().clone(),
        requests: state.counts.requests.load(Ordering::Relaxed),
        answered: state.counts.answered.load(Ordering::Relaxed),
        failed: state.counts.failed.load(Ordering::Relaxed),
        given_up: state.counts.given_up.load(Ordering::Relaxed),
    };
    match serde_json::to_vec(&report) {
        Ok(json) => {
            let mut response = Response::new(Full::new(Bytes::from(json)));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::super::behaviour::tests::instant;
    use super::*;

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        let failing = Behaviour { fail_percent: 40, ..instant() };
        let check = |query: &str, wanted: Change| {
            assert_eq!(parse(query, &failing, &instant()), Ok(wanted), "{query}");
        };
        check("hang", Change::Behave(Behaviour { hang: true, ..failing.clone() }));
        check("hang=false", Change::Behave(failing.clone()));
        check("fail-status=404", Change::Behave(Behaviour { fail_status: 404, ..failing.clone() }));
        check("reset", Change::Behave(instant()));
        check("reset&body-bytes=5", Change::Behave(Behaviour { body_bytes: 5, ..instant() }));
        check("crash", Change::Crash);
    }

    #[test]
    fn a_mistake_names_the_key_and_what_is_needed() {
        let check = |query: &str, wanted: &str| {
            let error = parse(query, &instant(), &instant()).unwrap_err().to_string();
            assert!(error.contains(wanted), "{query}: {error}");
        };
        check("", "fail-percent");
        check("fail=3", "unknown key \"fail\"");
        check("fail-percent=101", "from 0 to 100");
        check("fail-after=soon", "fail-after=\"soon\"");
        check("latency=5", "lognormal");
        check("hang=maybe", "true or false");
    }
}
