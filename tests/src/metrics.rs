//! Reading the Prometheus text format.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape(Vec<Sample>);

/// One line of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The metric's name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

impl Scrape {
    /// Reads a scrape; fails at a line that is none.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(
            lines
                .map(|line| sample(line).unwrap_or_else(|| panic!("not a sample: {line:?}")))
                .collect(),
        )
    }

    /// The samples of a metric that have all these labels.
    pub fn select<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&str, &str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let has = |sample: &Sample, (key, value): &(&str, &str)| {
            sample.labels.get(*key).is_some_and(|found| found == value)
        };
        self.0.iter().filter(move |sample| {
            sample.name == name && labels.iter().all(|label| has(sample, label))
        })
    }

    /// Their sum; 0 without any.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.select(name, labels).map(|sample| sample.value).sum()
    }

    /// All samples.
    pub fn samples(&self) -> &[Sample] {
        &self.0
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample { name: series.to_owned(), labels: BTreeMap::new(), value });
    };
    let labels = labels(rest.strip_suffix('}')?)?;
    Some(Sample { name: name.to_owned(), labels, value })
}

fn labels(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let (value, rest) = quoted(rest)?;
        labels.insert(key.to_owned(), value);
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

/// Text up to the closing quotation mark, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_select_and_values_sum() {
        let scrape = Scrape::parse(
            "# HELP up x\n# TYPE up gauge\nup 1\nhits{zone=\"a\",path=\"/\\\"x\\\\,}\"} 2.5\nhits{zone=\"b\"} 4\n",
        );
        assert_eq!(scrape.samples().len(), 3);
        assert_eq!(scrape.sum("hits", &[]).to_bits(), 6.5_f64.to_bits());
        assert_eq!(scrape.sum("hits", &[("zone", "b")]).to_bits(), 4.0_f64.to_bits());
        assert_eq!(scrape.sum("hits", &[("path", "/\"x\\,}")]).to_bits(), 2.5_f64.to_bits());
        assert_eq!(scrape.select("hits", &[("zone", "c")]).count(), 0);
    }
}
