//! What a topology file becomes, and what is said about mistakes in it.

use api::policy::source::PolicySource;
use api::policy::{LoadBand, Mode, Policy, Tier};
use proxy::discovery::topology::parse;
use proxy::discovery::{EndpointProtocol, EndpointUpdate, ListenerKind, ListenerSpec, Place};

/// Everything that may be written.
const WHOLE: &str = r#"
[proxy]
zone = "a"
region = "r1"
node = "n1"

[[listener]]
address = "127.0.0.1:4240"

[[listener]]
address = "127.0.0.1:8081"
service = "web"

[[service]]
name = "web"
hosts = ["Web.shop", "web.shop.svc.cluster.local:80", "WEB"]
protocol = "http2"
callers = { a = 3, b = 2 }

[service.policy]
mode = "Pinned"
tiers = ["zone", "region"]
load = { signal = "Outstanding", high = 4.0 }

[[service.endpoint]]
address = "127.0.0.1:9001"
zone = "a"
region = "r1"
node = "n1"

[[service.endpoint]]
address = "[::1]:9001"

[[service]]
name = "empty"
"#;

#[test]
fn a_whole_topology_is_taken_over() {
    let world = parse(WHOLE).expect("a valid topology");
    assert_eq!(
        world.place,
        Place { zone: Some("a".into()), region: Some("r1".into()), node: Some("n1".into()) }
    );
    let listener = |address: &str, service: Option<&str>| ListenerSpec {
        address: address.parse().expect("an address"),
        kind: service
            .map_or(ListenerKind::Forward, |service| ListenerKind::Service(service.into())),
    };
    assert_eq!(
        world.listeners,
        [listener("127.0.0.1:4240", None), listener("127.0.0.1:8081", Some("web"))]
    );
    let [web, empty] = world.services.as_slice() else { panic!("two services: {world:?}") };
    assert_eq!(&*web.name, "web");
    assert_eq!(
        web.hosts.iter().map(|host| &**host).collect::<Vec<_>>(),
        ["web.shop", "web.shop.svc.cluster.local"]
    );
    assert_eq!(web.protocol, EndpointProtocol::Http2);
    assert_eq!(web.callers, [("a".into(), 3), ("b".into(), 2)]);
    assert_eq!(web.policy_source, PolicySource::Topology);
    let expected = Policy {
        mode: Mode::Pinned,
        tiers: vec![Tier::Zone, Tier::Region],
        load: LoadBand::Outstanding { low: 0.8, high: 4.0 },
        ..Policy::default()
    };
    assert_eq!(*web.policy, expected);
    let place = (Some("a".into()), Some("r1".into()), Some("n1".into()));
    let endpoint = |address: &str, (zone, region, node)| EndpointUpdate {
        zone,
        region,
        node,
        ..EndpointUpdate::at(address.parse().expect("an address"))
    };
    assert_eq!(
        web.endpoints,
        [endpoint("127.0.0.1:9001", place), endpoint("[::1]:9001", (None, None, None))]
    );
    assert_eq!(
        (empty.endpoints.len(), empty.policy_source, &*empty.policy),
        (0, PolicySource::BuiltIn, &Policy::default())
    );
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_what_to_do() {
    let text = r#"
zone = "a"
[proxy]
zone = ""
regoin = "r1"
node = 7

[[listener]]
addres = "127.0.0.1:4240"
[[listener]]
address = "localhost:8081"
service = "wbe"
[[listener]]
address = "127.0.0.1:8082"
[[listener]]
address = "127.0.0.1:8082"
service = "billing"

[[service]]
hosts = "web.shop"
[[service]]
name = "web"
protocol = "h2"
callers = { a = -3, b = "x", "" = 1 }
hosts = ["shop.example", 5]
[service.policy]
mode = "adaptive"
teirs = ["zone"]
percent = "50"
tiers = ["zone", "everywhere"]
maxRemotePercent = 101
load = { signal = "Outstanding", low = 1, high = 1.5, step = 3 }
breaker = 5
retry = { attempts = 2.5 }
timeout = { connect = "soon" }
minEndpoints = { local = 1, total = -1 }
[[service.endpoint]]
address = "127.0.0.1:0"
[[service.endpoint]]
address = "127.0.0.1:9001"
zone = "a b"
[[service.endpoint]]
address = "127.0.0.1:9001"
weight = 3
[[service.endpoint]]
zone = "a"
[[service]]
name = "web"
hosts = ["Shop.example:80"]
policy = "Pinned"
endpoint = ["127.0.0.1:9001"]
"#;
    insta::assert_snapshot!(parse(text).expect_err("mistakes"));
}

#[test]
fn limits_of_no_time_are_mistakes() {
    for key in ["connect", "request", "perTry"] {
        for none in ["0", "0s", "0ms"] {
            let text = format!(
                "[[listener]]\naddress = \"127.0.0.1:0\"\n[[service]]\nname = \"web\"\n[service.policy]\ntimeout = {{ {key} = \"{none}\" }}\n"
            );
            let report = parse(&text).expect_err(&text).to_string();
            let start = format!("line 6: service[0].policy.timeout.{key}: {none} is out of range");
            assert!(report.starts_with(&start), "{report}");
        }
    }
}

#[test]
fn what_is_not_toml_is_told_line_by_line() {
    let text = "[proxy\nzone = a\n[[listener]]\naddress = \"127.0.0.1:4240\"\naddress = \"127.0.0.1:4241\"\nservice = \n";
    insta::assert_snapshot!(parse(text).expect_err("mistakes"));
}

#[test]
fn a_file_that_would_do_nothing_is_a_mistake() {
    for text in ["", "# nothing\n", "[proxy]\nzone = \"a\"\n"] {
        let report = parse(text).expect_err("no listener").to_string();
        let expected = "line 1: listener: is missing, so that the proxy would take no calls; add [[listener]] with address = \"127.0.0.1:4240\"";
        assert_eq!(report, expected, "{text:?}");
    }
}

#[test]
fn nobody_has_to_read_thousands_of_mistakes() {
    let text = "[[listener]]\naddress = \"x\"\n".repeat(250);
    let report = parse(&text).expect_err("mistakes");
    assert_eq!((report.mistakes.len(), report.more), (100, 150));
    assert!(report.to_string().ends_with("\nand 150 more"), "{report}");
}

#[test]
fn hostile_text_is_refused_without_harm() {
    let deep = "a = ".to_owned() + &"[".repeat(100_000);
    let cases = [
        deep,
        "\u{0}".to_owned(),
        "[[service]]\nname = \"a\\nb\"".to_owned(),
        "[a.".repeat(10_000),
        "é = 1".to_owned(),
    ];
    for text in cases {
        assert!(parse(&text).is_err(), "{text:.40}");
    }
}
