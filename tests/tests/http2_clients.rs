//! nghttp and h2load: many streams on few connections.

use std::process::Command;
use tests::need;
use tests::origin::Origin;
use tests::ports;
use tests::programs::tool;
use tests::proxy::Proxy;
use tests::topology::Topology;

fn start(protocol: &str) -> (Vec<Origin>, String, Proxy) {
    let origins = vec![Origin::named("one"), Origin::named("two")];
    let web = ports::free();
    let topology = Topology::zone("a")
        .listener(web, "web")
        .service("web", &format!("protocol = \"{protocol}\""));
    let topology =
        origins.iter().fold(topology, |topology, origin| topology.endpoint(origin.address, "a"));
    (origins, format!("http://{web}/"), Proxy::start(&topology))
}

#[test]
fn thousands_of_streams_all_succeed_and_are_all_counted() {
    let program = need!(tool("h2load"));
    for protocol in ["http1", "http2"] {
        let (origins, url, proxy) = start(protocol);
        let arguments = ["--requests=1000", "--clients=4", "--max-concurrent-streams=25"];
        let output = Command::new(&program).args(arguments).arg(&url).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1000 succeeded, 0 failed, 0 errored"), "{text}");
        assert!(text.contains("status codes: 1000 2xx"), "{text}");
        let arrived: Vec<_> = origins.iter().map(Origin::count).collect();
        assert_eq!(arrived.iter().sum::<usize>(), 1000);
        assert!(arrived.iter().all(|count| *count > 100), "both endpoints serve: {arrived:?}");
        let labels = [
            ("service", "web"),
            ("class", "success"),
            ("direction", "outbound"),
            ("protocol", "http2"),
        ];
        let counted = proxy.metrics().sum("tidegate_requests_total", &labels);
        assert!((counted - 1000.0).abs() < 0.5, "{counted}");
        proxy.assert_no_ejection("web");
    }
}

#[test]
fn nghttp_sees_header_body_and_end_of_many_requests() {
    let program = need!(tool("nghttp"));
    let (_origins, url, _proxy) = start("http2");
    let output = Command::new(&program)
        .args(["--null-out", "--stat", "--multiply=20", &url])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let good = text
        .lines()
        .filter(|line| line.contains(" 200 ") && line.trim_end().ends_with('/'))
        .count();
    assert!(output.status.success(), "{text}");
    assert_eq!(good, 20, "{text}");
}
