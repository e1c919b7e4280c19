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
use tests::{http, need, ports};

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
    let mut demo = start_demo(folder.path());
    let targets = folder.path().join("report/targets.json");
    until("the demo names its targets", SOON, || {
        if targets.exists() { Ok(()) } else { Err(demo.log()) }
    });
    let server = start_prometheus(&prometheus, folder.path());
    demo.until_printed(LIMIT, |line| line.contains("Everything keeps running").then_some(()));

    let report = std::fs::read_to_string(folder.path().join("report/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let queries = queries(&demo.log());
    assert_eq!(queries.len(), 3, "{}", demo.log());
    let (success, cross) = (ask(server.1, &queries[0]), ask(server.1, &queries[1]));
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
    assert!(!ask(server.1, &queries[2]).is_empty(), "bytes across zones");
    assert!(folder.path().join("report/report.html").metadata().unwrap().len() > 10_000);
    demo.signal("INT");
    demo.exit_status(SOON);
}

fn start_demo(folder: &Path) -> Process {
    let mut command = Command::new(programs::demo());
    command
        .args([
            "--quick",
            "--plain",
            "--rate",
            "25",
            "--connections",
            "25",
            "--hold=2m",
            "--report",
        ])
        .arg(folder.join("report"));
    command.arg("--proxy").arg(programs::proxy());
    Process::start("demo", &command, folder)
}

fn start_prometheus(program: &Path, folder: &Path) -> (Process, SocketAddr) {
    let address = ports::free();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/prometheus.yml");
    let text = std::fs::read_to_string(config).unwrap();
    let targets = folder.join("report/targets.json");
    // The project's own file, with the report folder of this run.
    let lines = text.lines().map(|line| match line.find("target/demo/targets.json") {
        Some(_) => {
            line.replace("target/demo/targets.json", targets.to_str().unwrap()).replace("../", "")
        }
        None => line.to_owned(),
    });
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address={address}"));
    let process = Process::start("prometheus", &command, folder);
    until("Prometheus is ready", SOON, || match http::get(address, "/-/ready") {
        Ok((200, _)) => Ok(()),
        other => Err(other),
    });
    (process, address)
}

/// The `PromQL` lines that the demo printed: each follows a comment.
fn queries(log: &str) -> Vec<String> {
    let lines: Vec<_> = log.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[0].trim_start().starts_with("# "));
    pairs.map(|pair| pair[1].trim().to_owned()).filter(|line| line.contains("tidegate_")).collect()
}

/// Asks Prometheus; values by policy and client zone.
fn ask(server: SocketAddr, query: &str) -> BTreeMap<(String, String), f64> {
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
    let (status, text) = http::get(server, &format!("/api/v1/query?query={encoded}")).unwrap();
    assert_eq!(status, 200, "{text}");
    let text =
        text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to)).unwrap();
    let answer: Value = serde_json::from_str(text).unwrap();
    let series = answer["data"]["result"].as_array().unwrap().iter();
    let label =
        |series: &Value, name: &str| series["metric"][name].as_str().unwrap_or_default().to_owned();
    series
        .map(|series| {
            let value = series["value"][1].as_str().unwrap().parse().unwrap();
            ((label(series, "policy"), label(series, "src_zone")), value)
        })
        .collect()
}
