//! The demo as users run it, with a real Prometheus beside it.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test stops at its first surprise"
)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tests::deadline::{SOON, until};
use tests::folder::Folder;
use tests::process::Process;
use tests::programs::{self, tool};
use tests::{need, ports};

/// The quick demo takes 75 s; the rest is for a busy machine.
const LIMIT: Duration = Duration::from_mins(4);

/// In shares.
const TOLERANCE: f64 = 0.01;

#[test]
fn the_demos_help_names_its_faults() {
    let output = Command::new(programs::demo()).arg("--help").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("zone-down") && text.contains("--quick"),
        "{text}"
    );
}

/// One run, since it takes more than a minute: the report is complete, and a Prometheus that scraped it says the same.
#[test]
#[ignore = "takes two minutes and a machine that keeps up: cargo xtask soak demo"]
fn prometheus_agrees_with_the_report() {
    let prometheus = need!(tool("prometheus"));
    let folder = Folder::new();
    let mut demo = start_demo(folder.path(), &["--quick"]);
    let targets = folder.path().join("report/targets.json");
    until("the demo names its targets", SOON, || {
        if targets.exists() { Ok(()) } else { Err(demo.log()) }
    });
    let server = Prometheus::start(&prometheus, folder.path(), None);
    demo.until_printed(LIMIT, |line| line.contains("Everything keeps running").then_some(()));

    let report = std::fs::read_to_string(folder.path().join("report/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let queries = queries(&demo.log());
    assert_eq!(queries.len(), 3, "{}", demo.log());
    let (success, cross) = (server.ask(&queries[0]), server.ask(&queries[1]));
    let mut compared = 0;
    for run in report["runs"].as_array().unwrap() {
        let policy = run["policy"].as_str().unwrap();
        let fault = run["phases"]
            .as_array()
            .unwrap()
            .iter()
            .find(|phase| phase["name"] == "fault")
            .unwrap();
        for (zone, told) in fault["zones"].as_object().unwrap() {
            let key = (policy.to_owned(), zone.clone());
            for (what, measured) in [("success", &success), ("cross_zone", &cross)] {
                let told = told[what].as_f64().unwrap();
                let measured = measured.get(&key).copied().unwrap_or(f64::NAN);
                assert!(
                    (told - measured).abs() <= TOLERANCE,
                    "{what} of {key:?}: report {told}, Prometheus {measured}"
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 12, "two policies, three zones, two figures");
    assert!(!server.ask(&queries[2]).is_empty(), "bytes across zones");
    assert!(folder.path().join("report/report.html").metadata().unwrap().len() > 10_000);
    demo.signal("INT");
    demo.exit_status(SOON);
}

/// The whole demo in network namespaces, with redirected connections, and the recording rules of the chart beside it: over the
/// minute of the fault they say what the report says.
#[test]
#[ignore = "takes three minutes, root, and a machine that keeps up: cargo xtask soak namespaces"]
fn recording_rules_agree_with_the_report_of_redirected_calls() {
    let prometheus = need!(tool("prometheus"));
    let folder = Folder::new();
    let mut demo = start_demo(folder.path(), &["--namespaces", "--policy", "adaptive"]);
    let targets = folder.path().join("report/targets.json");
    until("the demo names its targets", SOON, || {
        if targets.exists() { Ok(()) } else { Err(demo.log()) }
    });
    let server = Prometheus::start(&prometheus, folder.path(), Some(demo.id()));
    demo.until_printed(LIMIT, |line| line.contains("Everything keeps running").then_some(()));

    let report = std::fs::read_to_string(folder.path().join("report/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let phases = report["runs"][0]["phases"].as_array().unwrap();
    let fault = phases.iter().find(|phase| phase["name"] == "fault").unwrap();
    let query = &queries(&demo.log())[0];
    let heal: f64 = query.rsplit("@ ").next().unwrap().trim_end_matches(')').parse().unwrap();
    // The rules look back a minute, which is how long the fault lasts: what they say is highest when the two coincide.
    let around = |rule: &str| format!("max_over_time({rule}[10s] @ {})", heal + 5.0);
    let success = server.ask(&around("src_zone:tidegate_success:ratio_rate1m"));
    let cross = server.ask(&around("src_zone:tidegate_cross_zone:ratio_rate1m"));
    for zone in ["a", "b", "c"] {
        let key = (String::new(), zone.to_owned());
        for (what, measured) in [("success", &success), ("cross_zone", &cross)] {
            let told = fault["zones"][zone][what].as_f64().unwrap();
            let measured = measured[&key];
            println!("{what} of zone {zone}: report {told:.4}, rules {measured:.4}");
            assert!((told - measured).abs() <= TOLERANCE, "{what} of zone {zone}");
        }
    }
    let cost = server.ask(&around("service:tidegate_cross_zone_cost:dollars_per_hour"));
    let measured = cost.values().sum::<f64>();
    let told = fault["cross_zone_bytes"].as_f64().unwrap() / 60.0 * 3600.0 / GIB * 0.02;
    println!("dollars an hour across zones: report {told:.6}, rules {measured:.6}");
    assert!((told - measured).abs() <= told * TOLERANCE, "money");
    demo.signal("INT");
    demo.exit_status(SOON);
}

const GIB: f64 = 1_073_741_824.0;

fn start_demo(folder: &Path, arguments: &[&str]) -> Process {
    let mut command = Command::new(programs::demo());
    command
        .args(arguments)
        .args(["--plain", "--rate", "25", "--connections", "25", "--hold=2m", "--report"])
        .arg(folder.join("report"));
    command.arg("--proxy").arg(programs::proxy());
    Process::start("demo", &command, folder)
}

/// A Prometheus, in the network of a process or in this one.
struct Prometheus {
    #[expect(dead_code, reason = "held for its drop")]
    process: Process,
    address: SocketAddr,
    network: Option<u32>,
}

fn command_in(network: Option<u32>, program: &Path) -> Command {
    match network {
        None => Command::new(program),
        Some(process) => {
            let mut command = Command::new("nsenter");
            command.arg(format!("--net=/proc/{process}/ns/net")).arg(program);
            command
        }
    }
}

impl Prometheus {
    fn start(program: &Path, folder: &Path, network: Option<u32>) -> Self {
        let address = ports::free();
        let shipped = |file: &str| {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
            std::fs::read_to_string(Path::new(path).join(file)).unwrap()
        };
        // The chart's own rules, looked at each second, so that one look is at the end of the fault.
        let rules =
            shipped("charts/tidegate/rules/tidegate.yaml").replace("interval: 5s", "interval: 1s");
        std::fs::write(folder.join("rules.yml"), rules).unwrap();
        let targets = folder.join("report/targets.json");
        // The project's own file, with the report folder of this run.
        let text = shipped("demo/prometheus.yml");
        let lines = text.lines().map(|line| match line.find("target/demo/targets.json") {
            Some(_) => line
                .replace("target/demo/targets.json", targets.to_str().unwrap())
                .replace("../", ""),
            None => line.to_owned(),
        });
        let file = folder.join("prometheus.yml");
        let config = lines.collect::<Vec<_>>().join("\n") + "\nrule_files: [rules.yml]\n";
        std::fs::write(&file, config).unwrap();
        let mut command = command_in(network, program);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let process = Process::start("prometheus", &command, folder);
        let server = Self { process, address, network };
        until("Prometheus is ready", SOON, || match server.get("/-/ready") {
            (true, _) => Ok(()),
            (false, text) => Err(text),
        });
        server
    }

    /// Whether it answered well, and what.
    fn get(&self, path: &str) -> (bool, String) {
        let url = format!("http://{}{path}", self.address);
        let mut command = command_in(self.network, &tool("curl").unwrap());
        let output = command.args(["-sS", "--fail", &url]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Asks; values by policy and client zone.
    fn ask(&self, query: &str) -> BTreeMap<(String, String), f64> {
        let encoded: String = query
            .bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect();
        let (good, text) = self.get(&format!("/api/v1/query?query={encoded}"));
        assert!(good, "{query}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        let series = answer["data"]["result"].as_array().unwrap().iter();
        let label = |series: &Value, name: &str| {
            series["metric"][name].as_str().unwrap_or_default().to_owned()
        };
        series
            .map(|series| {
                let value = series["value"][1].as_str().unwrap().parse().unwrap();
                ((label(series, "policy"), label(series, "src_zone")), value)
            })
            .collect()
    }
}

/// The `PromQL` lines that the demo printed: each follows a comment.
fn queries(log: &str) -> Vec<String> {
    let lines: Vec<_> = log.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[0].trim_start().starts_with("# "));
    pairs.map(|pair| pair[1].trim().to_owned()).filter(|line| line.contains("tidegate_")).collect()
}
