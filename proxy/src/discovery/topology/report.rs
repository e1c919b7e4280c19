//! What is wrong with a topology file, told so that its author can mend it.

use std::fmt;
use std::ops::Range;

/// Mistakes told of one file; the rest is counted. Nobody reads more at once.
const MISTAKES_MAX: usize = 100;

/// Characters shown of a wrong value.
const WRITTEN_CHARS_MAX: usize = 60;

/// All mistakes of a file, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    /// The mistakes.
    pub mistakes: Vec<Mistake>,
    /// How many more there are.
    pub more: usize,
}

impl Report {
    /// How many mistakes, in words.
    pub fn count(&self) -> String {
        match self.mistakes.len() + self.more {
            1 => "1 mistake".to_owned(),
            count => format!("{count} mistakes"),
        }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its line, counted from 1.
    pub line: usize,
    /// What it is about: `service[0].endpoint[2].address`. Empty for mistakes of writing TOML.
    pub path: String,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(f, "line {}: {}{colon}{}; {}", self.line, self.path, self.problem, self.remedy)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let feed = if index == 0 { "" } else { "\n" };
            write!(f, "{feed}{mistake}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

/// The mistakes found so far in one text.
pub(super) struct Findings<'t> {
    text: &'t str,
    found: Vec<(usize, Mistake)>,
}

impl<'t> Findings<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    /// What stands in the file, shortened.
    pub(super) fn written(&self, span: Range<usize>) -> String {
        let text = self.text.get(span).unwrap_or_default();
        let short: String = text.chars().take(WRITTEN_CHARS_MAX).collect();
        if short.len() < text.len() { format!("{short}...") } else { short }
    }

    pub(super) fn add(&mut self, span: Range<usize>, path: &str, problem: &str, remedy: &str) {
        let mistake = Mistake {
            line: self.line(span.start),
            path: path.to_owned(),
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        };
        let entry = (span.start, mistake);
        if !self.found.contains(&entry) {
            self.found.push(entry);
        }
    }

    /// A mistake of writing TOML. Of several in one line the first is told: the others mostly follow from it.
    pub(super) fn syntax(&mut self, span: Option<Range<usize>>, message: &str) {
        let at = span.map_or(self.text.len(), |span| span.start);
        let line = self.line(at);
        if !self.found.iter().any(|(_, mistake)| mistake.line == line) {
            self.add(
                at..at,
                "",
                &format!("this is not TOML: {message}"),
                "mend this line, more may show up behind it",
            );
        }
    }

    pub(super) fn into_report(mut self) -> Report {
        self.found.sort_by_key(|(at, _)| *at);
        let more = self.found.len().saturating_sub(MISTAKES_MAX);
        self.found.truncate(MISTAKES_MAX);
        Report { mistakes: self.found.into_iter().map(|(_, mistake)| mistake).collect(), more }
    }
}

/// The known name that was probably meant.
pub(super) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let lower = written.to_ascii_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&lower, &name.to_ascii_lowercase());
    let (distance, name) = known.into_iter().map(|name| (distance(name), name)).min()?;
    (distance <= (written.chars().count() / 3).clamp(1, 3)).then_some(name)
}
