//! Real gRPC peers through the proxy: what they say arrives, and `grpc-status` decides what counts as success.

use std::net::SocketAddr;
use std::path::Path;
use tests::grpc::{Call, Outcome, Server, call};
use tests::need;
use tests::origin::{Answer, Origin};
use tests::ports;
use tests::programs::python;
use tests::proxy::Proxy;
use tests::topology::Topology;

struct Setup {
    proxy: Proxy,
    forward: SocketAddr,
}

/// A proxy whose service `echo` has these endpoints. The breaker is far away: these tests fail on purpose.
fn start(endpoints: &[SocketAddr]) -> Setup {
    let forward = ports::free();
    let settings =
        "protocol = \"http2\"\npolicy.breaker = { consecutive = 1000, successRatePercent = 0 }";
    let topology = Topology::zone("a").forward(forward).service("echo", settings);
    let topology =
        endpoints.iter().fold(topology, |topology, address| topology.endpoint(*address, "a"));
    Setup { proxy: Proxy::start(&topology), forward }
}

impl Setup {
    fn call(&self, python: &Path, calls: &[Call]) -> Vec<Outcome> {
        call(python, self.forward, "echo", calls)
    }

    fn count(&self, class: &str) -> f64 {
        let labels = [("service", "echo"), ("protocol", "grpc"), ("class", class)];
        self.proxy.metrics().sum("tidegate_requests_total", &labels)
    }
}

#[test]
fn unary_calls_and_all_kinds_of_streams_arrive() {
    let python = need!(python());
    let server = Server::start(&python);
    let setup = start(&[server.address]);
    let calls = [
        Call::new("Unary", &["hello"]).metadata("x-key", "value"),
        Call::new("Download", &["100 0"]),
        Call::new("Upload", &["a", "bb", "ccc"]),
        Call::new("Chat", &["one", "two", "three"]),
    ];
    let outcomes = setup.call(&python, &calls);
    assert!(outcomes.iter().all(|outcome| outcome.code == 0), "{outcomes:?}");
    assert_eq!(outcomes[0].messages, ["hello"]);
    assert_eq!(
        (&outcomes[0].initial["x-key"], &outcomes[0].trailing["x-key"]),
        (&"value".into(), &"value".into())
    );
    assert_eq!(outcomes[1].messages.len(), 100);
    assert_eq!(outcomes[1].messages[99], "message 99");
    assert_eq!(outcomes[2].messages, ["3 messages, 6 bytes"]);
    assert_eq!(outcomes[3].messages, ["one", "two", "three"]);
    assert!((setup.count("success") - 4.0).abs() < 0.5);
}

#[test]
fn long_trailers_arrive_whole() {
    let python = need!(python());
    let server = Server::start(&python);
    let setup = start(&[server.address]);
    let sizes = [8_000, 14_000, 20_000, 60_000];
    let calls: Vec<_> =
        sizes.iter().map(|size| Call::new("Fail", &[&format!("5 {size}")])).collect();
    for (outcome, size) in setup.call(&python, &calls).iter().zip(sizes) {
        let long = outcome.trailing.get("x-long").and_then(|value| value.as_str()).map(str::len);
        assert_eq!((outcome.code, outcome.details.as_str(), long), (5, "as asked: ä%", Some(size)));
    }
}

#[test]
fn the_grpc_status_decides_whether_a_call_failed() {
    let python = need!(python());
    let server = Server::start(&python);
    let setup = start(&[server.address]);
    // UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS are the endpoint's; the others tell about the request.
    let of_endpoint = [2, 4, 13, 14, 15];
    for code in 1..=16 {
        let before = (setup.count("success"), setup.count("failure"));
        let calls = [
            Call::new("Fail", &[&format!("{code} 0")]),
            Call::new("Download", &[&format!("2 {code}")]),
        ];
        let outcomes = setup.call(&python, &calls);
        assert!(outcomes.iter().all(|outcome| outcome.code == code), "{code}: {outcomes:?}");
        assert_eq!(outcomes[1].messages.len(), 2, "the messages before the failure arrive");
        let after = (setup.count("success"), setup.count("failure"));
        let expected = if of_endpoint.contains(&code) { (0.0, 2.0) } else { (2.0, 0.0) };
        let grown = (after.0 - before.0, after.1 - before.1);
        assert!(
            (grown.0 - expected.0).abs() < 0.5 && (grown.1 - expected.1).abs() < 0.5,
            "{code}: {grown:?}"
        );
    }
}

#[test]
fn an_answer_without_grpc_status_or_cut_short_is_a_failure() {
    let python = need!(python());
    let message = || [&[0, 0, 0, 0, 2][..], b"hi"].concat();
    let missing = move || Answer::new(200, message()).header("content-type", "application/grpc");
    for (shape, answer) in [("no status", missing()), ("cut short", missing().truncated())] {
        let origin = Origin::start(move |_| answer.clone());
        let setup = start(&[origin.address]);
        let outcome = setup.call(&python, &[Call::new("Unary", &["x"])]).remove(0);
        assert_ne!(outcome.code, 0, "{shape}: {outcome:?}");
        assert!((setup.count("failure") - 1.0).abs() < 0.5, "{shape} is a failure of the endpoint");
    }
}

#[test]
fn a_service_without_a_living_endpoint_is_unavailable_in_grpc_terms() {
    let python = need!(python());
    // Nobody listens there.
    let setup = start(&[ports::free()]);
    let none = start(&[]);
    for setup in [&setup, &none] {
        let outcome = setup.call(&python, &[Call::new("Unary", &["x"])]).remove(0);
        assert_eq!(outcome.code, 14, "{outcome:?}");
        assert!(
            !outcome.details.is_empty() && !outcome.details.contains("content-type"),
            "{outcome:?}"
        );
    }
}

#[test]
fn failing_calls_eject_an_endpoint_and_wrong_ones_do_not() {
    let python = need!(python());
    let server = Server::start(&python);
    for (code, ejected) in [(3, false), (14, true)] {
        let forward = ports::free();
        let topology = Topology::zone("a").forward(forward).service("echo", "protocol = \"http2\"");
        let proxy =
            Proxy::start(&topology.endpoint(server.address, "a").endpoint(server_like(), "b"));
        let calls = vec![Call::new("Fail", &[&format!("{code} 0")]); 12];
        call(&python, forward, "echo", &calls);
        let scrape = proxy.metrics();
        let ejections = scrape.sum("tidegate_ejections_total", &[("zone", "a")]);
        assert_eq!(ejections > 0.5, ejected, "code {code}: {ejections} ejections");
    }
}

/// An address of a second endpoint in another zone that nobody answers at.
fn server_like() -> SocketAddr {
    ports::free()
}

#[test]
fn a_caller_whose_deadline_passes_gets_that_status_and_the_endpoint_is_told() {
    let python = need!(python());
    let server = Server::start(&python);
    let setup = start(&[server.address]);
    let outcomes = setup.call(
        &python,
        &[Call::new("Wait", &["x"]).timeout(0.3), Call::new("Unary", &["still here"])],
    );
    assert_eq!((outcomes[0].code, outcomes[1].code), (4, 0), "{outcomes:?}");
}
