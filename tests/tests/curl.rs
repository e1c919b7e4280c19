//! Real curl through the proxy: what an application gets is what its service said.

use std::net::SocketAddr;
use std::path::Path;
use tests::curl::{Answer, curl};
use tests::need;
use tests::origin::{self, Origin};
use tests::ports;
use tests::programs::tool;
use tests::proxy::Proxy;
use tests::topology::Topology;

/// A proxy with a forward listener and one for the service `web`, both to one origin.
struct Setup {
    origin: Origin,
    forward: SocketAddr,
    web: SocketAddr,
    proxy: Proxy,
}

fn setup(settings: &str, answer: origin::Answer) -> Setup {
    let origin = Origin::start(move |_| answer.clone());
    let (forward, web) = (ports::free(), ports::free());
    let topology = Topology::zone("a")
        .forward(forward)
        .listener(web, "web")
        .service("web", settings)
        .endpoint(origin.address, "a");
    let proxy = Proxy::start(&topology);
    Setup { origin, forward, web, proxy }
}

/// `curl --proxy FORWARD arguments`, which is what `http_proxy=FORWARD curl` does.
fn through(program: &Path, forward: SocketAddr, arguments: &[&str]) -> Answer {
    let proxy = format!("http://{forward}");
    curl(program, &[&["--proxy", &proxy], arguments].concat())
}

#[test]
fn the_forward_listener_takes_the_service_from_the_host() {
    let program = need!(tool("curl"));
    let setup = setup(
        "hosts = [\"web.shop\", \"web.shop.svc.cluster.local\"]",
        origin::Answer::new(200, "hello").header("x-from", "origin"),
    );
    for host in ["web", "WEB", "web:80", "web.shop", "web.shop.svc.cluster.local:8080"] {
        let answer = through(&program, setup.forward, &[&format!("http://{host}/greet?x=1")]);
        assert_eq!(
            (answer.status, answer.text().as_str(), answer.exit),
            (200, "hello", Some(0)),
            "{host}: {answer:?}"
        );
        assert_eq!(answer.header("x-from"), Some("origin"));
        let seen = setup.origin.take_seen();
        let seen: Vec<_> = seen
            .iter()
            .map(|seen| (seen.method.as_str(), seen.target.as_str(), seen.host.as_str()))
            .collect();
        // curl leaves out the port 80 that http:// means.
        assert_eq!(seen, [("GET", "/greet?x=1", host.trim_end_matches(":80"))], "{host}");
    }
    setup.proxy.assert_no_ejection("web");
}

#[test]
fn http_proxy_in_the_environment_is_enough() {
    let program = need!(tool("curl"));
    let setup = setup("", origin::Answer::new(200, "hello"));
    let output = std::process::Command::new(&program)
        .args(["--disable", "--silent", "--max-time", "20", "http://web/"])
        .env_clear()
        .env("http_proxy", setup.forward.to_string())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello");
}

#[test]
fn an_unknown_service_is_refused_with_a_reason() {
    let program = need!(tool("curl"));
    let setup = setup("", origin::Answer::new(200, "hello"));
    let answer = through(&program, setup.forward, &["http://wep/"]);
    assert_eq!(
        (answer.status, answer.header("tidegate-reason")),
        (503, Some("unknown_service")),
        "{answer:?}"
    );
    assert_eq!(setup.origin.count(), 0);
}

#[test]
fn a_listener_of_a_service_sends_everything_there() {
    let program = need!(tool("curl"));
    let setup = setup("", origin::Answer::new(200, "hello"));
    let url = format!("http://{}/a", setup.web);
    let answer = curl(&program, &["--header", "Host: whatever.example", &url]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    assert_eq!(setup.origin.take_seen()[0].host, "whatever.example");
}

#[test]
fn http2_with_prior_knowledge_reaches_http1_and_http2_endpoints() {
    let program = need!(tool("curl"));
    for protocol in ["http1", "http2"] {
        let setup = setup(&format!("protocol = \"{protocol}\""), origin::Answer::new(200, "hello"));
        for url in [format!("http://{}/", setup.web), "http://web/".to_owned()] {
            let to = format!("web:80:{}", setup.forward);
            let answer = curl(&program, &["--http2-prior-knowledge", "--connect-to", &to, &url]);
            assert_eq!(
                (answer.status, answer.version.as_str(), answer.text().as_str()),
                (200, "2", "hello"),
                "{answer:?}"
            );
        }
        let seen = setup.origin.take_seen();
        let versions: Vec<_> = seen.iter().map(|seen| format!("{:?}", seen.version)).collect();
        let expected = if protocol == "http1" { "HTTP/1.1" } else { "HTTP/2.0" };
        assert_eq!(versions, [expected, expected]);
        assert_eq!(seen[1].host, "web");
    }
}

#[test]
fn http1_callers_reach_http2_endpoints() {
    let program = need!(tool("curl"));
    let setup = setup("protocol = \"http2\"", origin::Answer::new(200, "hello"));
    let answer = through(&program, setup.forward, &["--data", "x", "http://web/"]);
    assert_eq!(
        (answer.status, answer.version.as_str(), answer.text().as_str()),
        (200, "1.1", "hello")
    );
    let seen = setup.origin.take_seen();
    assert_eq!((seen[0].method.as_str(), seen[0].body.as_ref()), ("POST", b"x".as_slice()));
}

#[test]
fn uploads_arrive_whole_with_and_without_a_length() {
    let program = need!(tool("curl"));
    let setup = setup("", origin::Answer::new(200, "taken"));
    let folder = tests::folder::Folder::new();
    let text = "a line of the upload\n".repeat(100_000);
    let file = folder.write("upload", &text);
    let file = file.to_str().unwrap();
    let by_length = ["--data-binary", &format!("@{file}"), "http://web/"];
    let chunked = ["--header", "Transfer-Encoding: chunked", "--upload-file", file, "http://web/"];
    for arguments in [&by_length[..], &chunked[..]] {
        let answer = through(&program, setup.forward, arguments);
        assert_eq!(
            (answer.status, answer.text().as_str(), answer.exit),
            (200, "taken", Some(0)),
            "{answer:?}"
        );
        let seen = setup.origin.take_seen();
        assert!(seen[0].body == text.as_bytes(), "{} of {} bytes", seen[0].body.len(), text.len());
    }
}

#[test]
fn large_answers_arrive_whole_on_every_pair_of_versions() {
    let program = need!(tool("curl"));
    let body: Vec<u8> = (0..10_000_000_u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    for protocol in ["http1", "http2"] {
        let settings = format!("protocol = \"{protocol}\"");
        let setup = setup(&settings, origin::Answer::new(200, body.clone()));
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let answer = curl(&program, &[version, &format!("http://{}/", setup.web)]);
            assert_eq!((answer.status, answer.exit), (200, Some(0)), "{version} to {protocol}");
            assert!(answer.body == body, "{version} to {protocol}: {} bytes", answer.body.len());
        }
    }
}

#[test]
fn statuses_without_a_body_keep_the_connection_in_step() {
    let program = need!(tool("curl"));
    for (status, arguments) in [(204, &[][..]), (304, &[][..]), (200, &["--head"][..])] {
        let setup = setup("", origin::Answer::new(status, ""));
        let url = format!("http://{}/", setup.web);
        let answer = curl(&program, &[arguments, &[&url, &url]].concat());
        assert_eq!((answer.status, answer.exit), (status, Some(0)), "{status} {arguments:?}");
        assert_eq!(answer.connections, 0, "the second transfer uses the connection of the first");
        assert_eq!(setup.origin.count(), 2);
    }
}

#[test]
fn an_error_of_the_endpoint_is_passed_on_as_it_is() {
    let program = need!(tool("curl"));
    for status in [404, 429, 500, 503] {
        let setup = setup("", origin::Answer::new(status, "sorry").header("x-why", "as asked"));
        let answer = through(&program, setup.forward, &["--request", "POST", "http://web/"]);
        assert_eq!(
            (answer.status, answer.text().as_str(), answer.header("x-why")),
            (status, "sorry", Some("as asked"))
        );
        assert_eq!(answer.header("tidegate-reason"), None, "the proxy did not answer itself");
    }
}

#[test]
fn a_cut_answer_is_seen_as_cut() {
    let program = need!(tool("curl"));
    for protocol in ["http1", "http2"] {
        let settings = format!("protocol = \"{protocol}\"");
        let setup = setup(&settings, origin::Answer::new(200, "half of it").truncated());
        let answer = through(&program, setup.forward, &["http://web/"]);
        assert_ne!(answer.exit, Some(0), "curl must not take it for complete: {answer:?}");
    }
}
