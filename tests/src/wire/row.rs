//! One row of the table: bytes in, what has to come of it.

use crate::wire::strict::{Framing, Message};

/// A row about HTTP/1.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name, for messages and the page.
    pub id: &'static str,
    /// The first bytes that the caller sends.
    pub request: Vec<u8>,
    /// What the origin answers to the first request.
    pub answer: Vec<u8>,
    /// When it answers.
    pub when: When,
    /// What it does after that answer.
    pub then: Then,
    /// What our proxy has to make of it.
    pub expected: Expected,
}

/// When the origin answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// After the whole request.
    Whole,
    /// As soon as the request's head is there.
    Head,
}

/// What the origin does after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Waits for the next request.
    Keep,
    /// Closes.
    Close,
}

/// What has to come of a row.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The status of the answer; 0 when the connection ends without one.
    pub status: u16,
    /// How the connection is afterwards; `None` when either is right.
    pub end: Option<End>,
    /// How many requests the origin may have seen.
    pub requests: usize,
    /// What the first of them must say, as lines of [`Message::text`].
    pub says: Vec<&'static str>,
    /// What it must not say anywhere.
    pub lacks: Vec<&'static str>,
    /// What the answer must say.
    pub answer_says: Vec<&'static str>,
    /// What the answer must not say anywhere.
    pub answer_lacks: Vec<&'static str>,
    /// Whether the bytes reach the origin as they are, since they are no HTTP.
    pub raw: bool,
    /// Whether the answer must end before its proper end.
    pub truncated: bool,
}

/// What became of the caller's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It served a further request.
    Kept,
    /// It was closed.
    Closed,
    /// Nothing came for as long as the test had patience.
    Silent,
}

/// What came of a row.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Informational answers before the answer.
    pub informational: Vec<u16>,
    /// The answer, if one came.
    pub answer: Option<Message>,
    /// Why what came is no whole answer.
    pub broken: Option<&'static str>,
    /// What became of the connection.
    pub end: End,
    /// The requests that the origin saw, the one that probed the connection not counted.
    pub requests: Vec<Message>,
    /// Why what the origin saw is no request.
    pub junk: Vec<&'static str>,
}

/// What every row's origin answers unless the row says otherwise.
pub const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

impl Row {
    /// A row whose request is to be passed on and answered by 200.
    pub fn new(id: &'static str, request: impl Into<Vec<u8>>) -> Self {
        Self {
            id,
            request: request.into(),
            answer: PLAIN.into(),
            when: When::Whole,
            then: Then::Keep,
            expected: Expected {
                status: 200,
                end: Some(End::Kept),
                requests: 1,
                ..Expected::default()
            },
        }
    }

    /// The origin answers this.
    #[must_use]
    pub fn answered(mut self, answer: impl Into<Vec<u8>>) -> Self {
        self.answer = answer.into();
        self
    }

    /// The origin closes after its answer.
    #[must_use]
    pub fn then_closed(mut self) -> Self {
        self.then = Then::Close;
        self
    }

    /// The origin answers as soon as it has the head.
    #[must_use]
    pub fn early(mut self) -> Self {
        self.when = When::Head;
        self
    }

    /// The proxy refuses it; no request reaches the origin, and the caller's connection ends.
    #[must_use]
    pub fn refused(mut self, status: u16) -> Self {
        self.expected.status = status;
        self.expected.end = Some(End::Closed);
        self.expected.requests = 0;
        self
    }

    /// The proxy does not take it for HTTP and passes the bytes on as they are: what the origin makes of it is its own matter.
    #[must_use]
    pub fn passed_on_raw(mut self) -> Self {
        self.expected.raw = true;
        self.refused(0)
    }

    /// The status.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.expected.status = status;
        self
    }

    /// The connection's end.
    #[must_use]
    pub fn end(mut self, end: impl Into<Option<End>>) -> Self {
        self.expected.end = end.into();
        self
    }

    /// How many requests reach the origin.
    #[must_use]
    pub fn requests(mut self, count: usize) -> Self {
        self.expected.requests = count;
        self
    }

    /// What the origin must see.
    #[must_use]
    pub fn says(mut self, lines: &[&'static str]) -> Self {
        self.expected.says.extend(lines);
        self
    }

    /// What the origin must not see.
    #[must_use]
    pub fn lacks(mut self, parts: &[&'static str]) -> Self {
        self.expected.lacks.extend(parts);
        self
    }

    /// What the caller must see.
    #[must_use]
    pub fn answer_says(mut self, lines: &[&'static str]) -> Self {
        self.expected.answer_says.extend(lines);
        self
    }

    /// What the caller must not see.
    #[must_use]
    pub fn answer_lacks(mut self, parts: &[&'static str]) -> Self {
        self.expected.answer_lacks.extend(parts);
        self
    }

    /// The answer is cut short, and must arrive cut short.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.expected.truncated = true;
        self.expected.end = Some(End::Closed);
        self
    }
}

impl Expected {
    /// What is not as it has to be; empty when all is well.
    pub fn complaints(&self, outcome: &Outcome) -> Vec<String> {
        let mut complaints = Vec::new();
        let status = outcome.answer.as_ref().map_or(0, Message::status);
        let mut expect = |good: bool, complaint: String| {
            if !good {
                complaints.push(complaint);
            }
        };
        expect(status == self.status, format!("status {status}, not {}", self.status));
        let end = self.end.is_none_or(|end| end == outcome.end) && outcome.end != End::Silent;
        expect(end, format!("{:?}, not {:?}", outcome.end, self.end));
        let junk = outcome.junk.is_empty() != self.raw;
        expect(junk, format!("the origin saw {:?}", outcome.junk));
        let requests = outcome.requests.len();
        expect(requests == self.requests, format!("{requests} requests, not {}", self.requests));
        expect(
            outcome.broken.is_some() == self.truncated,
            format!("an answer that is {:?}", outcome.broken),
        );
        let request = outcome.requests.first().map(Message::text).unwrap_or_default();
        let answer = outcome.answer.as_ref().map(Message::text).unwrap_or_default();
        for (wanted, text) in [(&self.says, &request), (&self.answer_says, &answer)] {
            for line in wanted {
                expect(text.lines().any(|found| found == *line), format!("no line {line:?}"));
            }
        }
        for (unwanted, text) in [(&self.lacks, &request), (&self.answer_lacks, &answer)] {
            for part in unwanted {
                expect(!text.contains(part), format!("{part:?} is there"));
            }
        }
        complaints
    }
}

impl Outcome {
    /// A few words for the page.
    pub fn summary(&self) -> String {
        let mut words: Vec<String> = self.informational.iter().map(u16::to_string).collect();
        words.push(match (&self.answer, self.broken) {
            (Some(answer), None) => answer.status().to_string(),
            (Some(answer), Some(_)) => format!("{} cut short", answer.status()),
            (None, _) => "no answer".to_owned(),
        });
        words.push(match self.end {
            End::Kept => "kept".to_owned(),
            End::Closed => "closed".to_owned(),
            End::Silent => "hangs".to_owned(),
        });
        let seen = self.requests.iter().map(|request| match request.framing {
            Framing::None | Framing::Close => "no body".to_owned(),
            Framing::Length(length) => format!("length {length}"),
            Framing::Chunked => format!("chunked {}", request.body.len()),
        });
        let junk = self.junk.iter().map(|why| format!("junk: {why}"));
        let seen: Vec<String> = seen.chain(junk).collect();
        let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(" + ") };
        format!("{}; origin: {seen}", words.join(", "))
    }
}
