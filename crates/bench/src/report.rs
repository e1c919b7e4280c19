//! Tables for people, JSON for programs, and the verdict on the budget.

use crate::counts::Counts;
use crate::growth::Growth;
use crate::load::Measured;
use crate::memory::Memory;
use crate::peer::Peer;
use crate::work::{self, Work};
use anyhow::Context as _;
use std::fs;
use std::path::Path;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) cpu_us_per_request: f64,
    pub(crate) switches_per_request: f64,
    pub(crate) rss_kib: u64,
    pub(crate) measured: Measured,
}

/// All measurements of one peer at one kind of work, a sample a round.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) work: &'static str,
    pub(crate) peer: Peer,
    pub(crate) samples: Vec<Sample>,
}

/// All that one run measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measurements {
    pub(crate) rows: Vec<Row>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) counts: Vec<Counts>,
    pub(crate) growth: Vec<Growth>,
}

/// Smallest, middle and largest of several figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

/// One line of the budget.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    what: String,
    goal: String,
    measured: String,
    holds: bool,
}

impl Spread {
    /// `None` when there is nothing to spread.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: *sorted.get(sorted.len() / 2)?,
            max: *sorted.last()?,
        })
    }
}

impl Row {
    fn spread(&self, figure: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples.iter().map(figure))
    }

    /// CPU per request beside another row's, round by round.
    fn cpu_ratio(&self, other: &Self) -> Option<Spread> {
        Spread::of(
            self.samples
                .iter()
                .zip(&other.samples)
                .map(|(own, other)| own.cpu_us_per_request / other.cpu_us_per_request),
        )
    }
}

/// The machine and what runs on it.
pub(crate) fn machine(versions: &[(Peer, String)]) -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| {
        line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name.to_owned())
    });
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = format!(
        "{cores} cores of {}, Linux {}",
        model.unwrap_or_else(|| "unknown".to_owned()),
        kernel.trim()
    );
    lines(
        std::iter::once(machine)
            .chain(versions.iter().map(|(peer, version)| format!("{}: {version}", peer.name()))),
    )
}

/// One kind of work, all peers, as plain text on standard output.
pub(crate) fn print_work(work: &Work, rows: &[Row]) {
    say(&format!("\n{}", table_of(work.name, rows)));
}

fn rows_of<'a>(work: &'a str, rows: &'a [Row]) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| row.work == work)
}

fn envoy_of<'a>(work: &'a str, rows: &'a [Row]) -> Option<&'a Row> {
    rows_of(work, rows).find(|row| row.peer == Peer::Envoy)
}

fn table_of(work: &str, rows: &[Row]) -> String {
    let head = format!(
        "| {work} | CPU µs/request | to Envoy: min, median, max | requests/s | p50 µs | p99 µs | p99.9 µs | switches/request | RSS MiB |"
    );
    let envoy = envoy_of(work, rows);
    let line = |row: &Row| {
        let ratio =
            envoy.and_then(|envoy| row.cpu_ratio(envoy)).filter(|_| row.peer != Peer::Direct);
        let ratio = ratio.map_or_else(
            || "-".to_owned(),
            |ratio| format!("{:.2}, **{:.2}**, {:.2}", ratio.min, ratio.median, ratio.max),
        );
        let figure = |figure: &dyn Fn(&Sample) -> Option<f64>, digits: usize| {
            let spread = Spread::of(row.samples.iter().filter_map(figure));
            spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.digits$}", spread.median))
        };
        format!(
            "| {} | {} | {ratio} | {} | {} | {} | {} | {} | {} |",
            row.peer.name(),
            figure(&|sample| Some(sample.cpu_us_per_request), 1),
            figure(&|sample| Some(sample.measured.per_second), 0),
            figure(&|sample| sample.measured.p50_us, 0),
            figure(&|sample| sample.measured.p99_us, 0),
            figure(&|sample| sample.measured.p999_us, 0),
            figure(&|sample| Some(sample.switches_per_request), 2),
            figure(&|sample| Some(sample.rss_kib as f64 / 1024.0), 1),
        )
    };
    lines([head, rule(9)].into_iter().chain(rows_of(work, rows).map(line)))
}

fn rule(columns: usize) -> String {
    format!("|{}", "---|".repeat(columns))
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| line + "\n").collect()
}

/// What is not about one kind of work, on standard output.
pub(crate) fn print_rest(result: &Measurements) {
    for table in rest(result) {
        say(&format!("\n{table}"));
    }
}

fn rest(result: &Measurements) -> impl Iterator<Item = String> {
    let Measurements { memory, counts, growth, .. } = result;
    [
        (!memory.is_empty()).then(|| memory_table(memory)),
        (!counts.is_empty()).then(|| counts_table(counts)),
        (!growth.is_empty()).then(|| growth_table(growth)),
    ]
    .into_iter()
    .flatten()
}

fn counts_table(counts: &[Counts]) -> String {
    let head = "| counted for one HTTP/1.1 request | user instructions, 64 connections | system calls, 1 connection | system calls, 64 connections |";
    let line = |row: &Counts| {
        let [one, many] = row.calls;
        format!("| {} | {:.0} | {one:.2} | {many:.2} |", row.peer.name(), row.instructions)
    };
    lines([head.to_owned(), rule(4)].into_iter().chain(counts.iter().map(line)))
}

fn growth_table(growth: &[Growth]) -> String {
    let head = "| endpoints of a service | services | connections | CPU µs/request | requests/s | RSS MiB |";
    let line = |row: &Growth| {
        format!(
            "| {} | {} | {} | {:.1} | {:.0} | {:.1} |",
            row.endpoints,
            row.services,
            row.connections,
            row.cpu_us_per_request,
            row.per_second,
            row.rss_kib as f64 / 1024.0
        )
    };
    lines([head.to_owned(), rule(6)].into_iter().chain(growth.iter().map(line)))
}

fn memory_table(memory: &[Memory]) -> String {
    let head = "| memory | at start MiB | KiB per idle connection | before a burst of 5,000 MiB | at its peak MiB | after it MiB | seconds after |";
    let mib = |kib: u64| kib as f64 / 1024.0;
    let line = |row: &Memory| {
        format!(
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
            row.peer.name(),
            mib(row.start),
            row.per_idle_connection,
            mib(row.before_burst),
            mib(row.burst_peak),
            mib(row.after_burst),
            row.rest_seconds
        )
    };
    lines([head.to_owned(), rule(7)].into_iter().chain(memory.iter().map(line)))
}

/// What holds of the budget.
pub(crate) fn verdicts(result: &Measurements) -> Vec<Verdict> {
    let Measurements { rows, memory, counts, .. } = result;
    let mut verdicts = Vec::new();
    let row = |work: &str, peer: Peer| rows_of(work, rows).find(|row| row.peer == peer).cloned();
    for work in &work::ALL {
        let (Some(own), Some(envoy)) =
            (row(work.name, Peer::Tidegate), row(work.name, Peer::Envoy))
        else {
            continue;
        };
        let (Some(budget), Some(ratio)) = (work.budget, own.cpu_ratio(&envoy)) else { continue };
        verdicts.push(at_most(
            &format!("{}: CPU per request to Envoy", work.name),
            budget,
            ratio.median,
        ));
    }
    let p99 = |peer: Peer| {
        row("fixed 6,000/s", peer).and_then(|row| {
            Spread::of(row.samples.iter().filter_map(|sample| sample.measured.p99_us))
        })
    };
    if let (Some(own), Some(envoy), Some(nginx)) =
        (p99(Peer::Tidegate), p99(Peer::Envoy), p99(Peer::Nginx))
    {
        verdicts.push(at_most("fixed 6,000/s: p99 to Envoy's", 1.0, own.median / envoy.median));
        verdicts.push(at_most("fixed 6,000/s: p99 to nginx's", 1.1, own.median / nginx.median));
    }
    if let Some(own) = memory.iter().find(|row| row.peer == Peer::Tidegate) {
        verdicts.push(at_most("RSS at start, MiB", 12.0, own.start as f64 / 1024.0));
        verdicts.push(at_most("KiB per idle connection", 12.0, own.per_idle_connection));
        verdicts.push(at_most(
            "RSS after the burst to before it",
            1.5,
            own.after_burst as f64 / own.before_burst as f64,
        ));
    }
    let counted = |peer: Peer| counts.iter().find(|row| row.peer == peer);
    if let (Some(own), Some(hyper)) = (counted(Peer::Tidegate), counted(Peer::Hyper)) {
        verdicts.push(at_most("user instructions of a request", 35_000.0, own.instructions));
        for (connections, own, hyper) in
            [(1, own.calls[0], hyper.calls[0]), (64, own.calls[1], hyper.calls[1])]
        {
            let what =
                format!("system calls of a request to bare hyper's, {connections} connections");
            verdicts.push(at_most(&what, 1.05, own / hyper));
        }
    }
    verdicts
}

fn at_most(what: &str, goal: f64, measured: f64) -> Verdict {
    Verdict {
        what: what.to_owned(),
        goal: format!("≤ {goal}"),
        measured: format!("{measured:.2}"),
        holds: measured <= goal,
    }
}

/// The budget on standard output.
pub(crate) fn print_verdicts(verdicts: &[Verdict]) {
    if !verdicts.is_empty() {
        say(&format!("\n{}", verdict_table(verdicts)));
    }
}

fn verdict_table(verdicts: &[Verdict]) -> String {
    let line = |verdict: &Verdict| {
        let holds = if verdict.holds { "holds" } else { "**missed**" };
        format!("| {} | {} | {} | {holds} |", verdict.what, verdict.goal, verdict.measured)
    };
    lines(
        ["| budget | goal | measured | |".to_owned(), rule(4)]
            .into_iter()
            .chain(verdicts.iter().map(line)),
    )
}

/// Writes every row: medians, and the spread of the ratio to Envoy.
pub(crate) fn write_json(file: &Path, result: &Measurements) -> anyhow::Result<()> {
    let Measurements { rows, memory, counts, growth } = result;
    let row_json = |row: &Row| {
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        let measured = |figure: fn(&Measured) -> Option<f64>| {
            median(Spread::of(row.samples.iter().filter_map(|sample| figure(&sample.measured))))
        };
        let ratio = envoy_of(row.work, rows).and_then(|envoy| row.cpu_ratio(envoy));
        serde_json::json!({
            "work": row.work,
            "proxy": row.peer.name(),
            "cpu_us_per_request": median(row.spread(|sample| sample.cpu_us_per_request)),
            "requests_per_second": median(row.spread(|sample| sample.measured.per_second)),
            "p50_us": measured(|measured| measured.p50_us),
            "p90_us": measured(|measured| measured.p90_us),
            "p99_us": measured(|measured| measured.p99_us),
            "p999_us": measured(|measured| measured.p999_us),
            "failed": row.samples.iter().map(|sample| sample.measured.failed).sum::<u64>(),
            "ratio_to_envoy": median(ratio),
            "ratio_to_envoy_min": ratio.map(|ratio| ratio.min),
            "ratio_to_envoy_max": ratio.map(|ratio| ratio.max),
            "rss_kib": median(row.spread(|sample| sample.rss_kib as f64)),
        })
    };
    let memory_json = |row: &Memory| {
        serde_json::json!({
            "proxy": row.peer.name(), "start_kib": row.start, "per_idle_connection_kib": row.per_idle_connection,
            "before_burst_kib": row.before_burst, "burst_peak_kib": row.burst_peak, "after_burst_kib": row.after_burst,
            "rest_seconds": row.rest_seconds,
        })
    };
    let counts_json = |row: &Counts| {
        let [one, many] = row.calls;
        serde_json::json!({
            "proxy": row.peer.name(), "instructions": row.instructions, "system_calls_1": one, "system_calls_64": many,
        })
    };
    let growth_json = |row: &Growth| {
        serde_json::json!({
            "endpoints": row.endpoints, "services": row.services, "connections": row.connections,
            "cpu_us_per_request": row.cpu_us_per_request, "requests_per_second": row.per_second, "rss_kib": row.rss_kib,
        })
    };
    let all = serde_json::json!({
        "rows": rows.iter().map(row_json).collect::<Vec<_>>(),
        "memory": memory.iter().map(memory_json).collect::<Vec<_>>(),
        "counts": counts.iter().map(counts_json).collect::<Vec<_>>(),
        "growth": growth.iter().map(growth_json).collect::<Vec<_>>(),
    });
    fs::write(file, serde_json::to_string_pretty(&all)?)
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Replaces the text between the markers `<!-- bench proxy -->` and `<!-- end of bench proxy -->`.
pub(crate) fn write_markdown(
    file: &Path,
    machine: &str,
    result: &Measurements,
    verdicts: &[Verdict],
) -> anyhow::Result<()> {
    let mut text = format!(
        "\nMade by `cargo xtask bench proxy --report {}`.\n\n```text\n{machine}```\n\n{}\n",
        file.display(),
        verdict_table(verdicts)
    );
    for work in &work::ALL {
        if rows_of(work.name, &result.rows).next().is_some() {
            text.push_str(&table_of(work.name, &result.rows));
            text.push('\n');
        }
    }
    for table in rest(result) {
        text.push_str(&table);
        text.push('\n');
    }
    replace_between(file, "bench proxy", &text)
}

/// Replaces the text between `<!-- NAME -->` and `<!-- end of NAME -->`.
pub(crate) fn replace_between(file: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let (start, end) = (format!("<!-- {name} -->"), format!("<!-- end of {name} -->"));
    let old =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let missing = || format!("{} has no lines '{start}' and '{end}'", file.display());
    let (before, rest) = old.split_once(&start).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    fs::write(file, format!("{before}{start}\n{text}\n{end}{after}"))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// A line for the person who waits.
#[expect(clippy::print_stderr, reason = "a command-line tool talks on its streams")]
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}

/// Part of the result.
#[expect(clippy::print_stdout, reason = "a command-line tool talks on its streams")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(peer: Peer, cpu: &[f64]) -> Row {
        let sample = |cpu: &f64| Sample {
            cpu_us_per_request: *cpu,
            switches_per_request: 0.0,
            rss_kib: 1024,
            measured: Measured::default(),
        };
        Row { work: "HTTP/1.1, 16 connections", peer, samples: cpu.iter().map(sample).collect() }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ratio = row(Peer::Tidegate, &[10.0, 30.0, 20.0])
            .cpu_ratio(&row(Peer::Envoy, &[100.0, 100.0, 50.0]))
            .unwrap();
        assert_eq!(ratio, Spread { min: 0.1, median: 0.3, max: 0.4 });
    }

    #[test]
    fn a_missed_budget_is_called_missed() {
        let of = |own: f64| {
            let rows = vec![row(Peer::Tidegate, &[own]), row(Peer::Envoy, &[100.0])];
            verdicts(&Measurements { rows, ..Measurements::default() })
        };
        let missed = of(40.0);
        assert!(verdict_table(&missed).contains("| ≤ 0.38 | 0.40 | **missed** |"));
        let held = of(30.0);
        assert!(verdict_table(&held).contains("| ≤ 0.38 | 0.30 | holds |"));
    }
}
