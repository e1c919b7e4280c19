//! Log lines, on standard error.
//!
//! Names and messages may come from strangers: control characters in them are escaped, so that a line is a line and no
//! terminal is steered.

use std::io::{self, Write};
use std::str::FromStr;
use std::time::Duration;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for Format {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogError::Format),
        }
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The format is none of those there are.
    #[error("no such format: write text or json")]
    Format,
    /// The level cannot be read.
    #[error(
        "no such level: write error, warn, info, debug or trace, or pairs such as info,hyper=warn ({0})"
    )]
    Level(String),
    /// A log was set up before.
    #[error("the log is set up already")]
    Twice,
}

/// Sends the log lines of the whole process to standard error. `level` is a level, or a list of `target=level`.
pub fn init(level: &str, format: Format) -> Result<(), LogError> {
    let filter = filter(level)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Escaped(io::stderr));
    match format {
        Format::Text => lines.finish().try_init(),
        Format::Json => lines.json().flatten_event(true).finish().try_init(),
    }
    .map_err(|_already| LogError::Twice)
}

/// A word that is no level would be taken for the name of a module, and the log be silent.
fn filter(level: &str) -> Result<EnvFilter, LogError> {
    // An empty variable is how manifests leave a value out.
    let level = if level.trim().is_empty() { "info" } else { level };
    let mut words = level.split(',').map(str::trim).filter(|word| !word.contains('='));
    if let Some(word) = words.find(|word| LevelFilter::from_str(word).is_err()) {
        return Err(LogError::Level(format!("'{word}' is none")));
    }
    EnvFilter::builder().parse(level).map_err(|error| LogError::Level(error.to_string()))
}

/// A writer whose every write is one line: control characters before the final line feed are escaped.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<W>(pub W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Escaped<W> {
    type Writer = EscapedWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapedWriter(self.0.make_writer())
    }
}

/// Writes to its inner writer, escaping.
#[derive(Debug)]
pub struct EscapedWriter<W>(W);

impl<W: Write> Write for EscapedWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match escape(line) {
            None => self.0.write_all(line)?,
            Some(escaped) => self.0.write_all(escaped.as_bytes())?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The line without control characters; `None` when it has none, as nearly always.
fn escape(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let (body, end) = text.strip_suffix('\n').map_or((&*text, ""), |body| (body, "\n"));
    if !body.contains(char::is_control) {
        return None;
    }
    let mut escaped = String::with_capacity(line.len() + 16);
    for character in body.chars() {
        if character.is_control() {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped.push_str(end);
    Some(escaped)
}

/// Lets a message through at most once in `interval`, and counts those held back in between.
#[derive(Debug)]
pub struct Throttle {
    interval: Duration,
    state: parking_lot::Mutex<(Option<Instant>, u64)>,
}

impl Throttle {
    /// A throttle that has seen nothing.
    pub const fn new(interval: Duration) -> Self {
        Self { interval, state: parking_lot::const_mutex((None, 0)) }
    }

    /// Whether the message may appear now: if so, how many were held back since the last.
    pub fn pass(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let (last, held_back) = &mut *state;
        if last.is_some_and(|last| now.duration_since(last) < self.interval) {
            *held_back += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_level_that_is_none_is_refused_and_an_empty_one_is_the_default() {
        for good in ["info", "WARN", "off", "", " ", "info,hyper=warn", "hyper=debug"] {
            assert!(filter(good).is_ok(), "{good:?}");
        }
        assert_eq!(filter("").unwrap().to_string(), "info");
        for bad in ["loud", "verbose", "info,loud", "proxy=loud"] {
            let told = filter(bad).unwrap_err().to_string();
            assert!(told.starts_with("no such level"), "{bad:?}: {told}");
        }
    }

    #[test]
    fn a_line_stays_a_line() {
        let cases = [
            ("plain\n", "plain\n"),
            ("two\nlines\n", "two\\nlines\n"),
            ("bell \x07 and \x1b[31mred\n", "bell \\u{7} and \\u{1b}[31mred\n"),
            ("c1 \u{9b}31m\n", "c1 \\u{9b}31m\n"),
            ("größe → ok\n", "größe → ok\n"),
            ("no end\r", "no end\\r"),
        ];
        for (line, expected) in cases {
            let mut out = Vec::new();
            EscapedWriter(&mut out).write_all(line.as_bytes()).expect("a vector takes all");
            assert_eq!(String::from_utf8(out).expect("text"), expected, "{line:?}");
        }
    }

    #[test]
    fn names_of_strangers_cannot_forge_lines() {
        let out = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let sink = Arc::clone(&out);
        let lines = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_writer(Escaped(move || Sink(Arc::clone(&sink))));
        tracing::subscriber::with_default(lines.finish(), || {
            tracing::info!(service = %"web\n2026 ERROR forged", "resolved");
        });
        let text = String::from_utf8(out.lock().clone()).expect("text");
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(text.contains("forged"), "{text:?}");
    }

    struct Sink(Arc<parking_lot::Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttle_passes_one_and_counts_the_rest() {
        let throttle = Throttle::new(Duration::from_secs(10));
        assert_eq!(throttle.pass(Instant::now()), Some(0));
        for _ in 0..3 {
            assert_eq!(throttle.pass(Instant::now()), None);
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(throttle.pass(Instant::now()), Some(3));
        assert_eq!(throttle.pass(Instant::now()), None);
    }

    #[test]
    fn formats_are_read() {
        assert_eq!("json".parse::<Format>().ok(), Some(Format::Json));
        assert_eq!("text".parse::<Format>().ok(), Some(Format::Text));
        assert!(
            "xml".parse::<Format>().is_err_and(|error| error.to_string().contains("text or json"))
        );
    }
}
