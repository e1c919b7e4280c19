//! Reading what a proxy says.

use super::*;

const METRICS: &str = r#"
tidegate_requests_total{direction="outbound",service="web",src_zone="a",dst_zone="a",protocol="http1",class="success"} 60
tidegate_requests_total{direction="outbound",service="web",src_zone="a",dst_zone="b",protocol="http1",class="success"} 30
tidegate_requests_total{direction="outbound",service="web",src_zone="a",dst_zone="a",protocol="http1",class="failure"} 10
tidegate_requests_total{direction="outbound",service="other",src_zone="a",dst_zone="b",protocol="http1",class="success"} 7
tidegate_retries_total{service="web",result="sent"} 20
tidegate_retries_total{service="web",result="budget_exhausted"} 3
tidegate_zone_bytes_total{service="web",src_zone="a",dst_zone="a",flow="sent"} 100
tidegate_zone_bytes_total{service="web",src_zone="a",dst_zone="b",flow="received"} 50
"#;

const DEBUG: &str = r#"{"proxy":{"zone":"a"},"services":[{"name":"web","reason":"failure","later":1,
"numbers":{"share":0.4,"load":1.3,"reach":2},"load_band":{"signal":"normalized","low":1.2,"high":1.5},
"endpoints":[
 {"address":"127.0.0.1:1","locality":"local","state":"serving","active":true},
 {"address":"127.0.0.1:2","locality":"local","state":"ejected","active":false},
 {"address":"127.0.0.1:3","locality":"remote","state":"serving","active":true},
 {"address":"127.0.0.1:4","locality":"remote","state":"serving","active":false}],
"decisions":[{"number":4,"seconds_ago":3.0,"change":"ejected","reason":"consecutive","endpoint":"127.0.0.1:2","detail":"5 in a row"},
 {"number":5,"seconds_ago":1.5,"change":"widen","reason":"failure","endpoint":null,"detail":"share 1.00→0.40"}]}]}"#;

fn service() -> Service {
    serde_json::from_str::<Debug>(DEBUG).unwrap().services.remove(0)
}

#[test]
#[expect(clippy::float_cmp, reason = "small whole numbers")]
fn counters_give_shares() {
    let counters = counters(&Scrape::parse(METRICS), "a");
    assert_eq!(counters.by_zone, [70.0, 30.0, 0.0]);
    assert_eq!(counters.cross_zone("a"), Some(0.3));
    assert_eq!(counters.success(), Some(0.9));
    assert_eq!(counters.attempt_success(), Some(0.75));
    assert_eq!((counters.cross_bytes, counters.bytes), (50.0, 150.0));
}

#[test]
fn nothing_counted_has_no_share() {
    let none = Counters::default();
    assert_eq!((none.cross_zone("a"), none.success(), none.attempt_success()), (None, None, None));
}

#[test]
fn endpoints_are_counted_by_what_they_do() {
    let state = state(&service());
    assert_eq!((state.active_local, state.active_remote, state.ejected), (1, 1, 1));
    assert_eq!((state.share, state.load, state.band), (Some(0.4), Some(1.3), Some((1.2, 1.5))));
    assert_eq!(state.reason, "failure");
}

fn look_at(at: f64) -> Look {
    let sample = Sample {
        at,
        counters: Counters { requests: at * 100.0, ..Counters::default() },
        ..Sample::default()
    };
    Look { sample, decisions: decisions(service(), 10.0) }
}

#[test]
fn a_decision_seen_twice_is_one() {
    let mut observed = Observed::new(Policy::Adaptive, "a", ([127, 0, 0, 1], 1).into());
    assert_eq!(observed.add(look_at(10.0)), 2);
    // A slow look takes its decisions for later ones.
    assert_eq!(observed.add(Look { decisions: decisions(service(), 12.5), ..look_at(11.0) }), 0);
    let moments: Vec<_> =
        observed.decisions.iter().map(|decision| (decision.at, decision.change.as_str())).collect();
    assert_eq!(moments, [(7.0, "ejected"), (8.5, "widen")]);
}

#[test]
#[expect(clippy::float_cmp, reason = "small whole numbers")]
fn a_span_is_counted_from_the_looks_at_its_ends() {
    let mut observed = Observed::new(Policy::Adaptive, "a", ([127, 0, 0, 1], 1).into());
    for at in [0.02, 1.03, 2.01, 4.02] {
        observed.add(look_at(at));
    }
    assert_eq!(observed.between(1, 2).requests.round(), 98.0);
    // The look at second 3 is missing: the one before it stands in.
    assert_eq!(observed.between(2, 3).requests, 0.0);
    assert_eq!(observed.between(3, 4).requests.round(), 201.0);
}
