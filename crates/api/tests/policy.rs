//! What may be written as a policy, what it becomes, and what is said about mistakes.

use api::policy::fields::FIELDS;
use api::policy::spec::PolicySpec;
use api::policy::{LoadBand, Mode, Policy, RetryMethods, RetryOn, Tier};
use serde_json::Value;
use std::time::Duration;

/// Parses a policy written as TOML; mistakes as their messages.
fn parse(text: &str) -> Result<Policy, Vec<String>> {
    let spec: PolicySpec =
        toml::from_str(text).map_err(|error| vec![error.message().to_owned()])?;
    Policy::parse(&spec).map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
}

#[test]
fn an_empty_policy_is_the_built_in_one() {
    assert_eq!(parse(""), Ok(Policy::default()));
}

#[test]
fn every_field_is_taken_over() {
    let policy = parse(
        r#"
        mode = "Pinned"
        tiers = ["node", "zone", "region"]
        minEndpoints = { local = 3, total = 6 }
        minHealthyPercent = 71
        fallback = "Spread"
        maxRemotePercent = 40
        percent = 12.5
        load = { signal = "Outstanding", low = 0.5, high = 3 }
        failureBudgetPercent = 100
        overprovisioningPercent = 1000
        algorithm = "LeastRequest"
        breaker = { consecutive = 7, successRatePercent = 0, minRequests = 20, backoff = { min = "500ms", max = "1m" } }
        retry = { budgetPercent = 10, attempts = 1, on = ["connect"], methods = "any" }
        timeout = { connect = "250ms", request = "1m 30s", perTry = "2s" }
        "#,
    )
    .expect("a valid policy");
    assert_eq!(policy.mode, Mode::Pinned);
    assert_eq!(policy.tiers, [Tier::Node, Tier::Zone, Tier::Region]);
    assert_eq!((policy.min_endpoints.local, policy.min_endpoints.total), (3, 6));
    assert_eq!(policy.load, LoadBand::Outstanding { low: 0.5, high: 3.0 });
    let percents = [
        policy.min_healthy,
        policy.max_remote,
        policy.percent,
        policy.failure_budget,
        policy.overprovisioning,
    ];
    assert_eq!(
        percents.map(|percent| percent.percent().to_string()),
        ["71", "40", "12.5", "100", "1000"]
    );
    assert_eq!(policy.percent.share().to_string(), "0.125");
    assert_eq!((policy.breaker.consecutive, policy.breaker.min_requests), (7, 20));
    assert_eq!(policy.breaker.backoff.min, Duration::from_millis(500));
    assert_eq!(policy.breaker.backoff.max, Duration::from_mins(1));
    assert_eq!(
        (policy.retry.attempts, policy.retry.on, policy.retry.methods),
        (1, vec![RetryOn::Connect], RetryMethods::Any)
    );
    assert_eq!(policy.timeout.connect, Duration::from_millis(250));
    assert_eq!(policy.timeout.request, Some(Duration::from_secs(90)));
    assert_eq!(policy.timeout.per_try, Some(Duration::from_secs(2)));
}

/// A policy as written, and what it changes of the built-in one.
type Case = (&'static str, fn(&mut Policy));

#[test]
fn what_is_left_out_of_a_block_stays_built_in() {
    let cases: [Case; 4] = [
        ("minEndpoints = { total = 6 }", |policy| policy.min_endpoints.total = 6),
        ("load = { signal = 'Outstanding' }", |policy| {
            policy.load = LoadBand::Outstanding { low: 0.8, high: 2.0 }
        }),
        ("load = { high = 2.5 }", |policy| {
            policy.load = LoadBand::Normalized { low: 1.2, high: 2.5 }
        }),
        ("breaker = { backoff = { max = '30s' } }", |policy| {
            policy.breaker.backoff.max = Duration::from_secs(30);
        }),
    ];
    for (text, change) in cases {
        let mut expected = Policy::default();
        change(&mut expected);
        assert_eq!(parse(text), Ok(expected), "{text}");
    }
}

/// A policy as written, and the one thing said about it.
const MISTAKES: &[(&str, &str)] = &[
    (
        "tiers = []",
        "tiers: is empty, so that no endpoint could be used; name at least one of node, zone, region, any",
    ),
    (
        "tiers = ['any', 'zone']",
        "tiers: is out of order or names a tier twice; list each at most once, nearest first: node, zone, region, any",
    ),
    (
        "tiers = ['zone', 'zone']",
        "tiers: is out of order or names a tier twice; list each at most once, nearest first: node, zone, region, any",
    ),
    (
        "minEndpoints.local = 10001",
        "minEndpoints.local: 10001 is out of range; set it to 0 up to 10000",
    ),
    ("minHealthyPercent = 101", "minHealthyPercent: 101 is out of range; set it to 0 up to 100"),
    ("maxRemotePercent = -1", "maxRemotePercent: -1 is out of range; set it to 0 up to 100"),
    ("percent = nan", "percent: NaN is out of range; set it to 0 up to 100"),
    (
        "load.low = 1",
        "load.low: 1 is not above 1; set it above 1, which is the load of a service that queues nothing",
    ),
    (
        "load = { low = 1.5, high = 1.5 }",
        "load.high: 1.5 is not above low, 1.5; set high above low: the band lies between them",
    ),
    ("load.high = inf", "load.high: inf is above 100; set it lower: a band that high never opens"),
    (
        "load = { signal = 'Outstanding', low = 1, high = 2 }",
        "load.high: 2 is not more than twice low, 1; raise high or lower low: going from one endpoint to two halves the load, so a narrower band swings",
    ),
    ("load = { signal = 'Outstanding', low = 0 }", "load.low: 0 is not above 0; set it above 0"),
    (
        "failureBudgetPercent = 100.5",
        "failureBudgetPercent: 100.5 is out of range; set it to 0 up to 100",
    ),
    (
        "overprovisioningPercent = 99",
        "overprovisioningPercent: 99 is out of range; set it to 100 up to 100000",
    ),
    ("breaker.consecutive = 0", "breaker.consecutive: 0 is out of range; set it to 1 up to 1000"),
    (
        "breaker.backoff.min = 'soon'",
        "breaker.backoff.min: \"soon\" is no duration; write a number with its unit: 250ms, 1s, 2m",
    ),
    (
        "breaker.backoff.min = '1'",
        "breaker.backoff.min: \"1\" is no duration; write a number with its unit: 250ms, 1s, 2m",
    ),
    (
        "breaker.backoff.min = '20s'",
        "breaker.backoff.max: 15s is below min, 20s; set max to at least min",
    ),
    ("retry.attempts = 3", "retry.attempts: 3 is out of range; set it to 1 up to 2"),
    (
        "retry.on = ['5xx', '5xx']",
        "retry.on: names a condition twice; list each of connect, refused-stream, 5xx at most once",
    ),
    ("timeout.connect = '2m'", "timeout.connect: 2m is out of range; set it to 1ms up to 1m"),
    (
        "timeout = { request = '1s', perTry = '2s' }",
        "timeout.perTry: 2s is above request, 1s; set perTry to at most request, or leave it out",
    ),
    (
        "lod.high = 2",
        "unknown field `lod`, expected one of `mode`, `tiers`, `minEndpoints`, `minHealthyPercent`, `fallback`, `maxRemotePercent`, `percent`, `load`, `failureBudgetPercent`, `overprovisioningPercent`, `algorithm`, `breaker`, `retry`, `timeout`",
    ),
    (
        "mode = 'adaptive'",
        "unknown variant `adaptive`, expected one of `Adaptive`, `Proportional`, `Pinned`, `Off`",
    ),
];

#[test]
fn mistakes_name_their_field_and_what_to_do() {
    for &(text, expected) in MISTAKES {
        assert_eq!(parse(text), Err(vec![expected.to_owned()]), "{text}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "tiers = []\npercent = 200\nload = { low = 0.5, high = 200 }\nbreaker.minRequests = 0\ntimeout.connect = 'x'";
    let paths: Vec<String> = parse(text)
        .expect_err("mistakes")
        .iter()
        .filter_map(|m| m.split(": ").next().map(str::to_owned))
        .collect();
    assert_eq!(
        paths,
        ["tiers", "percent", "load.low", "load.high", "breaker.minRequests", "timeout.connect"]
    );
}

#[test]
fn the_effective_policy_is_written_back_as_a_user_would_write_it() {
    let written = serde_json::to_value(Policy::default()).expect("serialisable");
    let expected: Value = serde_json::from_str(
        r#"{"mode": "Adaptive", "tiers": ["zone", "any"], "minEndpoints": {"local": 1, "total": 0}, "minHealthyPercent": 0,
        "fallback": "NextTier", "maxRemotePercent": 100, "percent": 100,
        "load": {"signal": "Normalized", "low": 1.2, "high": 1.5}, "failureBudgetPercent": 0.5, "overprovisioningPercent": 140,
        "algorithm": "PeakEwma",
        "breaker": {"consecutive": 5, "successRatePercent": 50, "minRequests": 10, "backoff": {"min": "1s", "max": "15s"}},
        "retry": {"budgetPercent": 20, "attempts": 2, "on": ["connect", "refused-stream", "5xx"], "methods": "idempotent"},
        "timeout": {"connect": "1s"}}"#,
    )
    .expect("JSON");
    assert_eq!(written, expected);
    let again: PolicySpec = serde_json::from_value(written).expect("readable");
    assert_eq!(Policy::parse(&again), Ok(Policy::default()), "what is written is read back");
}

#[test]
fn the_table_of_fields_is_complete() {
    let spec: PolicySpec =
        toml::from_str("timeout = { request = '1s', perTry = '1s' }").expect("valid");
    let policy = Policy::parse(&spec).expect("valid");
    let mut written = Vec::new();
    leaves(&serde_json::to_value(policy).expect("serialisable"), "", &mut written);
    let mut described: Vec<&str> = FIELDS.iter().map(|field| field.path).collect();
    described.sort_unstable();
    written.sort_unstable();
    assert_eq!(described, written);
}

fn leaves(value: &Value, path: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(value, &path, into);
            }
        }
        _ => into.push(path.to_owned()),
    }
}
