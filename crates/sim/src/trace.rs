//! One run as a picture.

use crate::measure::{Measured, Sample, Second};
use crate::scenario::Scenario;
use std::fmt::{Arguments, Write};

/// One curve: its label, colour and points (seconds, value).
type Curve = (&'static str, &'static str, Vec<(f64, f64)>);

/// A part of the picture, with its own vertical scale from 0.
struct Panel {
    title: &'static str,
    max: f64,
    unit: &'static str,
    /// Horizontal lines to compare with.
    marks: Vec<(&'static str, f64)>,
    curves: Vec<Curve>,
}

const WIDTH: f64 = 960.0;
const MARGIN: (f64, f64) = (64.0, 150.0);
const TOP: f64 = 56.0;
const PANEL: f64 = 150.0;
const GAP: f64 = 46.0;
/// The band of the load, and how far up its panel goes.
const BAND: (f64, f64) = (1.2, 1.5);
const LOAD_MAX: f64 = 6.0;

/// The picture as SVG: success and latencies apart, what crosses, what the valve does. A run without samples has no last
/// panel.
pub fn svg(scenario: &Scenario, measured: &Measured, title: &str) -> String {
    let panels = panels(measured);
    let height = TOP + panels.len() as f64 * (PANEL + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"{}\" y=\"26\" font-size=\"16\">{title}</text>\n",
        MARGIN.0
    );
    let end = scenario.end;
    for (index, panel) in panels.iter().enumerate() {
        let top = TOP + index as f64 * (PANEL + GAP);
        svg.push_str(&panel_svg(panel, top, (scenario.fault, end)));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panels(measured: &Measured) -> Vec<Panel> {
    let per_second = |of: fn(&Second) -> Option<f64>| {
        let points = measured
            .seconds
            .iter()
            .zip(0_u32..)
            .filter_map(|(s, at)| of(s).map(|y| (f64::from(at), y)));
        points.collect::<Vec<_>>()
    };
    let sampled = |of: fn(&Sample) -> f64| {
        measured.samples.iter().map(|s| (s.at, of(s))).collect::<Vec<(f64, f64)>>()
    };
    let mut panels = vec![
        Panel {
            title: "requests of zone 0 that succeed",
            max: 100.0,
            unit: "%",
            marks: vec![],
            curves: vec![("success", "#1a7f37", per_second(|s| part(s.succeeded, s.requests)))],
        },
        Panel {
            title: "attempts that leave their zone",
            max: 100.0,
            unit: "%",
            marks: vec![],
            curves: vec![
                ("of zone 0", "#b35900", per_second(|s| part(s.crossed, s.attempts))),
                ("of all zones", "#0550ae", per_second(|s| part(s.crossed_all, s.attempts_all))),
            ],
        },
    ];
    if !measured.samples.is_empty() {
        panels.push(Panel {
            title: "local share of the balancers in zone 0 (mean), and its two limits",
            max: 1.0,
            unit: "",
            marks: vec![],
            curves: vec![
                ("load valve", "#8250df", sampled(|s| s.valve)),
                ("failure cap", "#cf222e", sampled(|s| s.failure_cap)),
                ("share", "#24292f", sampled(|s| s.share)),
            ],
        });
        panels.push(Panel {
            title: "load of zone 0 (mean): 1 is unloaded",
            max: LOAD_MAX,
            unit: "",
            marks: vec![("low", BAND.0), ("high", BAND.1)],
            curves: vec![("load", "#0550ae", sampled(|s| s.load.min(LOAD_MAX)))],
        });
    }
    panels
}

fn part(of: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| 100.0 * f64::from(of) / f64::from(whole))
}

fn panel_svg(panel: &Panel, top: f64, (fault, end): ((f64, f64), f64)) -> String {
    let right = WIDTH - MARGIN.1;
    let x = |at: f64| MARGIN.0 + (right - MARGIN.0) * at / end;
    let y = |value: f64| top + PANEL * (1.0 - value / panel.max);
    let mut svg = format!(
        "<text x=\"{}\" y=\"{}\" fill=\"#57606a\">{}</text>\n\
         <rect x=\"{:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{PANEL}\" fill=\"#ffebe9\"/>\n",
        MARGIN.0,
        top - 8.0,
        panel.title,
        x(fault.0),
        x(fault.1) - x(fault.0)
    );
    let mut add = |line: Arguments<'_>| {
        svg.write_fmt(line).unwrap_or_else(|_| unreachable!("a String has room"));
    };
    for step in 0..=4_u32 {
        let value = panel.max * f64::from(step) / 4.0;
        add(format_args!(
            "<path d=\"M{} {y:.1}H{right}\" stroke=\"#d0d7de\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}{}</text>\n",
            MARGIN.0,
            MARGIN.0 - 6.0,
            y(value) + 4.0,
            panel.unit,
            y = y(value)
        ));
    }
    for step in 0..=7_u32 {
        let at = end * f64::from(step) / 7.0;
        let below = top + PANEL + 16.0;
        add(format_args!(
            "<text x=\"{:.1}\" y=\"{below}\" text-anchor=\"middle\">{at:.0} s</text>\n",
            x(at)
        ));
    }
    for (label, value) in &panel.marks {
        add(format_args!(
            "<path d=\"M{} {y:.1}H{right}\" stroke=\"#57606a\" stroke-dasharray=\"4 3\"/><text x=\"{}\" y=\"{:.1}\">{label} {value}</text>\n",
            MARGIN.0,
            right + 6.0,
            y(*value) + 4.0,
            y = y(*value)
        ));
    }
    for ((label, colour, points), line) in panel.curves.iter().zip(0_u32..) {
        let path: Vec<String> =
            points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n<text x=\"{}\" y=\"{}\" fill=\"{colour}\">{label}</text>\n",
            path.join(" "),
            right + 6.0,
            top + 14.0 + 16.0 * f64::from(line)
        ));
    }
    svg
}
