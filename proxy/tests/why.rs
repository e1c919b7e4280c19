//! What `tidegate-proxy why` says in typical situations.

use api::policy::Policy;
use proxy::admin::debug::{
    BandView, DecisionView, EndpointView, LatencyView, NumbersView, ProxyView, ServiceView,
};
use proxy::admin::discovery::{ControllerView, DiscoveryView};
use proxy::why::text;

fn numbers() -> NumbersView {
    NumbersView {
        share: 1.0,
        valve: 1.0,
        failure_cap: 1.0,
        capacity: 1.0,
        load: 1.02,
        load_lower: 0.87,
        baseline_ms: Some(20.4),
        reach: 0,
        local_failure: 0.0,
        remote_failure: 0.0,
    }
}

fn endpoint(port: u16, zone: Option<&str>, tier: u8) -> EndpointView {
    EndpointView {
        address: ([127, 0, 0, 1], port).into(),
        zone: zone.map(str::to_owned),
        region: Some("r1".to_owned()),
        node: None,
        tier,
        locality: if tier == 0 { "local" } else { "remote" }.to_owned(),
        state: "serving".to_owned(),
        active: tier == 0,
        outstanding: 1,
        load: 0.67,
        success_rate: 1.0,
        latency_ms: Some(20.25),
        probe_in_ms: 0.0,
        picks: 1234,
        open_bodies: 0,
    }
}

fn service() -> ServiceView {
    ServiceView {
        name: "web".to_owned(),
        protocol: "http1".to_owned(),
        policy: Policy::default().spec(),
        policy_source: "topology".to_owned(),
        policy_object: None,
        reason: "local".to_owned(),
        numbers: numbers(),
        load_band: BandView { signal: "normalized".to_owned(), low: 1.2, high: 1.5 },
        retry_tokens: 20.0,
        hold_ms: 0.0,
        latency_local: None,
        latency_remote: None,
        endpoints: vec![
            endpoint(9002, Some("b"), 1),
            endpoint(9001, Some("a"), 0),
            endpoint(9003, None, 1),
        ],
        decisions: vec![],
    }
}

fn proxy(zone: Option<&str>) -> ProxyView {
    ProxyView {
        zone: zone.map(str::to_owned),
        region: None,
        node: None,
        version: "0.1.0".to_owned(),
    }
}

fn explain(proxy: &ProxyView, service: &ServiceView) -> String {
    let discovery = DiscoveryView { source: "topology".to_owned(), controller: None };
    text::explain(proxy, &discovery, service)
}

#[test]
fn the_controller_and_the_policys_object_are_named() {
    let web = ServiceView {
        policy_source: "service_policy".to_owned(),
        policy_object: Some("shop/web".to_owned()),
        ..service()
    };
    let lines = |controller: ControllerView| {
        let source = "controller".to_owned();
        let discovery = DiscoveryView { source, controller: Some(controller) };
        let text = text::explain(&proxy(Some("a")), &discovery, &web);
        let told =
            text.lines().filter(|line| line.starts_with("Policy") || line.starts_with("Source"));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    let connected = ControllerView {
        stream: "connected".to_owned(),
        seconds: 12.34,
        replica: Some(([10, 0, 0, 7], 4280).into()),
        stale_seconds: Some(0.0),
        last_failure: None,
        resyncs: 0,
        destinations: Vec::new(),
    };
    insta::assert_debug_snapshot!(lines(connected.clone()));
    let away = ControllerView {
        stream: "disconnected".to_owned(),
        replica: None,
        last_failure: Some("no connection to 10.0.0.7:4280 within 1s".to_owned()),
        ..connected
    };
    insta::assert_debug_snapshot!(lines(away));
}

#[test]
fn a_healthy_service_is_explained() {
    insta::assert_snapshot!(explain(&proxy(Some("a")), &service()));
}

#[test]
fn a_failing_zone_is_explained() {
    let mut failing = service();
    failing.latency_local =
        Some(LatencyView { requests: 9, p50_ms: 21.04, p90_ms: 80.0, p99_ms: 2000.0 });
    failing.latency_remote =
        Some(LatencyView { requests: 400, p50_ms: 22.5, p90_ms: 25.0, p99_ms: 31.26 });
    failing.reason = "failure".to_owned();
    failing.hold_ms = 4_600.0;
    failing.retry_tokens = 3.25;
    failing.numbers = NumbersView {
        share: 0.62,
        failure_cap: 0.62,
        local_failure: 0.314,
        remote_failure: 0.002,
        reach: 2,
        ..numbers()
    };
    for endpoint in &mut failing.endpoints {
        endpoint.active = true;
    }
    let local = &mut failing.endpoints[1];
    (local.state, local.active, local.success_rate) = ("ejected".to_owned(), false, 0.42);
    (local.probe_in_ms, local.latency_ms) = (1_340.0, None);
    let decision = |seconds_ago, change: &str, reason: Option<&str>, detail: &str| DecisionView {
        number: 1,
        seconds_ago,
        change: change.to_owned(),
        reason: reason.map(str::to_owned),
        endpoint: (change == "ejected").then_some(([127, 0, 0, 1], 9001).into()),
        detail: detail.to_owned(),
        numbers: numbers(),
    };
    failing.decisions = (0_u32..12)
        .map(|n| decision(600.0 - f64::from(n), "narrow", Some("local"), "old"))
        .collect();
    failing.decisions.push(decision(30.0, "probed", None, "not told"));
    failing.decisions.push(decision(
        12.34,
        "widen",
        Some("failure"),
        "share 1.00→0.62 k 0→2 L=1.02 lcb=0.87 R0=20ms",
    ));
    failing.decisions.push(decision(
        1.26,
        "ejected",
        Some("consecutive"),
        "too many failures in a row, next probe in 1s 300ms",
    ));
    insta::assert_snapshot!(explain(&proxy(Some("a")), &failing));
}

/// A name, what is the case, the proxy's zone, and the first line.
type Case = (&'static str, fn(&mut ServiceView), Option<&'static str>, &'static str);

#[test]
fn the_first_line_says_where_requests_go() {
    let cases: [Case; 6] = [
        ("all local", |_| {}, Some("a"), "web: requests from zone a stay in their zone."),
        (
            "a part leaves",
            |web| web.numbers.share = 0.25,
            Some("a"),
            "web: of the requests from zone a, about 75 % leave it, to 0 endpoints.",
        ),
        (
            "all leave",
            |web| {
                web.numbers.share = 0.0;
                web.endpoints[0].active = true;
            },
            Some("a"),
            "web: all requests from zone a leave it, to 1 endpoint.",
        ),
        (
            "nothing there",
            |web| web.endpoints.clear(),
            Some("a"),
            "web: there is nowhere to send requests from zone a.",
        ),
        ("no zone", |_| {}, None, "web: requests go to all zones alike."),
        (
            "policy off",
            |web| web.reason = "off".to_owned(),
            Some("a"),
            "web: requests go to all zones alike.",
        ),
    ];
    for (case, change, zone, expected) in cases {
        let mut web = service();
        change(&mut web);
        assert_eq!(explain(&proxy(zone), &web).lines().next(), Some(expected), "{case}");
    }
}

#[test]
fn every_reason_and_source_has_words() {
    let unknown = "this version does not know";
    for reason in balance::reason::Reason::ALL {
        let web = ServiceView { reason: reason.as_str().to_owned(), ..service() };
        let text = explain(&proxy(Some("a")), &web);
        assert!(!text.contains(unknown), "{text}");
    }
    for source in api::policy::source::PolicySource::ALL {
        let web = ServiceView { policy_source: source.as_str().to_owned(), ..service() };
        assert!(!explain(&proxy(Some("a")), &web).contains(unknown), "{source:?}");
    }
}
