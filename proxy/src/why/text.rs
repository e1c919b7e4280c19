//! The explanation as text.

use super::words;
use crate::admin::debug::{
    DecisionView, EndpointView, LatencyView, NumbersView, ProxyView, ServiceView,
};
use crate::admin::discovery::{ControllerView, DiscoveryView};
use std::fmt::Write as _;

/// Decisions shown, the newest first.
const DECISIONS: usize = 10;

/// Explains one service as the proxy sees it.
pub fn explain(proxy: &ProxyView, discovery: &DiscoveryView, service: &ServiceView) -> String {
    let mut lines = vec![headline(proxy, service)];
    let (meaning, advice) = words::of_reason(&service.reason);
    lines.push(format!("Because: {meaning} ({})", service.reason));
    if !advice.is_empty() {
        lines.push(format!("         {advice}"));
    }
    lines.push(String::new());
    lines.extend(facts(service));
    lines.extend(discovery.controller.as_ref().map(source));
    lines.push(String::new());
    lines.extend(endpoints(&service.endpoints));
    lines.push(String::new());
    lines.extend(decisions(&service.decisions));
    let mut text = String::new();
    for line in lines {
        let written = writeln!(text, "{}", line.trim_end());
        debug_assert!(written.is_ok(), "a string takes all");
    }
    text
}

fn headline(proxy: &ProxyView, service: &ServiceView) -> String {
    let remote = |endpoint: &&EndpointView| endpoint.locality == "remote" && endpoint.active;
    let (share, remotes) = (service.numbers.share, service.endpoints.iter().filter(remote).count());
    let name = &service.name;
    let Some(zone) =
        proxy.zone.as_ref().filter(|_| !matches!(service.reason.as_str(), "off" | "panic"))
    else {
        return format!("{name}: requests go to all zones alike.");
    };
    if service.endpoints.is_empty() {
        return format!("{name}: there is nowhere to send requests from zone {zone}.");
    }
    if share >= 1.0 {
        return format!("{name}: requests from zone {zone} stay in their zone.");
    }
    if share <= 0.0 {
        return format!(
            "{name}: all requests from zone {zone} leave it, to {}.",
            counted(remotes, "endpoint")
        );
    }
    format!(
        "{name}: of the requests from zone {zone}, about {:.0} % leave it, to {}.",
        (1.0 - share) * 100.0,
        counted(remotes, "endpoint")
    )
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// One line for each thing that decides.
fn facts(service: &ServiceView) -> Vec<String> {
    let NumbersView {
        valve,
        failure_cap,
        capacity,
        load,
        load_lower,
        baseline_ms,
        local_failure,
        remote_failure,
        ..
    } = service.numbers;
    let band = &service.load_band;
    let baseline =
        baseline_ms.map_or_else(|| "not known yet".to_owned(), |ms| format!("{ms:.0} ms"));
    let mut lines = vec![
        format!("Policy    {}, {}", policy(service), policy_source(service)),
        format!(
            "Load      {load:.2}, surely {:.2}; opens above {}, closes below {} ({})",
            load_lower.max(0.0),
            band.high,
            band.low,
            band.signal
        ),
        format!("Latency   {baseline} when nothing queues{}", latency(service)),
        format!(
            "Failures  here {:.1} %, elsewhere {:.1} %",
            local_failure * 100.0,
            remote_failure * 100.0
        ),
        format!(
            "Limits    the smallest wins: load valve {}, failure cap {}, capacity floor {}",
            percent(valve),
            percent(failure_cap),
            percent(capacity)
        ),
        format!("Retries   {:.1} left in the budget", service.retry_tokens),
    ];
    if service.hold_ms > 0.0 {
        lines.push(format!("Hold      no crossing for another {:.0} s", service.hold_ms / 1000.0));
    }
    lines
}

/// Quantiles of what was seen lately, where there was something.
fn latency(service: &ServiceView) -> String {
    let of = |place: &str, seen: Option<LatencyView>| {
        seen.map_or_else(String::new, |LatencyView { p50_ms, p99_ms, .. }| {
            format!("; {place} lately p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms")
        })
    };
    of("here", service.latency_local) + &of("elsewhere", service.latency_remote)
}

/// How it stands with the controller that told all this.
fn source(controller: &ControllerView) -> String {
    let lasts = ago(controller.seconds);
    match (&controller.replica, &controller.last_failure) {
        (Some(replica), _) => {
            format!("Source    the controller at {replica}, connected for {lasts}")
        }
        (None, Some(failure)) => format!(
            "Source    the controller, which is away for {lasts}; what it said stays in force ({failure})"
        ),
        (None, None) => format!("Source    the controller, tried for {lasts}"),
    }
}

/// Where the policy came from, with the object that holds it.
fn policy_source(service: &ServiceView) -> String {
    let source = words::of_source(&service.policy_source);
    match &service.policy_object {
        Some(object) => format!("{source} ({object})"),
        None => source.to_owned(),
    }
}

fn policy(service: &ServiceView) -> String {
    let mode = service.policy.mode.map_or_else(|| "?".to_owned(), |mode| format!("{mode:?}"));
    let tiers =
        service.policy.tiers.iter().flatten().map(|tier| format!("{tier:?}").to_lowercase());
    format!("{mode}, {}", tiers.collect::<Vec<_>>().join(" then "))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn endpoints(endpoints: &[EndpointView]) -> Vec<String> {
    let heads =
        ["ENDPOINT", "ZONE", "TIER", "STATE", "USED", "WAITING", "LOAD", "OK", "LATENCY", "PICKS"];
    let mut rows = vec![heads.map(str::to_owned)];
    let mut sorted: Vec<&EndpointView> = endpoints.iter().collect();
    sorted.sort_by_key(|endpoint| (endpoint.tier, &endpoint.zone, endpoint.address));
    rows.extend(sorted.into_iter().map(row));
    columns(&rows)
}

fn row(endpoint: &EndpointView) -> [String; 10] {
    let mut state = endpoint.state.clone();
    if endpoint.probe_in_ms > 0.0 {
        state = format!("{state}, probe in {:.1} s", endpoint.probe_in_ms / 1000.0);
    }
    [
        endpoint.address.to_string(),
        endpoint.zone.clone().unwrap_or_else(|| "-".to_owned()),
        endpoint.tier.to_string(),
        state,
        if endpoint.active { "yes" } else { "no" }.to_owned(),
        endpoint.outstanding.to_string(),
        format!("{:.2}", endpoint.load),
        percent(endpoint.success_rate),
        endpoint.latency_ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1} ms")),
        endpoint.picks.to_string(),
    ]
}

/// Probes are told by what they lead to: an endpoint ejected again, or restored.
fn decisions(decisions: &[DecisionView]) -> Vec<String> {
    let told = |decision: &&DecisionView| !matches!(decision.change.as_str(), "probe" | "probed");
    let told: Vec<&DecisionView> = decisions.iter().filter(told).collect();
    if told.is_empty() {
        return vec!["No decisions so far.".to_owned()];
    }
    let mut rows = vec![["AGO", "CHANGE", "REASON", "DETAIL"].map(str::to_owned)];
    for decision in told.into_iter().rev().take(DECISIONS) {
        let endpoint = decision.endpoint.map_or_else(String::new, |address| format!("{address}: "));
        rows.push([
            ago(decision.seconds_ago),
            decision.change.clone(),
            decision.reason.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{endpoint}{}", decision.detail),
        ]);
    }
    columns(&rows)
}

fn ago(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.1} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Rows as lines, each column as wide as its widest cell.
fn columns<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}
