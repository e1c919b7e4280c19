//! `--hold`: everything goes on, for looking around with oha, curl and Prometheus.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::arguments::RunArguments;
use crate::clock::{Clock, Deadline};
use crate::fault::FAULTY_ZONE;
use crate::policy::{Policy, SERVICE, ZONES};
use crate::run::say;
use crate::timeline::Timeline;
use crate::world::{Proxy, RunningLoad, World, write_atomically};

/// Writes the scrape targets that `demo/prometheus.yml` reads, and gives the file.
pub(crate) fn write_targets(world: &World, arguments: &RunArguments) -> anyhow::Result<PathBuf> {
    let target = |proxy: &Proxy| {
        json!({
            "targets": [proxy.admin.to_string()],
            "labels": {"policy": proxy.policy.name(), "zone": proxy.zone},
        })
    };
    let targets: Vec<_> = world.proxies.iter().map(target).collect();
    let file = arguments.report.join("targets.json");
    write_atomically(&file, &serde_json::to_string_pretty(&targets)?)?;
    Ok(file)
}

/// What to do before the fault, so that Prometheus sees all of it.
pub(crate) fn before(targets: &Path) -> String {
    format!(
        "Scrape targets: {}. To see the run in Prometheus, start it now, in the project's folder:\n  \
         prometheus --config.file=demo/prometheus.yml --storage.tsdb.path=target/demo/prometheus",
        targets.display()
    )
}

/// Ports, ready commands and the queries that agree with the report.
pub(crate) fn text(
    world: &World,
    arguments: &RunArguments,
    timeline: &Timeline,
    clock: Clock,
) -> String {
    let mut lines = vec![String::new(), "Everything keeps running. Backends:".to_owned()];
    lines.extend(
        world.backends().map(|(zone, address)| {
            format!("  zone {zone}  http://{address}/  (switch: /_control)")
        }),
    );
    lines.push("Proxies (service web, forward listener, admin):".to_owned());
    lines.extend(world.proxies.iter().map(|proxy| {
        let Proxy { policy, zone, listen, forward, admin, .. } = proxy;
        format!(
            "  {:9} zone {zone}  http://{listen}/  http_proxy={forward}  http://{admin}/metrics",
            policy.name()
        )
    }));
    if let Some(proxy) = shown(world) {
        lines.push("A request, and a load, of your own:".to_owned());
        lines.extend(own_calls(world.program(), proxy.listen, arguments.rate));
    }
    lines.push(format!(
        "The fault in PromQL, as in the report (Prometheus with demo/prometheus.yml, fault {}):",
        arguments.fault
    ));
    let heal = clock.origin_unix() + Duration::from_secs(u64::from(timeline.heal));
    let span = timeline.heal - timeline.fault;
    lines.extend(queries(span, Some(heal)).map(|(what, query)| format!("  # {what}\n  {query}")));
    lines.push("Without ` @ ...` they tell about now. Ctrl-C ends everything;".to_owned());
    let limit = arguments.hold.unwrap_or_default();
    lines.push(format!("it ends by itself after {}.", humantime::format_duration(limit)));
    lines.join("\n")
}

/// Commands that work as they stand.
fn own_calls(program: &Path, listen: SocketAddr, rate: u32) -> [String; 2] {
    [
        format!(
            "  curl -i -o /dev/null -s -w '%{{http_code}} in %{{time_total}} s\\n' http://{listen}/"
        ),
        format!(
            "  {} load -- --no-tui -z 10s -q {rate} -c 50 -t 2s http://{listen}/",
            program.display()
        ),
    ]
}

fn shown(world: &World) -> Option<&Proxy> {
    let of_zone = || world.proxies.iter().filter(|proxy| proxy.zone == FAULTY_ZONE);
    of_zone().find(|proxy| proxy.policy == Policy::Adaptive).or_else(|| of_zone().next())
}

/// Success rate by client zone, cross-zone share and cross-zone bytes, over `seconds` until `end` or now.
///
/// What crosses is counted as all less what stays, since a proxy that never crossed has no series that says so.
fn queries(seconds: u32, end: Option<Duration>) -> [(&'static str, String); 3] {
    let at = end.map(|end| format!(" @ {:.3}", end.as_secs_f64())).unwrap_or_default();
    let increase = |metric: &str, labels: &str| {
        format!("increase({metric}{{service=\"{SERVICE}\"{labels}}}[{seconds}s]{at})")
    };
    let requests = |labels: &str| {
        increase("tidegate_requests_total", &format!(",direction=\"outbound\"{labels}"))
    };
    let bytes = |labels: &str| increase("tidegate_zone_bytes_total", labels);
    let local = |series: &dyn Fn(&str) -> String| {
        ZONES.map(|zone| series(&format!(",src_zone=\"{zone}\",dst_zone=\"{zone}\""))).join(" or ")
    };
    let sum = |series: &str| format!("sum by (policy, src_zone) ({series})");
    let placed = requests(",dst_zone=~\"a|b|c\"");
    [
        (
            "success rate by client zone",
            format!("{} / {}", sum(&requests(",class=\"success\"")), sum(&requests(""))),
        ),
        (
            "cross-zone share by client zone",
            format!("1 - {} / {}", sum(&local(&requests)), sum(&placed)),
        ),
        (
            "cross-zone bytes by client zone",
            format!("{} - {}", sum(&bytes("")), sum(&local(&bytes))),
        ),
    ]
}

/// Waits for the limit. What is ended by hand meanwhile is said, and the rest goes on.
pub(crate) async fn until_over(
    world: &mut World,
    mut loads: Vec<RunningLoad>,
    limit: Duration,
) -> anyhow::Result<()> {
    let over = Deadline::within(limit);
    while !over.is_over() {
        for ended in world.ended() {
            say(&format!("{ended:#}\nThe rest keeps running."))?;
        }
        loads.retain_mut(|load| load.process.ended().is_none());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_that_is_shown_is_one_that_this_program_takes() {
        use clap::Parser as _;
        let calls = own_calls(Path::new("/x/demo"), ([127, 0, 0, 1], 8080).into(), 100);
        let words: Vec<&str> = calls[1].split_whitespace().collect();
        let parsed = crate::arguments::Cli::try_parse_from(&words).unwrap().command;
        assert!(matches!(parsed, Some(crate::arguments::Command::Load(_))), "{words:?}");
        let separator = words.iter().position(|word| *word == "--").unwrap();
        oha::Opts::try_parse_from(&words[separator..]).unwrap();
    }

    #[test]
    fn queries_are_about_a_span_and_a_moment() {
        let [success, share, bytes] = queries(60, Some(Duration::from_millis(1_700_000_090_500)));
        assert_eq!(
            success.1,
            "sum by (policy, src_zone) (increase(tidegate_requests_total{service=\"web\",direction=\"outbound\",\
             class=\"success\"}[60s] @ 1700000090.500)) / sum by (policy, src_zone) \
             (increase(tidegate_requests_total{service=\"web\",direction=\"outbound\"}[60s] @ 1700000090.500))"
        );
        assert!(share.1.contains("src_zone=\"c\",dst_zone=\"c\"}[60s]"), "{}", share.1);
        assert!(
            bytes.1.starts_with("sum by (policy, src_zone) (increase(tidegate_zone_bytes_total"),
            "{}",
            bytes.1
        );
        assert!(!queries(60, None)[0].1.contains('@'));
    }
}
