//! Whose fault it was: what callers do wrong, or ask wrongly, never counts against an endpoint.
#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::io::Write as _;
use std::time::Duration;
use tests::deadline::{SOON, spread, until};
use tests::load::{Load, WhenClosed};
use tests::origin::{Answer, Origin};
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{http, ports};

/// Enough to trip any breaker, were they counted.
const MANY: u32 = 60;

fn start(origin: &Origin) -> (Proxy, std::net::SocketAddr) {
    let web = ports::free();
    let topology =
        Topology::zone("a").listener(web, "web").service("web", "").endpoint(origin.address, "a");
    (Proxy::start(&topology), web)
}

fn requests(proxy: &Proxy, class: &str) -> f64 {
    proxy.metrics().sum("tidegate_requests_total", &[("service", "web"), ("class", class)])
}

#[test]
fn callers_that_give_up_early_eject_nobody() {
    // Giving up counts against an endpoint after five times its latency, far beyond what a busy machine adds here.
    let origin = Origin::start(|_| Answer::new(200, "late").after(Duration::from_millis(400)));
    let (proxy, web) = start(&origin);
    until("the proxy knows the latency", Duration::from_mins(1), || {
        assert_eq!(http::get(web, "/").unwrap().0, 200);
        let service = proxy.service("web").unwrap();
        let baseline =
            service.get("numbers").and_then(|numbers| numbers.get("baseline_ms")).unwrap().as_f64();
        baseline.ok_or(service)
    });
    let mut before = None;
    spread(MANY, Duration::from_secs(3), |_| {
        let mut socket = http::connect(web).unwrap();
        socket.write_all(b"GET / HTTP/1.1\r\nHost: web\r\n\r\n").unwrap();
        // The one before is closed 50 ms after it was opened.
        before.replace(socket);
    });
    drop(before);
    until("nothing is outstanding", SOON, || match outstanding(&proxy) {
        0 => Ok(()),
        open => Err(open),
    });
    proxy.assert_no_ejection("web");
    let (cancelled, failed) = (requests(&proxy, "cancelled"), requests(&proxy, "failure"));
    assert!(
        cancelled > f64::from(MANY) * 0.5 && failed < 0.5,
        "{cancelled} cancelled, {failed} failed"
    );
    assert_eq!(http::get(web, "/").unwrap().0, 200);
}

fn outstanding(proxy: &Proxy) -> u64 {
    let service = proxy.service("web").unwrap();
    let endpoints = service.get("endpoints").unwrap().as_array().unwrap();
    endpoints.iter().map(|endpoint| endpoint.get("outstanding").unwrap().as_u64().unwrap()).sum()
}

#[test]
fn bad_bytes_of_callers_eject_nobody() {
    let origin = Origin::named("fine");
    let (proxy, web) = start(&origin);
    let chunk = "POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n";
    let shapes = [
        format!("{chunk}zz\r\nabc\r\n0\r\n\r\n"),
        format!("{chunk}3\r\nabcX\r\n0\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: web\r\nBad Name: x\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"
            .to_owned(),
        "nonsense\r\n\r\n".to_owned(),
    ];
    for shape in shapes.iter().cycle().take(MANY.try_into().unwrap()) {
        let answer = http::send(web, shape.as_bytes()).unwrap_or_default();
        let status = answer.split(' ').nth(1).unwrap_or("closed");
        assert!(status.starts_with('4') || status == "closed", "{shape:?} got {answer:?}");
    }
    proxy.assert_no_ejection("web");
    assert_eq!(http::get(web, "/").unwrap(), (200, "fine".to_owned()));
    assert!(requests(&proxy, "failure") < 0.5);
}

#[test]
fn answers_of_4xx_eject_nobody_and_are_no_failures() {
    for status in [400, 401, 404, 409, 429] {
        let origin = Origin::start(move |_| Answer::new(status, "no"));
        let (proxy, web) = start(&origin);
        let load = Load::start(web, 2, WhenClosed::Reconnect);
        until("many were answered", SOON, || {
            let bad = load.so_far().bad.len();
            if bad >= MANY.try_into().unwrap() { Ok(()) } else { Err(bad) }
        });
        let count = load.stop();
        assert_eq!((count.good, count.lost.len()), (0, 0), "{count:?}");
        proxy.assert_no_ejection("web");
        let seen = requests(&proxy, "success");
        assert!((seen - count.total() as f64).abs() < 0.5, "{seen} of {}", count.total());
    }
}

#[test]
fn answers_of_5xx_do_eject() {
    let bad = Origin::start(|_| Answer::new(500, "no"));
    let good = Origin::named("good");
    let web = ports::free();
    let topology = Topology::zone("a").listener(web, "web").service("web", "");
    let topology = topology.endpoint(bad.address, "a").endpoint(good.address, "a");
    let proxy = Proxy::start(&topology);
    let load = Load::start(web, 2, WhenClosed::Reconnect);
    until("the bad endpoint is ejected", SOON, || {
        let states = proxy.states("web");
        let ejected = (bad.address.to_string(), "ejected".to_owned());
        if states.contains(&ejected) { Ok(()) } else { Err(states) }
    });
    let labels = [("service", "web"), ("zone", "a")];
    assert!(proxy.metrics().sum("tidegate_ejections_total", &labels) > 0.5);
    let count = load.stop();
    assert_eq!(count.lost, [""; 0], "{count:?}");
}
