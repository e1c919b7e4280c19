//! One chart of the report: a self-contained SVG over the seconds of the run.

use std::fmt::{self, Write as _};

use crate::report::Moments;

/// Width of the drawing, in its own units; the page scales it.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 24.0;

/// A chart to be drawn.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// For readers who do not see it.
    pub(crate) label: String,
    pub(crate) moments: Moments,
    /// Top of the vertical axis; what is higher is drawn there.
    pub(crate) top: f64,
    /// Values at which the vertical axis is marked.
    pub(crate) marks: &'a [f64],
    /// Unit of the vertical axis.
    pub(crate) unit: &'static str,
    /// In the order of drawing.
    pub(crate) layers: Vec<Layer>,
}

/// What is drawn of one series.
#[derive(Debug)]
pub(crate) struct Layer {
    /// For the legend of the pointer.
    pub(crate) name: String,
    /// Class in the style sheet.
    pub(crate) class: &'static str,
    pub(crate) shape: Shape,
}

/// Values of the seconds from the start of the load; none where there was nothing to measure.
pub(crate) type Series = Vec<Option<f64>>;

/// How a series is drawn.
#[derive(Debug)]
pub(crate) enum Shape {
    Line(Series),
    /// A line that keeps its value until it changes.
    Steps(Series),
    /// Filled between the first and the second; the pointer shows their difference.
    Area(Series, Series),
    /// Filled between two constant values.
    Band(f64, f64),
}

impl Chart<'_> {
    /// The drawing.
    pub(crate) fn svg(&self) -> String {
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" data-left=\"{LEFT}\" data-right=\"{}\" \
             data-end=\"{}\" data-values='{}'>",
            super::html::escape(&self.label),
            WIDTH - RIGHT,
            self.moments.end,
            self.values()
        );
        svg += &self.ground();
        for layer in &self.layers {
            svg += &self.layer(layer);
        }
        append(
            &mut svg,
            format_args!(
                "<line class=\"pointer\" x1=\"0\" x2=\"0\" y1=\"{TOP}\" y2=\"{}\" visibility=\"hidden\"/></svg>",
                HEIGHT - BOTTOM
            ),
        );
        svg
    }

    /// The shaded fault, the grid and the axes.
    fn ground(&self) -> String {
        let Moments { baseline, fault, heal, end } = self.moments;
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let shade = |from: u32, to: u32, class: &str, text: &str| {
            let (from, to) = (self.x(f64::from(from)), self.x(f64::from(to)));
            format!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\"/>\
                 <text class=\"{class}-text\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                to - from,
                bottom - TOP,
                from + 2.0,
                TOP - 6.0
            )
        };
        let mut ground =
            shade(0, baseline, "warm", "warm-up") + &shade(fault, heal, "fault", "zone a fails");
        append(
            &mut ground,
            format_args!(
                "<text class=\"warm-text\" x=\"{:.1}\" y=\"{:.1}\">healed</text>",
                self.x(f64::from(heal)) + 2.0,
                TOP - 6.0
            ),
        );
        for mark in self.marks {
            let y = self.y(*mark);
            append(
                &mut ground,
                format_args!(
                    "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{mark}{}</text>",
                    LEFT - 6.0,
                    y + 3.5,
                    self.unit
                ),
            );
        }
        let every = if end > 100 { 20 } else { 10 };
        for second in (0..=end).step_by(every) {
            let x = self.x(f64::from(second));
            append(
                &mut ground,
                format_args!(
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second}{}</text>",
                    HEIGHT - 8.0,
                    if second == 0 { " s" } else { "" }
                ),
            );
        }
        ground
    }

    fn layer(&self, layer: &Layer) -> String {
        let class = layer.class;
        match &layer.shape {
            Shape::Line(values) => {
                format!("<path class=\"line {class}\" d=\"{}\"/>", self.line(values))
            }
            Shape::Steps(values) => {
                format!("<path class=\"line {class}\" d=\"{}\"/>", self.steps(values))
            }
            Shape::Area(low, high) => {
                format!("<path class=\"area {class}\" d=\"{}\"/>", self.area(low, high))
            }
            Shape::Band(low, high) => format!(
                "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                self.y(*high),
                WIDTH - RIGHT - LEFT,
                self.y(*low) - self.y(*high)
            ),
        }
    }

    fn line(&self, values: &Series) -> String {
        let mut path = String::new();
        let mut pen = "M";
        for (second, value) in values.iter().enumerate() {
            let Some(value) = value else {
                pen = "M";
                continue;
            };
            append(
                &mut path,
                format_args!("{pen}{:.1} {:.1}", self.x(second as f64 + 0.5), self.y(*value)),
            );
            pen = "L";
        }
        path
    }

    fn steps(&self, values: &Series) -> String {
        let mut path = String::new();
        let mut pen = "M";
        for (second, value) in values.iter().enumerate() {
            let Some(value) = value else {
                pen = "M";
                continue;
            };
            let (from, to, y) =
                (self.x(second as f64), self.x(second as f64 + 1.0), self.y(*value));
            append(&mut path, format_args!("{pen}{from:.1} {y:.1}H{to:.1}"));
            pen = "L";
        }
        path
    }

    fn area(&self, low: &Series, high: &Series) -> String {
        let edge = |values: &Series| -> Vec<(f64, f64)> {
            let points = values.iter().enumerate();
            let ends = |(second, value): (usize, &Option<f64>)| {
                let y = self.y(value.unwrap_or(0.0));
                [(self.x(second as f64), y), (self.x(second as f64 + 1.0), y)]
            };
            points.flat_map(ends).collect()
        };
        let there = edge(high);
        let back = edge(low);
        let text = |(x, y): &(f64, f64)| format!("{x:.1} {y:.1}");
        let points: Vec<String> = there.iter().chain(back.iter().rev()).map(text).collect();
        if points.is_empty() { String::new() } else { format!("M{}Z", points.join("L")) }
    }

    /// What the pointer shows, as `[[name, class, [values]], ...]`.
    fn values(&self) -> String {
        let shown = |layer: &Layer| {
            let values = match &layer.shape {
                Shape::Line(values) | Shape::Steps(values) => values.clone(),
                Shape::Area(low, high) => {
                    let both = low.iter().zip(high);
                    both.map(|(low, high)| Some(high.as_ref()? - low.unwrap_or(0.0))).collect()
                }
                Shape::Band(..) => return None,
            };
            let rounded: Vec<_> = values
                .into_iter()
                .map(|value| value.map(|value| (value * 100.0).round() / 100.0))
                .collect();
            Some(serde_json::json!([layer.name, layer.class, rounded]))
        };
        let shown: Vec<_> = self.layers.iter().filter_map(shown).collect();
        serde_json::Value::from(shown).to_string().replace('\'', "&#39;")
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + second / f64::from(self.moments.end.max(1)) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value / self.top).clamp(0.0, 1.0);
        (HEIGHT - BOTTOM) - share * (HEIGHT - BOTTOM - TOP)
    }
}

fn append(text: &mut String, more: fmt::Arguments<'_>) {
    let written = text.write_fmt(more);
    debug_assert!(written.is_ok(), "a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(shape: Shape) -> Chart<'static> {
        Chart {
            label: "a \"chart\"".to_owned(),
            moments: Moments { baseline: 1, fault: 2, heal: 3, end: 4 },
            top: 10.0,
            marks: &[0.0, 10.0],
            unit: "",
            layers: vec![Layer { name: "it's".to_owned(), class: "zone-a", shape }],
        }
    }

    fn path(svg: &str) -> &str {
        svg.split_once(" d=\"").unwrap().1.split_once('"').unwrap().0
    }

    #[test]
    fn a_gap_in_the_values_is_a_gap_in_the_line() {
        let svg = chart(Shape::Line(vec![Some(0.0), Some(10.0), None, Some(20.0)])).svg();
        assert_eq!(path(&svg), "M107.5 166.0L234.5 20.0M488.5 20.0");
    }

    #[test]
    fn an_area_goes_there_and_back() {
        let svg = chart(Shape::Area(vec![Some(0.0)], vec![Some(10.0)])).svg();
        assert_eq!(path(&svg), "M44.0 20.0L171.0 20.0L171.0 166.0L44.0 166.0Z");
    }

    #[test]
    fn the_pointer_gets_the_values_and_the_label_is_escaped() {
        let svg = chart(Shape::Steps(vec![Some(1.0), None, Some(2.456)])).svg();
        assert!(svg.contains("data-values='[[\"it&#39;s\",\"zone-a\",[1.0,null,2.46]]]'"), "{svg}");
        assert!(svg.contains("aria-label=\"a &quot;chart&quot;\""), "{svg}");
    }
}
