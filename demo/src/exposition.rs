//! As much of the Prometheus text format as a scrape of a proxy needs.

/// A scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape<'a> {
    series: Vec<Series<'a>>,
}

/// One line: a name, its labels and its value.
#[derive(Debug, PartialEq)]
pub(crate) struct Series<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    /// The value.
    pub(crate) value: f64,
}

impl<'a> Scrape<'a> {
    /// Reads a scrape; comments and lines of another form are left out.
    pub(crate) fn parse(text: &'a str) -> Self {
        Self {
            series: text
                .lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(parse_line)
                .collect(),
        }
    }

    /// All series of a name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = &Series<'a>> {
        self.series.iter().filter(move |series| series.name == name)
    }

    /// The sum of all series of a name that have all of these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |series: &&Series<'_>| {
            labels.iter().all(|(label, value)| series.label(label) == Some(value))
        };
        self.named(name).filter(fits).map(|series| series.value).sum()
    }
}

impl<'a> Series<'a> {
    /// The value of a label, as it is escaped in the scrape.
    pub(crate) fn label(&self, name: &str) -> Option<&'a str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value)
    }
}

fn parse_line(line: &str) -> Option<Series<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at_checked(end)?;
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(labels) => parse_labels(labels)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Series { name, labels, value })
}

/// Reads `name="value",...}` and gives back what follows the brace.
fn parse_labels(mut text: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let end = closing_quote(rest)?;
        let (value, rest) = rest.split_at_checked(end)?;
        labels.push((name, value));
        text = rest.strip_prefix('"')?;
    }
}

fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(index, character)| {
        let closes = character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        closes.then_some(index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP requests Requests.
# TYPE requests counter
requests{zone=\"a\",class=\"success\"} 10
requests{zone=\"b\",class=\"success\"} 2.5
requests{zone=\"a\",class=\"failure\",} 4 1700000000
note{text=\"a \\\"b\\\" {c}\"} 1
plain 7
infinite +Inf
broken{zone=\"a} 1
";

    #[test]
    #[expect(clippy::float_cmp, reason = "small whole numbers and halves")]
    fn series_are_summed_by_labels() {
        let scrape = Scrape::parse(TEXT);
        assert_eq!(scrape.sum("requests", &[]), 16.5);
        assert_eq!(scrape.sum("requests", &[("zone", "a")]), 14.0);
        assert_eq!(scrape.sum("requests", &[("zone", "a"), ("class", "success")]), 10.0);
        assert_eq!(scrape.sum("requests", &[("zone", "c")]), 0.0);
        assert_eq!(scrape.sum("plain", &[]), 7.0);
        assert_eq!(scrape.sum("infinite", &[]), f64::INFINITY);
    }

    #[test]
    fn label_values_may_hold_quotes_and_braces() {
        let scrape = Scrape::parse(TEXT);
        let note = scrape.named("note").next().unwrap();
        assert_eq!((note.label("text"), note.value), (Some("a \\\"b\\\" {c}"), 1.0));
        assert_eq!(scrape.named("broken").count(), 0);
    }
}
