//! `report.html`: one file with its own style, script and drawings, for any browser, without network.

use crate::fault::FAULTY_ZONE;
use crate::load::record::Offered;
use crate::measure::{PhaseFigures, Record, ZoneFigures, ZoneRecord, share as share_of};
use crate::observe::Decision;
use crate::policy::{Policy, ZONES};
use crate::report::chart::{Chart, Layer, Series, Shape};
use crate::report::{Moments, Report, Run, milliseconds, share};
use crate::timeline::Phase;
use crate::verdict::{Check, Verdict};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Classes of the zones, in the order of [`ZONES`].
const ZONE_CLASSES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// The whole page.
pub(crate) fn page(report: &Report, records: &[Record]) -> String {
    let title = format!("Tidegate demo: {}", report.fault);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&title)
    );
    page += &(header(report) + &scores(report)).replace(" %", "\u{a0}%");
    page += &success(report, records);
    page += &destinations(report, records);
    page += &endpoints(report, records);
    page += &load(report, records);
    page += &promises(report);
    page += &figures(report);
    page += &decisions(report);
    page += &footer(report);
    page + "</main>\n<script>\n" + SCRIPT + "</script>\n</body>\n</html>\n"
}

/// Text for an element or an attribute in double quotes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn header(report: &Report) -> String {
    let (class, word) = match report.verdict {
        Verdict::Holds => ("good", "every promise kept"),
        Verdict::Fails => ("bad", "a promise was missed"),
        Verdict::NotJudged => ("plain", "nothing promised here"),
    };
    let Moments { fault, heal, end, .. } = report.timeline;
    let caution = report
        .caution
        .iter()
        .map(|caution| format!("<p class=\"caution\">{}</p>\n", escape(caution)));
    let caution: String = caution.collect();
    format!(
        "<header>\n<p class=\"eyebrow\">Tidegate failure demo <span class=\"verdict {class}\">{word}</span></p>\n<h1>{}</h1>\n\
         <p class=\"lede\">From {fault} s to {heal} s {}; then it is healed. Three zones of three backends, \
         {} requests a second from each zone under each policy, all policies at the same time against the same backends, \
         {end} s in all. Success is what the callers saw.</p>\n{caution}</header>\n",
        escape(&report.headline),
        escape(&report.description),
        report.rate
    )
}

fn scores(report: &Report) -> String {
    let card = |run: &Run| {
        let callers = run.callers_in_fault();
        let success = callers.and_then(|callers| callers.success);
        let class = match success {
            Some(success) if success >= 0.99 => "good",
            Some(success) if success >= 0.9 => "fair",
            _ => "bad",
        };
        let local = run
            .figures
            .seconds_to_local
            .map_or_else(|| "–".to_owned(), |seconds| format!("{seconds} s"));
        let cross = |name: &str| {
            share(run.phase(name).and_then(|phase| phase.zones.get(FAULTY_ZONE)?.cross_zone))
        };
        format!(
            "<div class=\"card\"><h2>{}</h2><p class=\"score {class}\">{}</p>\
             <p class=\"caption\">of zone {FAULTY_ZONE}’s requests answered while it failed</p><dl>\
             <div><dt>before retries</dt><dd>{}</dd></div><div><dt>median</dt><dd>{}</dd></div>\
             <div><dt>crossed before</dt><dd>{}</dd></div><div><dt>crossed then</dt><dd>{}</dd></div>\
             <div><dt>local again</dt><dd>{local}</dd></div></dl></div>\n",
            escape(run.policy.title()),
            share(success),
            share(callers.and_then(|callers| callers.attempt_success)),
            milliseconds(callers.and_then(|callers| callers.p50_ms)),
            cross("baseline"),
            cross("fault"),
        )
    };
    format!(
        "<section class=\"scores\">\n{}</section>\n",
        report.runs.iter().map(card).collect::<String>()
    )
}

/// A row of charts, one for each policy, on the same axes.
struct Row<'a> {
    title: &'a str,
    lede: &'a str,
    legend: Vec<(&'static str, String)>,
    top: f64,
    marks: &'a [f64],
    unit: &'static str,
}

impl Row<'_> {
    fn html(
        &self,
        report: &Report,
        records: &[Record],
        layers: impl Fn(&Record) -> Vec<Layer>,
    ) -> String {
        let legend = self
            .legend
            .iter()
            .map(|(class, name)| format!("<li class=\"{class}\">{}</li>", escape(name)));
        let figure = |record: &Record| {
            let chart = Chart {
                label: format!("{}: {}", self.title, record.policy.title()),
                moments: report.timeline,
                top: self.top,
                marks: self.marks,
                unit: self.unit,
                layers: layers(record),
            };
            format!(
                "<figure><figcaption>{}</figcaption>{}</figure>\n",
                escape(record.policy.title()),
                chart.svg()
            )
        };
        format!(
            "<section class=\"row\">\n<h2>{}</h2>\n<p>{}</p>\n<ul class=\"legend\">{}</ul>\n<div class=\"charts\">\n{}</div>\n</section>\n",
            escape(self.title),
            escape(self.lede),
            legend.collect::<String>(),
            records.iter().map(figure).collect::<String>()
        )
    }
}

fn success(report: &Report, records: &[Record]) -> String {
    let row = Row {
        title: "Success, by the callers’ zone",
        lede: "Share of the requests offered in each second that were answered with 2xx within two seconds.",
        legend: zones_legend("callers in zone"),
        top: 100.0,
        marks: &[0.0, 25.0, 50.0, 75.0, 100.0],
        unit: " %",
    };
    row.html(report, records, |record| {
        let line = |(zone, class): (&ZoneRecord, &'static str)| {
            let values = seconds(report).map(|second| {
                let phase = Phase { name: "", from: second, to: second + 1 };
                share_of(&zone.offered, &phase, Offered::succeeded).map(|share| share * 100.0)
            });
            Layer {
                name: format!("zone {}, %", zone.zone),
                class,
                shape: Shape::Line(values.collect()),
            }
        };
        let mut lines: Vec<Layer> = record.zones.iter().zip(ZONE_CLASSES).map(line).collect();
        lines.reverse(); // the failing zone on top
        lines
    })
}

fn destinations(report: &Report, records: &[Record]) -> String {
    let rate = f64::from(report.rate);
    let row = Row {
        title: "Where zone a’s requests go",
        lede: "Requests a second of zone a’s callers, by the zone of the endpoint that answered last.",
        legend: zones_legend("answered in zone"),
        top: rate * 1.25,
        marks: &[0.0, rate / 2.0, rate],
        unit: "",
    };
    row.html(report, records, |record| {
        let Some(zone) = record.zones.first() else { return Vec::new() };
        let mut below: Series = vec![Some(0.0); report.timeline.end as usize];
        let area = |(index, name): (usize, &str)| {
            let counted = seconds(report).map(|second| {
                let counters = zone.observed.between(second, second + 1);
                counters.by_zone.get(index).copied().unwrap_or(0.0)
            });
            let above: Series = below
                .iter()
                .zip(counted)
                .map(|(below, count)| below.map(|below| below + count))
                .collect();
            let low = std::mem::replace(&mut below, above.clone());
            let class = ZONE_CLASSES.get(index).copied().unwrap_or_default();
            Layer { name: format!("to zone {name}"), class, shape: Shape::Area(low, above) }
        };
        ZONES.into_iter().enumerate().map(area).collect()
    })
}

fn endpoints(report: &Report, records: &[Record]) -> String {
    let row = Row {
        title: "Endpoints in use by zone a’s proxy",
        lede: "Serving endpoints that take part, and those whose breaker is open or being probed.",
        legend: vec![
            ("zone-a", "local, active".to_owned()),
            ("remote", "remote, active".to_owned()),
            ("ejected", "ejected or probed".to_owned()),
        ],
        top: 9.9,
        marks: &[0.0, 3.0, 6.0, 9.0],
        unit: "",
    };
    row.html(report, records, |record| {
        let states = states(report, record);
        let count = |of: &dyn Fn(&crate::observe::State) -> u32| -> Series {
            states.iter().map(|state| state.map(|state| f64::from(of(state)))).collect()
        };
        let zero = vec![Some(0.0); states.len()];
        let local = count(&|state| state.active_local);
        let both = count(&|state| state.active_local + state.active_remote);
        let layer = |name: &str, class, shape| Layer { name: name.to_owned(), class, shape };
        vec![
            layer("local", "zone-a", Shape::Area(zero, local.clone())),
            layer("remote", "remote", Shape::Area(local, both)),
            layer("ejected", "ejected", Shape::Steps(count(&|state| state.ejected))),
        ]
    })
}

/// Loads above this are drawn at the top.
const LOAD_TOP: f64 = 4.0;

fn load(report: &Report, records: &[Record]) -> String {
    let row = Row {
        title: "Load of zone a and its band",
        lede: "Outstanding requests divided by what would be outstanding if nothing queued (for HAZL’s band: outstanding \
               requests for each endpoint). Above the band remote endpoints join, below it they leave. Fast failures lower \
               the load: they are seen by the failure cap, not here.",
        legend: vec![("load", "load".to_owned()), ("band", "band".to_owned())],
        top: LOAD_TOP,
        marks: &[0.0, 1.0, 2.0, 3.0, 4.0],
        unit: "",
    };
    row.html(report, records, |record| {
        let states = states(report, record);
        let band = states.iter().flatten().find_map(|state| state.band);
        let load = states.iter().map(|state| state.and_then(|state| state.load)).collect();
        let band = band.map(|(low, high)| Layer {
            name: "band".to_owned(),
            class: "band",
            shape: Shape::Band(low, high),
        });
        let load = Layer { name: "load".to_owned(), class: "load", shape: Shape::Line(load) };
        band.into_iter().chain([load]).collect()
    })
}

fn zones_legend(what: &str) -> Vec<(&'static str, String)> {
    ZONE_CLASSES
        .into_iter()
        .zip(ZONES)
        .map(|(class, zone)| (class, format!("{what} {zone}")))
        .collect()
}

fn seconds(report: &Report) -> std::ops::Range<u32> {
    0..report.timeline.end
}

/// State of the failing zone's proxy at the start of each second.
fn states<'a>(report: &Report, record: &'a Record) -> Vec<Option<&'a crate::observe::State>> {
    let state = |second: u32| {
        let sample = record.zones.first()?.observed.at(f64::from(second))?;
        Some(&sample.state)
    };
    seconds(report).map(state).collect()
}

fn promises(report: &Report) -> String {
    let line = |policy: Policy, check: &Check| {
        let (class, mark) = if check.holds { ("good", "kept") } else { ("bad", "missed") };
        format!(
            "<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"{class}\">{mark}</td></tr>\n",
            policy.name(),
            escape(check.what),
            escape(&check.wanted),
            escape(&check.measured)
        )
    };
    let lines: String = report
        .runs
        .iter()
        .flat_map(|run| run.checks.iter().map(move |check| line(run.policy, check)))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!(
        "<section>\n<h2>Promises</h2>\n<p>What is promised for this fault, and what was measured. The figures of pinning show that the fault was real.</p>\n\
         <div class=\"scroll\"><table><thead><tr><th>policy</th><th>figure</th><th class=\"number\">promised</th>\
         <th class=\"number\">measured</th><th></th></tr></thead><tbody>\n{lines}</tbody></table></div>\n</section>\n"
    )
}

fn figures(report: &Report) -> String {
    let line = |run: &Run, phase: &PhaseFigures, zone: &str, figures: &ZoneFigures| {
        let numbers = [
            figures.requests.to_string(),
            share(figures.success),
            share(figures.success_first_5s),
            share(figures.attempt_success),
            share(figures.completed),
            milliseconds(figures.p50_ms),
            milliseconds(figures.p99_ms),
            share(figures.cross_zone),
        ];
        let class = match (phase.name, zone == FAULTY_ZONE) {
            ("fault", true) => " class=\"group marked\"",
            (_, true) => " class=\"group\"",
            _ => "",
        };
        let numbers: String = numbers.iter().fold(String::new(), |cells, number| {
            cells + "<td class=\"number\">" + number + "</td>"
        });
        format!(
            "<tr{class}><td>{}</td><td>{}</td><td>zone {zone}</td>{numbers}</tr>\n",
            run.policy.name(),
            phase.name
        )
    };
    let lines = report.runs.iter().flat_map(|run| {
        let phases = run.figures.phases.iter();
        phases.flat_map(move |phase| {
            phase.zones.iter().map(move |(zone, figures)| line(run, phase, zone, figures))
        })
    });
    format!(
        "<section>\n<h2>All figures</h2>\n<p>Measured after the warm-up. Before retries: share of the proxy’s attempts that went well. \
         A request without an answer counts in the latencies with the callers’ timeout of 2 s.</p>\n\
         <div class=\"scroll\"><table><thead><tr><th>policy</th><th>phase</th><th>callers</th><th class=\"number\">requests</th>\
         <th class=\"number\">success</th><th class=\"number\">first 5 s</th><th class=\"number\">before retries</th>\
         <th class=\"number\">answered</th><th class=\"number\">p50</th><th class=\"number\">p99</th>\
         <th class=\"number\">cross-zone</th></tr></thead><tbody>\n{}</tbody></table></div>\n</section>\n",
        lines.collect::<String>()
    )
}

/// Decisions of one policy on the page; the rest is in `report.json`.
const DECISIONS_SHOWN: usize = 200;

fn decisions(report: &Report) -> String {
    let list = |run: &Run| {
        let of_zone = run.decisions.iter().filter(|decision| decision.zone == FAULTY_ZONE);
        let measured =
            of_zone.map(|decision| &decision.decision).filter(|decision| !decision.is_routine());
        let warm = f64::from(report.timeline.baseline);
        let shown: Vec<&Decision> =
            measured.filter(|decision| decision.at >= warm).take(DECISIONS_SHOWN).collect();
        let rows =
            shown.iter().fold(String::new(), |rows, decision| rows + &decision_row(decision));
        let open = if run.policy == Policy::Adaptive { " open" } else { "" };
        format!(
            "<details{open}><summary>{}: {} decisions</summary>\n<div class=\"scroll tall\"><table><thead><tr>\
             <th class=\"number\">at</th><th>change</th><th>reason</th><th>endpoint</th><th>detail</th></tr></thead>\
             <tbody>\n{rows}</tbody></table></div></details>\n",
            escape(run.policy.title()),
            shown.len(),
        )
    };
    format!(
        "<section>\n<h2>Decisions of zone a’s proxy</h2>\n<p>Changes of the pool after the warm-up, each with its reason and \
         the numbers behind it. Those of the warm-up and each probe of an ejected endpoint are in report.json.</p>\n{}\
         </section>\n",
        report.runs.iter().map(list).collect::<String>()
    )
}

fn decision_row(decision: &Decision) -> String {
    format!(
        "<tr><td class=\"number\">{:.1} s</td><td>{}</td><td>{}</td><td>{}</td><td class=\"detail\">{}</td></tr>\n",
        decision.at,
        escape(&decision.change),
        escape(&decision.reason),
        escape(decision.endpoint.as_deref().unwrap_or("")),
        escape(&decision.detail)
    )
}

fn footer(report: &Report) -> String {
    let policies: Vec<&str> = report.runs.iter().map(|run| run.policy.name()).collect();
    format!(
        "<footer><p>The same again: <code>cargo demo -- --fault {} --policy {}</code></p></footer>\n",
        escape(&report.fault),
        policies.join(",")
    )
}
