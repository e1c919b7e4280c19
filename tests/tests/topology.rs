//! The topology file: a bad one at start, and changes while the proxy runs.

use std::process::Command;
use std::time::Duration;
use tests::deadline::{SOON, until};
use tests::folder::Folder;
use tests::origin::Origin;
use tests::process::Process;
use tests::proxy::Proxy;
use tests::topology::Topology;
use tests::{http, ports, programs};

#[test]
fn a_bad_topology_ends_with_status_2_and_every_mistake() {
    let folder = Folder::new();
    let text = "[proxy]\nzoen = \"a\"\n[[listener]]\naddress = \"here\"\n[[listener]]\naddress = \"127.0.0.1:0\"\nservice = \"wep\"\n\
        [[service]]\nname = \"web\"\nprotocol = \"http3\"\n[service.policy]\nmode = \"Adaptve\"\n\
        load = { low = 3.0, high = 2.0 }\n[[service.endpoint]]\naddress = \"127.0.0.1\"\n";
    let file = folder.write("topology.toml", text);
    let mut command = Command::new(programs::proxy());
    command.arg("--topology").arg(file).args(["--admin", "127.0.0.1:0"]);
    let mut process = Process::start("proxy", &command, folder.path());
    let status = process.exit_status(SOON);
    let log = process.log();
    assert_eq!(status.code(), Some(2), "{log}");
    for mistake in ["zoen", "\"here\"", "\"wep\"", "http3", "Adaptve", "load", "\"127.0.0.1\""] {
        assert!(log.contains(mistake), "{mistake} is not told:\n{log}");
    }
    for line in ["line 2", "line 4", "line 7", "line 10", "line 12", "line 13", "line 15"] {
        assert!(log.contains(line), "{line} is not told:\n{log}");
    }
}

#[test]
fn a_missing_topology_ends_with_status_2_and_its_name() {
    let folder = Folder::new();
    let mut command = Command::new(programs::proxy());
    command.args(["--topology", "no-such-file.toml", "--admin", "127.0.0.1:0"]);
    let mut process = Process::start("proxy", &command, folder.path());
    assert_eq!(process.exit_status(SOON).code(), Some(2), "{}", process.log());
    assert!(process.log().contains("no-such-file.toml"), "{}", process.log());
}

struct Changing {
    origins: [Origin; 2],
    topology: Topology,
    web: std::net::SocketAddr,
    proxy: Proxy,
}

fn changing() -> Changing {
    let origins = [Origin::named("one"), Origin::named("two")];
    let web = ports::free();
    let topology = Topology::zone("a").listener(web, "web").service("web", "");
    let proxy = Proxy::start(&topology.clone().endpoint(origins[0].address, "a"));
    Changing { origins, topology, web, proxy }
}

impl Changing {
    /// Asks until the answer is the wanted one.
    fn until_answer(&self, wanted: &str) {
        until(&format!("the answer is {wanted}"), SOON, || match http::get(self.web, "/") {
            Ok((200, body)) if body == wanted => Ok(()),
            other => Err(other),
        });
    }
}

#[test]
fn a_changed_file_takes_effect_and_removed_endpoints_get_nothing_more() {
    let changing = changing();
    changing.until_answer("one");
    changing.proxy.write_topology(
        &changing.topology.clone().endpoint(changing.origins[1].address, "a").text(),
    );
    changing.until_answer("two");
    changing.origins[0].take_seen();
    for _ in 0..50 {
        assert_eq!(http::get(changing.web, "/").unwrap().1, "two");
    }
    assert_eq!(changing.origins[0].count(), 0);
    assert!(changing.proxy.metrics().sum("tidegate_discovery_updates_total", &[]) > 0.5);
}

#[test]
fn a_broken_file_keeps_the_last_good_one_and_says_so() {
    let mut changing = changing();
    changing.proxy.write_topology("[[service]]\nname = 5\n");
    until("the error is counted", SOON, || {
        let errors = changing.proxy.metrics().sum("tidegate_discovery_errors_total", &[]);
        if errors > 0.5 { Ok(()) } else { Err(errors) }
    });
    let found = changing
        .proxy
        .process
        .until_printed(SOON, |line| line.contains("line 2").then(|| line.to_owned()));
    assert!(found.contains("name"), "{found}");
    changing.until_answer("one");
    assert!(changing.proxy.metrics().sum("tidegate_discovery_up", &[]) < 0.5);
    changing.proxy.write_topology(
        &changing.topology.clone().endpoint(changing.origins[1].address, "a").text(),
    );
    changing.until_answer("two");
    assert!(changing.proxy.metrics().sum("tidegate_discovery_up", &[]) > 0.5);
}

#[test]
fn a_change_of_the_file_takes_effect_within_the_promised_second() {
    let changing = changing();
    changing.until_answer("one");
    changing.proxy.write_topology(
        &changing.topology.clone().endpoint(changing.origins[1].address, "a").text(),
    );
    // Promised is one second; a busy machine gets a few more.
    until("the second origin answers", Duration::from_secs(5), || {
        match http::get(changing.web, "/") {
            Ok((200, body)) if body == "two" => Ok(()),
            other => Err(other),
        }
    });
}

#[test]
fn a_policy_change_is_live() {
    let changing = changing();
    let mode = |changing: &Changing| {
        let service = changing.proxy.service("web").unwrap();
        service
            .get("policy")
            .and_then(|policy| policy.get("mode"))
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(mode(&changing), "Adaptive");
    let pinned = Topology::zone("a")
        .listener(changing.web, "web")
        .service("web", "policy.mode = \"Pinned\"");
    changing.proxy.write_topology(&pinned.endpoint(changing.origins[0].address, "a").text());
    until("the mode is Pinned", SOON, || {
        let mode = mode(&changing);
        if mode == "Pinned" { Ok(()) } else { Err(mode) }
    });
    changing.until_answer("one");
}
