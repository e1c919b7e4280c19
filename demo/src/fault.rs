//! What can be made to happen to zone a.

use std::fmt;
use std::str::FromStr;

/// The zone that fails.
pub(crate) const FAULTY_ZONE: &str = "a";

/// A fault of every backend of [`FAULTY_ZONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Every request fails with 503 after 1 ms.
    Fast,
    /// Every request fails with 503 after 500 ms.
    Slow,
    /// Requests are accepted and never answered.
    Hang,
    /// Answers take 400 ms longer.
    Latency,
    /// This percentage of requests fails with 503 after 1 ms.
    Partial(u8),
    /// The processes are killed.
    Crash,
    /// The processes are killed, and discovery removes them 1.5 s later.
    ZoneDown,
}

/// How a fault is brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// This query is posted to each backend's `/_control`; `reset` heals.
    Control,
    /// The processes are killed; starting them again heals.
    Kill {
        /// Whether discovery removes them too.
        leave_discovery: bool,
    },
}

impl Fault {
    /// How it is brought about.
    pub(crate) fn means(self) -> Means {
        match self {
            Self::Crash => Means::Kill { leave_discovery: false },
            Self::ZoneDown => Means::Kill { leave_discovery: true },
            _ => Means::Control,
        }
    }

    /// The query for `/_control` of [`Means::Control`].
    pub(crate) fn control(self) -> String {
        match self {
            Self::Fast => "fail-percent=100&fail-after=1ms".to_owned(),
            Self::Slow => "fail-percent=100&fail-after=500ms".to_owned(),
            Self::Hang => "hang".to_owned(),
            Self::Latency => "add-latency=400ms".to_owned(),
            Self::Partial(percent) => format!("fail-percent={percent}&fail-after=1ms"),
            Self::Crash | Self::ZoneDown => "crash".to_owned(),
        }
    }

    /// The fault in words, for headings.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Fast => "every request to zone a fails at once (503 after 1 ms)".to_owned(),
            Self::Slow => "every request to zone a fails slowly (503 after 500 ms)".to_owned(),
            Self::Hang => "zone a accepts requests and never answers".to_owned(),
            Self::Latency => "zone a answers 400 ms later".to_owned(),
            Self::Partial(percent) => {
                format!("{percent} % of the requests to zone a fail (503 after 1 ms)")
            }
            Self::Crash => "the backends of zone a are killed".to_owned(),
            Self::ZoneDown => {
                "the backends of zone a are killed, and leave discovery 1.5 s later".to_owned()
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fast => out.write_str("fast"),
            Self::Slow => out.write_str("slow"),
            Self::Hang => out.write_str("hang"),
            Self::Latency => out.write_str("latency"),
            Self::Partial(percent) => write!(out, "partial:{percent}"),
            Self::Crash => out.write_str("crash"),
            Self::ZoneDown => out.write_str("zone-down"),
        }
    }
}

/// What is no fault.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum FaultError {
    #[error(
        "no fault {0:?}; there are fast, slow, hang, latency, partial:PERCENT, crash and zone-down"
    )]
    Unknown(String),
    #[error(
        "partial:{0} does not fit; the percentage is a whole number from 25 to 75, as in partial:50"
    )]
    Percentage(String),
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(given: &str) -> Result<Self, FaultError> {
        Ok(match given {
            "fast" => Self::Fast,
            "slow" => Self::Slow,
            "hang" => Self::Hang,
            "latency" => Self::Latency,
            "crash" => Self::Crash,
            "zone-down" => Self::ZoneDown,
            _ => match given.split_once(':') {
                Some(("partial", percent)) => Self::Partial(percentage(percent)?),
                _ if given == "partial" => return Err(FaultError::Percentage(String::new())),
                _ => return Err(FaultError::Unknown(given.to_owned())),
            },
        })
    }
}

fn percentage(given: &str) -> Result<u8, FaultError> {
    match given.parse() {
        Ok(percent @ 25..=75) => Ok(percent),
        _ => Err(FaultError::Percentage(given.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_written_as_it_is_read() {
        for text in
            ["fast", "slow", "hang", "latency", "partial:25", "partial:75", "crash", "zone-down"]
        {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_fault_says_what_there_is() {
        let check = |text: &str, wanted: &str| {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        };
        check("fats", "there are fast, slow");
        check("partial", "25 to 75");
        check("partial:24", "25 to 75");
        check("partial:half", "25 to 75");
        check("slow:5", "no fault");
    }
}
