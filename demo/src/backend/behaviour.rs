//! What a backend does with a request: decided as a plain value, so that it can be tested without sockets.

use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;

use super::latency::Latency;

/// The script of a backend. Each field is a flag of `demo backend` and a key of `POST /_control`.
#[derive(Debug, Clone, PartialEq, Serialize, clap::Args)]
pub(crate) struct Behaviour {
    /// Time of a good answer: 20ms, 10ms..30ms, exp:20ms (mean) or lognormal:20ms:0.8 (median, sigma)
    #[arg(long, default_value = "20ms", value_name = "LATENCY")]
    pub(crate) latency: Latency,
    /// Time added to every good answer
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(serialize_with = "as_text")]
    pub(crate) add_latency: Duration,
    /// Percentage of requests that fail
    #[arg(long, default_value_t = 0, value_name = "0..100", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) fail_percent: u8,
    /// Time until a failure is answered: 1ms fails fast, 500ms slowly
    #[arg(long, default_value = "1ms", value_name = "TIME", value_parser = humantime::parse_duration)]
    #[serde(serialize_with = "as_text")]
    pub(crate) fail_after: Duration,
    /// Status of a failure
    #[arg(long, default_value_t = 503, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(crate) fail_status: u16,
    /// Accept requests and never answer them
    #[arg(long)]
    pub(crate) hang: bool,
    /// Size of an answer's body
    #[arg(long, default_value_t = 1024, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pub(crate) body_bytes: u32,
}

fn as_text<S: serde::Serializer>(duration: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&humantime::format_duration(*duration))
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It is never answered.
    Hang,
    /// It is answered.
    Answer { after: Duration, status: StatusCode, body_bytes: usize },
}

impl Behaviour {
    /// Decides one request.
    pub(crate) fn plan(&self, random: &mut fastrand::Rng) -> Plan {
        if self.hang {
            return Plan::Hang;
        }
        let body_bytes = usize::try_from(self.body_bytes).unwrap_or(usize::MAX);
        if random.u8(0..100) < self.fail_percent {
            let status =
                StatusCode::from_u16(self.fail_status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            return Plan::Answer { after: self.fail_after, status, body_bytes };
        }
        Plan::Answer {
            after: self.latency.sample(random) + self.add_latency,
            status: StatusCode::OK,
            body_bytes,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Answers at once.
    pub(crate) fn instant() -> Behaviour {
        Behaviour {
            latency: Latency::Fixed(Duration::ZERO),
            add_latency: Duration::ZERO,
            fail_percent: 0,
            fail_after: Duration::ZERO,
            fail_status: 503,
            hang: false,
            body_bytes: 8,
        }
    }

    #[test]
    fn the_failure_percentage_is_kept() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for percent in [0_u8, 25, 75, 100] {
            let behaviour = Behaviour { fail_percent: percent, ..instant() };
            let failed = (0..10_000).filter(|_| {
                matches!(behaviour.plan(&mut random), Plan::Answer { status, .. } if status.as_u16() == 503)
            });
            let share = failed.count() as f64 / 100.0;
            assert!(
                (share - f64::from(percent)).abs() < 3.0,
                "{percent} % asked, {share} % failed"
            );
        }
    }

    #[test]
    fn failures_take_their_own_time_and_answers_the_added_one() {
        let ms = Duration::from_millis;
        let mut random = fastrand::Rng::with_seed(1);
        let slow = Behaviour { add_latency: ms(400), latency: Latency::Fixed(ms(20)), ..instant() };
        assert_eq!(
            slow.plan(&mut random),
            Plan::Answer { after: ms(420), status: StatusCode::OK, body_bytes: 8 }
        );
        let failing = Behaviour { fail_percent: 100, fail_after: ms(500), ..slow };
        assert_eq!(
            failing.plan(&mut random),
            Plan::Answer { after: ms(500), status: StatusCode::SERVICE_UNAVAILABLE, body_bytes: 8 }
        );
        assert_eq!(Behaviour { hang: true, ..failing }.plan(&mut random), Plan::Hang);
    }
}
