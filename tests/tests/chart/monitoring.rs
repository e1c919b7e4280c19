//! What dashboards and rules ask for exists, and the rules reckon right.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use tests::chart::{objects, of_kind, project, read, rendered};
use tests::need;
use tests::programs::{self, tool};

const RULES: &str = "charts/tidegate/rules/tidegate.yaml";
const DASHBOARD: &str = "charts/tidegate/dashboards/tidegate.json";

/// The names in a text that look like metrics of ours.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    text.split(|letter| !is_part(letter)).filter(|word| word.contains("tidegate_")).collect()
}

/// The metrics that the proxies' documentation has; of a histogram, also what Prometheus makes of it.
fn documented() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in read("docs/metrics.md").lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let name = cells.next().unwrap().trim_matches('`').to_owned();
        if cells.next() == Some("histogram") {
            names.extend(["bucket", "count", "sum"].map(|part| format!("{name}_{part}")));
        }
        names.insert(name);
    }
    assert!(names.len() > 20, "{names:?}");
    names
}

/// Every query of the dashboard.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_metric_that_is_asked_for_is_documented() {
    let documented = documented();
    let rules = read(RULES);
    let recorded: BTreeSet<&str> =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    assert!(recorded.len() >= 10, "{recorded:?}");
    let expressions: String = rules
        .lines()
        .filter(|line| {
            !line.trim().starts_with('#') && !line.contains("record:") && !line.contains("name:")
        })
        .collect::<Vec<_>>()
        .join("\n");
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let asked = queries(&dashboard).join("\n");
    for name in metrics(&expressions).into_iter().chain(metrics(&asked)) {
        assert!(
            documented.contains(name) || recorded.contains(name),
            "{name} is not in docs/metrics.md"
        );
    }
    for name in [
        "tidegate_requests_total",
        "tidegate_zone_bytes_total",
        "tidegate_load",
        "tidegate_load_band",
        "tidegate_endpoints",
        "tidegate_picks_total",
    ] {
        assert!(metrics(&asked).contains(name), "the dashboard shows {name}");
    }
}

#[test]
fn the_demo_has_the_same_rules_and_dashboard() {
    assert!(read(RULES) == read("demo/kubernetes/prometheus/rules.yml"), "copy {RULES} there");
    assert!(
        read(DASHBOARD) == read("demo/kubernetes/grafana/tidegate.json"),
        "copy {DASHBOARD} there"
    );
}

#[test]
fn the_rules_reckon_right() {
    let promtool = need!(tool("promtool"));
    for arguments in [["check", "rules", RULES], ["test", "rules", "tests/chart/rules_test.yml"]] {
        let output =
            Command::new(&promtool).args(arguments).current_dir(project(".")).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}

/// Prometheus itself parses each query, with Grafana's variables put in.
#[test]
fn every_query_of_the_dashboard_is_understood() {
    let promtool = need!(tool("promtool"));
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let rules: Vec<_> = queries(&dashboard)
        .iter()
        .enumerate()
        .map(|(index, query)| {
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$service", ".*")
                .replace("$price", "0.02");
            serde_json::json!({ "record": format!("query_{index}"), "expr": query })
        })
        .collect();
    let folder = tests::folder::Folder::new();
    let file = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let file = folder.write("queries.yml", &file.to_string());
    let output = Command::new(promtool).args(["check", "rules"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_price_reaches_the_operators_rules() {
    need!(programs::chart_tool("helm"));
    let set =
        ["--set", "monitoring.prometheusRule.enabled=true,monitoring.crossZoneDollarsPerGib=0.07"];
    let objects = objects(&rendered(None, &set));
    let rules = of_kind(&objects, "PrometheusRule")[0]["spec"]["groups"][0]["rules"].clone();
    let rules = rules.as_array().unwrap();
    let price = rules
        .iter()
        .find(|rule| rule["record"] == "tidegate_cross_zone_price:dollars_per_gib")
        .unwrap();
    assert_eq!(price["expr"], "vector(0.07)");
    assert_eq!(rules.len(), read(RULES).matches("record:").count());
}
