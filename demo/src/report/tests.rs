//! The report of a made-up run.

use clap::Parser as _;

use super::*;
use crate::arguments::Cli;
use crate::measure::tests::record;

fn made_up(arguments: &str) -> (Report, Vec<Record>) {
    let arguments =
        Cli::try_parse_from(std::iter::once("demo").chain(arguments.split_whitespace()))
            .unwrap()
            .run;
    let timeline = Timeline::FULL;
    let records: Vec<Record> = arguments
        .policies()
        .into_iter()
        .map(|policy| {
            let success = if policy == Policy::Pinned { 0.0 } else { 1.0 };
            let in_fault =
                |zone: &str, at| zone == "a" && (timeline.fault..timeline.heal).contains(&at);
            let mut record = record(policy, &timeline, |zone, at| {
                if in_fault(zone, at) { (success, 1.0 - success.min(0.5)) } else { (1.0, 0.0) }
            });
            record.zones[0].observed.decisions.push(Decision {
                number: 1,
                at: 31.25,
                change: "widen".to_owned(),
                reason: "failure".to_owned(),
                endpoint: None,
                detail: "share 1.00→0.62 <b>".to_owned(),
            });
            record
        })
        .collect();
    (Report::new(&arguments, &timeline, &records), records)
}

#[test]
fn the_json_has_its_promised_shape() {
    let (report, _) = made_up("");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["fault"], &json["verdict"]), (&"fast".into(), &"holds".into()));
    assert_eq!(
        json["timeline"],
        serde_json::json!({"baseline": 15, "fault": 30, "heal": 90, "end": 130})
    );
    let runs = json["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(|run| run["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["pinned", "adaptive"]);
    for run in runs {
        let phases = run["phases"].as_array().unwrap();
        let spans: Vec<_> = phases
            .iter()
            .map(|phase| (phase["name"].as_str().unwrap(), phase["seconds"].as_u64()))
            .collect();
        assert_eq!(spans, [("baseline", Some(15)), ("fault", Some(60)), ("recovery", Some(40))]);
        for zone in ["a", "b", "c"] {
            let figures = &phases[1]["zones"][zone];
            assert_eq!(figures["requests"], 6000);
            for share in
                ["success", "success_first_5s", "attempt_success", "cross_zone", "completed"]
            {
                assert!(
                    (0.0..=1.0).contains(&figures[share].as_f64().unwrap()),
                    "{share} of zone {zone}: {figures}"
                );
            }
            assert!(figures["p50_ms"].is_f64() && figures["p99_ms"].is_f64(), "{figures}");
        }
        assert_eq!(
            (&run["seconds_to_local"], &run["flaps"], &run["verdict"]),
            (&0.into(), &0.into(), &"holds".into())
        );
        assert_eq!(
            (&run["decisions"][0]["zone"], &run["decisions"][0]["at"]),
            (&"a".into(), &31.25.into())
        );
    }
}

#[test]
fn the_headline_says_what_each_policy_did() {
    assert_eq!(
        made_up("").0.headline,
        "While zone a failed, strict zone pinning answered 0 % of its callers’ requests; Tidegate answered 100 %."
    );
    assert_eq!(
        made_up("--policy p2c").0.headline,
        "While zone a failed, balancing without zones answered 100 %."
    );
}

#[test]
fn the_table_has_a_row_for_each_policy_phase_and_zone_and_the_verdict() {
    let table = table(&made_up("--policy pinned,adaptive,p2c,hazl").0);
    assert_eq!(
        table.lines().filter(|line| line.contains(" %") && line.contains(" ms")).count(),
        4 * 3 * 3
    );
    assert!(
        table.contains("ok      success of zone a's callers in the fault: 100 % (wanted ≥ 99.9 %)"),
        "{table}"
    );
    assert!(table.ends_with("All that is promised for this fault holds."), "{table}");
}

#[test]
fn a_bad_baseline_is_a_reason_for_caution() {
    assert_eq!(made_up("").0.caution, None);
    let arguments = Cli::try_parse_from(["demo"]).unwrap().run;
    let busy =
        record(
            Policy::Pinned,
            &Timeline::FULL,
            |_, at| if at < 30 { (0.5, 0.0) } else { (1.0, 0.0) },
        );
    let report = Report::new(&arguments, &Timeline::FULL, std::slice::from_ref(&busy));
    assert!(report.caution.as_ref().unwrap().contains("Only 50 %"), "{:?}", report.caution);
    assert!(
        table(&report).contains("too busy") && html::page(&report, &[busy]).contains("too busy")
    );
}

#[test]
fn the_page_needs_no_network_and_escapes_what_proxies_say() {
    let (report, records) = made_up("--policy pinned,adaptive,p2c,hazl");
    let page = html::page(&report, &records);
    for foreign in ["http://", "https://", "<link", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("share 1.00→0.62 &lt;b&gt;"));
    assert_eq!(page.matches("<svg").count(), 4 * 4);
    assert!(page.contains(&report.headline.replace(" %", "\u{a0}%")));
    for (open, close) in [
        ("<section", "</section>"),
        ("<figure", "</figure>"),
        ("<table", "</table>"),
        ("<div", "</div>"),
    ] {
        assert_eq!(page.matches(open).count(), page.matches(close).count(), "{open}");
    }
}
