//! The promise of the project on real processes: traffic stays in its zone while the zone works, and only then.
#![expect(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::time::Duration;
use tests::backend::Backend;
use tests::deadline::{spread, until};
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{http, ports};

const ZONES: [&str; 3] = ["a", "b", "c"];

struct Setup {
    local: Vec<Backend>,
    _remote: Vec<Backend>,
    proxy: Proxy,
    web: std::net::SocketAddr,
}

/// Nine backends in three zones and a proxy in zone a with a policy.
fn start(policy: &str) -> Setup {
    let web = ports::free();
    let mut topology = Topology::zone("a").listener(web, "web").service("web", policy);
    let mut backends = Vec::new();
    for zone in ZONES {
        for _ in 0..3 {
            let backend = Backend::start(zone, "5ms");
            topology = topology.endpoint(backend.address, zone);
            backends.push(backend);
        }
    }
    let proxy = Proxy::start(&topology);
    let remote = backends.split_off(3);
    Setup { local: backends, _remote: remote, proxy, web }
}

impl Setup {
    /// Requests at 100 a second; how many succeeded.
    fn run(&self, seconds: u64) -> u32 {
        let mut good = 0;
        let count = u32::try_from(seconds * 100).unwrap();
        spread(count, Duration::from_secs(seconds), |_| {
            good += u32::from(http::get(self.web, "/").is_ok_and(|(status, _)| status == 200));
        });
        good
    }

    fn switch_zone(&self, query: &str) {
        self.local.iter().for_each(|backend| backend.switch(query));
    }

    fn requests(&self, labels: &[(&str, &str)]) -> f64 {
        self.proxy.metrics().sum("tidegate_requests_total", labels)
    }
}

#[test]
fn a_failing_zone_costs_next_to_nothing_and_traffic_comes_home() {
    let setup = start("");
    setup.run(10);
    let before = setup.requests(&[("dst_zone", "a")]);
    setup.run(5);
    let local = setup.requests(&[("dst_zone", "a")]) - before;
    assert!(local > 490.0, "a healthy zone serves its own calls: {local} of 500");

    setup.switch_zone("fail-percent=100");
    let good = setup.run(8);
    assert!(good >= 780, "{good} of 800 succeeded while the zone failed");

    setup.switch_zone("reset");
    until("traffic is local again", Duration::from_mins(1), || {
        let before = (setup.requests(&[("dst_zone", "a")]), setup.requests(&[]));
        setup.run(2);
        let local = setup.requests(&[("dst_zone", "a")]) - before.0;
        let share = local / (setup.requests(&[]) - before.1);
        if share > 0.99 { Ok(()) } else { Err(share) }
    });
}

#[test]
fn strict_pinning_fails_with_its_zone() {
    let setup = start("policy = { mode = \"Pinned\", tiers = [\"zone\"] }");
    assert_eq!(setup.run(2), 200);
    setup.switch_zone("fail-percent=100");
    let good = setup.run(3);
    assert_eq!(good, 0, "strict pinning has nowhere else to go");
    let elsewhere = setup.requests(&[("dst_zone", "b")]) + setup.requests(&[("dst_zone", "c")]);
    assert!(elsewhere < 0.5, "{elsewhere} requests left the zone");
}

#[test]
fn crashed_backends_are_survived() {
    let mut setup = start("");
    setup.run(10);
    setup.local.iter_mut().for_each(|backend| backend.process.kill());
    let good = setup.run(6);
    assert!(good >= 590, "{good} of 600 succeeded while the zone was down");
}
