//! The end of a proxy under load.

use std::time::Duration;
use tests::deadline::{SOON, until};
use tests::load::{Load, WhenClosed};
use tests::origin::{Answer, Origin};
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{need, ports, programs};

fn start(latency: Duration) -> (Origin, Proxy, std::net::SocketAddr) {
    let origin = Origin::start(move |_| Answer::new(200, "done").after(latency));
    let web = ports::free();
    let topology =
        Topology::zone("a").listener(web, "web").service("web", "").endpoint(origin.address, "a");
    let proxy = Proxy::start_with(&topology, &["--grace", "20s"]);
    (origin, proxy, web)
}

#[test]
fn sigterm_under_load_loses_nothing() {
    for round in 0..5_u64 {
        let latency = Duration::from_millis(round * 5);
        let (origin, mut proxy, web) = start(latency);
        let load = Load::start(web, 20, WhenClosed::End);
        until("load runs", SOON, || {
            let good = load.so_far().good;
            if good > 200 { Ok(()) } else { Err(good) }
        });
        proxy.process.signal("TERM");
        let status = proxy.process.exit_status(SOON);
        until("all callers were told to close", SOON, || {
            if load.is_over() { Ok(()) } else { Err(load.so_far()) }
        });
        let count = load.stop();
        assert_eq!(
            (count.lost.clone(), count.bad.clone()),
            (vec![], vec![]),
            "latency {latency:?}"
        );
        assert_eq!(count.good, origin.count(), "each answer was asked for once");
        assert_eq!(status.code(), Some(0), "{}", proxy.process.log());
    }
}

#[test]
fn a_request_in_flight_is_finished() {
    let (origin, mut proxy, web) = start(Duration::from_secs(2));
    let load = Load::start(web, 1, WhenClosed::End);
    until("the request is on its way", SOON, || {
        if origin.count() > 0 { Ok(()) } else { Err("not there") }
    });
    proxy.process.signal("TERM");
    let status = proxy.process.exit_status(SOON);
    let count = load.stop();
    assert_eq!((count.good, count.told_to_close, count.lost.len()), (1, 1, 0), "{count:?}");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn http2_callers_lose_nothing() {
    let curl = need!(programs::tool("curl"));
    let (origin, mut proxy, web) = start(Duration::from_secs(2));
    let url = format!("http://{web}/");
    let caller =
        std::thread::spawn(move || tests::curl::curl(&curl, &["--http2-prior-knowledge", &url]));
    until("the request is on its way", SOON, || {
        if origin.count() > 0 { Ok(()) } else { Err("not there") }
    });
    proxy.process.signal("TERM");
    let status = proxy.process.exit_status(SOON);
    let answer = caller.join().unwrap();
    assert_eq!(
        (answer.status, answer.text().as_str(), answer.exit),
        (200, "done", Some(0)),
        "{answer:?}"
    );
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_draining_proxy_is_not_ready_but_still_takes_calls() {
    let (origin, proxy, web) = start(Duration::from_secs(3));
    let load = Load::start(web, 1, WhenClosed::End);
    until("the request is on its way", SOON, || {
        if origin.count() > 0 { Ok(()) } else { Err("not there") }
    });
    proxy.process.signal("TERM");
    until("it is not ready", SOON, || match tests::http::get(proxy.admin, "/ready") {
        Ok((503, _)) => Ok(()),
        other => Err(other),
    });
    origin.script(|_| Answer::new(200, "new"));
    assert_eq!(tests::http::get(web, "/").unwrap(), (200, "new".to_owned()));
    assert_eq!(load.stop().lost, [""; 0]);
}
