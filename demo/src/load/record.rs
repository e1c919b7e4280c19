//! From oha's CSV file to every request that was offered.
//!
//! oha writes a line for each request that was answered, whatever the status, and nothing for one that timed out or
//! lost its connection. But it sends on a fixed schedule, request `i` at `i / rate` seconds and never before: so each
//! line is put to the schedule, and what is left of the schedule are the requests without an answer.

/// A line of the file: an answered request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answered {
    /// Seconds from oha's start to the moment of sending.
    sent_at: f64,
    answer: Answer,
}

/// An answer as the caller saw it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Answer {
    /// From sending to the end of the answer.
    pub(crate) latency_ms: f64,
    /// HTTP status.
    pub(crate) status: u16,
}

/// A request of the schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Offered {
    /// When it was due, in seconds from the start.
    pub(crate) due: f64,
    /// Its answer, unless it timed out or lost its connection.
    pub(crate) answer: Option<Answer>,
}

impl Offered {
    /// Puts a request that the fault may have met into the fault: one that was under way when the zone was switched, at
    /// `switched`. `fault` is the second from which the fault is counted.
    pub(crate) fn put_to_fault(&mut self, switched: f64, fault: f64, timeout: f64) {
        let took = self.answer.map_or(timeout, |answer| answer.latency_ms / 1e3);
        if self.due < fault && self.due + took >= switched - ATTRIBUTION_SECONDS {
            self.due = fault;
        }
    }

    /// Whether it was answered with a status of 2xx.
    pub(crate) fn succeeded(&self) -> bool {
        self.answer.is_some_and(|answer| (200..300).contains(&answer.status))
    }
}

/// What lies between our clock and that of the load's file system, at most.
const ATTRIBUTION_SECONDS: f64 = 0.02;

/// What is wrong with a CSV file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum CsvError {
    #[error("the file has no header line; did oha end before its time?")]
    Empty,
    #[error("the header names no column {0}; this demo knows the output of oha 1.16")]
    NoColumn(&'static str),
    #[error("line {line}: {column} is no number")]
    NotANumber { line: usize, column: &'static str },
}

/// Reads a CSV file, finding columns by their names.
pub(crate) fn parse(text: &str) -> Result<Vec<Answered>, CsvError> {
    let mut lines = text.lines().enumerate();
    let header: Vec<&str> = lines.next().ok_or(CsvError::Empty)?.1.split(',').collect();
    let place = |name: &'static str| {
        header.iter().position(|column| *column == name).ok_or(CsvError::NoColumn(name))
    };
    let (sent, duration, status) =
        (place("request-start")?, place("request-duration")?, place("status")?);
    lines
        .map(|(index, line)| {
            let fields: Vec<&str> = line.split(',').collect();
            let number = |place: usize, column: &'static str| {
                let number = fields.get(place).and_then(|field| field.parse::<f64>().ok());
                number.ok_or(CsvError::NotANumber { line: index + 1, column })
            };
            let code = fields.get(status).and_then(|field| field.parse().ok());
            Ok(Answered {
                sent_at: number(sent, "request-start")?,
                answer: Answer {
                    latency_ms: number(duration, "request-duration")? * 1e3,
                    status: code
                        .ok_or(CsvError::NotANumber { line: index + 1, column: "status" })?,
                },
            })
        })
        .collect()
}

/// Puts the answered requests to the schedule of `rate` a second, of which `seconds` are wanted; `late` is what lies
/// between the demo's start and oha's, in seconds.
///
/// A request that was sent belongs to the latest moment of the schedule that is not after it and not taken: exact when
/// it was sent in time, and right in number when the machine was busy and oha caught up with several at once.
pub(crate) fn offered(
    mut answered: Vec<Answered>,
    rate: u32,
    seconds: u32,
    late: f64,
) -> Vec<Offered> {
    answered.sort_by(|one, other| one.sent_at.total_cmp(&other.sent_at));
    // The load runs a little longer than what is wanted: that part is put to the schedule too, and then left out.
    let sent = answered.last().map_or(0.0, |last| last.sent_at.max(0.0) * f64::from(rate));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative; a cast saturates"
    )]
    let length = (rate as usize * seconds as usize).max(sent as usize + 1);
    let due = |index: usize| index as f64 / f64::from(rate);
    let mut schedule: Vec<_> =
        (0..length).map(|index| Offered { due: due(index), answer: None }).collect();
    let mut waiting: Vec<usize> = Vec::new();
    let mut upcoming = 0_usize;
    for Answered { sent_at, answer } in answered {
        while schedule.get(upcoming).is_some_and(|offered| offered.due <= sent_at + CLOCK_ERROR) {
            waiting.push(upcoming);
            upcoming += 1;
        }
        let taken = waiting.pop().and_then(|index| schedule.get_mut(index));
        debug_assert!(taken.is_some(), "oha sent more than it was asked for");
        if let Some(offered) = taken {
            offered.answer = Some(answer);
        }
    }
    let shifted =
        schedule.into_iter().map(|offered| Offered { due: offered.due + late, ..offered });
    shifted.filter(|offered| offered.due < f64::from(seconds)).collect()
}

/// Rounding in the file, in seconds; far below the distance of two requests.
const CLOCK_ERROR: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status";

    #[test]
    fn lines_give_time_latency_and_status() {
        let text = format!("{HEADER}\n0.0105,0,0,0.02,0.021,1024,200\n1.5,0.1,0.2,0,0.5,0,503\n");
        let wanted =
            [(0.0105, 21.0, 200), (1.5, 500.0, 503)].map(|(sent_at, latency_ms, status)| {
                Answered { sent_at, answer: Answer { latency_ms, status } }
            });
        assert_eq!(parse(&text).unwrap(), wanted);
    }

    #[test]
    fn columns_are_found_by_name() {
        let parsed = parse("status,extra,request-duration,request-start\n404,x,0.001,2").unwrap();
        assert_eq!(
            parsed,
            [Answered { sent_at: 2.0, answer: Answer { latency_ms: 1.0, status: 404 } }]
        );
    }

    #[test]
    fn a_broken_file_says_what_is_wrong() {
        assert_eq!(parse(""), Err(CsvError::Empty));
        assert_eq!(parse("request-start,status\n"), Err(CsvError::NoColumn("request-duration")));
        let cut = format!("{HEADER}\n0.1,0,0,0,0.02,1,200\n0.2,0,0");
        assert_eq!(parse(&cut), Err(CsvError::NotANumber { line: 3, column: "request-duration" }));
    }

    fn put(sent: &[f64], rate: u32, seconds: u32) -> Vec<bool> {
        let answer = Answer { latency_ms: 1.0, status: 200 };
        let answered = sent.iter().map(|&sent_at| Answered { sent_at, answer }).collect();
        offered(answered, rate, seconds, 0.0).iter().map(Offered::succeeded).collect()
    }

    #[test]
    fn what_has_no_line_is_a_failure_at_its_own_time() {
        assert_eq!(put(&[0.001, 0.101, 0.401], 10, 1)[..5], [true, true, false, false, true]);
        assert_eq!(put(&[], 10, 1), [false; 10]);
    }

    #[test]
    fn requests_sent_late_in_a_burst_are_all_found() {
        assert_eq!(
            put(&[0.31, 0.31, 0.311, 0.312, 0.4], 10, 1)[..6],
            [true, true, true, true, true, false]
        );
    }

    #[test]
    fn requests_beyond_the_schedule_count_for_nothing() {
        let sent: Vec<f64> = (0..15).map(|index| f64::from(index) / 10.0 + 0.0005).collect();
        assert_eq!(put(&sent, 10, 1), [true; 10]);
        let without_one: Vec<f64> =
            sent.into_iter().filter(|sent| (sent - 0.3005).abs() > 0.01).collect();
        assert_eq!(put(&without_one, 10, 1).iter().filter(|succeeded| !**succeeded).count(), 1);
    }

    #[test]
    fn a_load_that_started_late_is_put_to_its_own_time() {
        let answer = Answer { latency_ms: 1.0, status: 200 };
        let answered = (0..20)
            .map(|index| Answered { sent_at: f64::from(index) / 10.0 + 0.001, answer })
            .collect();
        let offered = offered(answered, 10, 1, 0.25);
        let due: Vec<String> =
            offered.iter().map(|offered| format!("{:.2}", offered.due)).collect();
        assert_eq!(due, ["0.25", "0.35", "0.45", "0.55", "0.65", "0.75", "0.85", "0.95"]);
        assert!(offered.iter().all(Offered::succeeded));
    }

    #[test]
    fn what_was_under_way_at_the_switch_belongs_to_the_fault() {
        let check = |due: f64, latency_ms: Option<f64>, wanted: f64| {
            let answer = latency_ms.map(|latency_ms| Answer { latency_ms, status: 503 });
            let mut offered = Offered { due, answer };
            offered.put_to_fault(30.001, 30.0, 2.0);
            assert!((offered.due - wanted).abs() < 1e-9, "{due} {latency_ms:?}: {}", offered.due);
        };
        check(29.90, Some(20.0), 29.90); // answered before
        check(29.985, Some(20.0), 30.0); // its connection was cut
        check(29.99, Some(1.0), 30.0); // as near as the clocks can tell
        check(28.5, None, 30.0); // waited for an answer that never came
        check(27.0, None, 27.0); // lost before
        check(30.5, Some(1.0), 30.5);
    }

    #[test]
    fn only_two_hundreds_succeed() {
        for (status, succeeded) in
            [(200, true), (204, true), (302, false), (404, false), (503, false)]
        {
            let answer = Some(Answer { latency_ms: 1.0, status });
            assert_eq!(Offered { due: 0.0, answer }.succeeded(), succeeded, "{status}");
        }
    }
}
