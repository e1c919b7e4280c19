//! What a proxy tells: metrics, `/debug/services` and `why`.
#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::io::Write as _;
use std::process::{Command, Stdio};
use tests::origin::{Answer, Origin};
use tests::programs::{self, tool};
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{http, need, ports};

struct Setup {
    _origins: [Origin; 3],
    proxy: Proxy,
    web: std::net::SocketAddr,
}

/// A proxy in zone a that has sent some requests: to a service with endpoints in two zones, and to one that always fails.
fn start() -> Setup {
    let origins =
        [Origin::named("a"), Origin::named("b"), Origin::start(|_| Answer::new(503, "no"))];
    let (web, bad) = (ports::free(), ports::free());
    let topology = Topology::zone("a")
        .listener(web, "web")
        .listener(bad, "bad")
        .service("web", "")
        .endpoint(origins[0].address, "a")
        .endpoint(origins[1].address, "b")
        .service("bad", "")
        .endpoint(origins[2].address, "b");
    let proxy = Proxy::start(&topology);
    for _ in 0..40 {
        assert_eq!(http::get(web, "/").unwrap().0, 200);
        assert_eq!(http::get(bad, "/").unwrap().0, 503);
    }
    Setup { _origins: origins, proxy, web }
}

#[test]
fn promtool_finds_nothing_to_say_about_the_metrics() {
    let program = need!(tool("promtool"));
    let setup = start();
    let text = setup.proxy.metrics_text();
    let mut promtool = Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    assert!(text.contains("# HELP tidegate_requests_total"), "{text}");
}

#[test]
fn each_request_is_counted_once_by_zone_and_class() {
    let setup = start();
    let scrape = setup.proxy.metrics();
    let requests = |labels: &[(&str, &str)]| scrape.sum("tidegate_requests_total", labels);
    let close =
        |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.5, "{found}, not {wanted}");
    close(
        requests(&[
            ("service", "web"),
            ("direction", "outbound"),
            ("src_zone", "a"),
            ("protocol", "http1"),
        ]),
        40.0,
    );
    close(requests(&[("service", "web"), ("class", "success")]), 40.0);
    close(requests(&[("service", "bad"), ("class", "failure"), ("dst_zone", "b")]), 40.0);
    let picks = scrape.sum("tidegate_picks_total", &[("service", "web")]);
    close(picks, 40.0);
    let durations = scrape.sum("tidegate_request_duration_seconds_count", &[("service", "web")]);
    close(durations, 40.0);
    assert!(
        scrape.sum("tidegate_zone_bytes_total", &[("service", "web"), ("flow", "sent")])
            > 40.0 * 20.0
    );
    assert!(
        scrape.sum("tidegate_zone_bytes_total", &[("service", "web"), ("flow", "received")])
            > 40.0 * 20.0
    );
}

#[test]
fn what_debug_says_is_what_happened() {
    let setup = start();
    let service = setup.proxy.service("web").unwrap();
    let text = |key: &str| service.get(key).unwrap().as_str().unwrap().to_owned();
    assert_eq!(
        (text("protocol"), text("policy_source")),
        ("http1".to_owned(), "default".to_owned())
    );
    let endpoints = service.get("endpoints").unwrap().as_array().unwrap();
    let picks: u64 =
        endpoints.iter().map(|endpoint| endpoint.get("picks").unwrap().as_u64().unwrap()).sum();
    assert_eq!(picks, 40);
    let mut localities: Vec<_> = endpoints
        .iter()
        .map(|endpoint| {
            (
                endpoint.get("zone").unwrap().as_str().unwrap(),
                endpoint.get("locality").unwrap().as_str().unwrap(),
            )
        })
        .collect();
    localities.sort_unstable();
    assert_eq!(localities, [("a", "local"), ("b", "remote")]);
    assert!(setup.proxy.service("nothing").is_none());
}

fn why(setup: &Setup, arguments: &[&str]) -> (Option<i32>, String, String) {
    let admin = setup.proxy.admin.to_string();
    let mut command = Command::new(programs::proxy());
    let output = command.arg("why").args(arguments).args(["--admin", &admin]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn why_explains_a_service_to_a_person_and_to_a_program() {
    let setup = start();
    let (status, said, errors) = why(&setup, &["web"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    for word in ["web", "Adaptive", "zone a", "serving"] {
        assert!(said.contains(word), "{word} is not in:\n{said}");
    }
    let (status, said, _) = why(&setup, &["web", "--json"]);
    assert_eq!(status, Some(0));
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(value.to_string().contains("\"web\""), "{said}");
    assert_eq!(http::get(setup.web, "/").unwrap().0, 200);
}

#[test]
fn why_of_an_unknown_service_names_the_known_ones() {
    let setup = start();
    let (status, said, errors) = why(&setup, &["wep"]);
    assert_eq!((status, said.as_str()), (Some(1), ""));
    assert!(errors.contains("web") && errors.contains("bad"), "{errors}");
}
