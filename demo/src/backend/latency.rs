//! Distributions of answer times.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

/// No answer takes longer than this, however long the tail of the distribution.
const LONGEST: Duration = Duration::from_mins(5);

/// How long an answer takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Anything from the first to the second, equally likely.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
    /// Log-normal with this median and this sigma of the logarithm.
    LogNormal(Duration, f64),
}

impl Latency {
    /// One answer's time.
    pub(crate) fn sample(self, random: &mut fastrand::Rng) -> Duration {
        let sampled = match self {
            Self::Fixed(fixed) => fixed,
            Self::Uniform(low, high) => low + (high.saturating_sub(low)).mul_f64(random.f64()),
            Self::Exponential(mean) => mean.mul_f64(-(1.0 - random.f64()).ln()),
            Self::LogNormal(median, sigma) => {
                scale(median, (sigma * standard_normal(random)).exp())
            }
        };
        sampled.min(LONGEST)
    }
}

fn scale(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(LONGEST)
}

/// Box and Muller's transform of two uniform numbers.
fn standard_normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// What is not a latency.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{given:?} is no latency; write 20ms, 10ms..30ms (uniform), exp:20ms (mean) or lognormal:20ms:0.8 (median, sigma)"
)]
pub(crate) struct LatencyError {
    given: String,
}

impl FromStr for Latency {
    type Err = LatencyError;

    fn from_str(given: &str) -> Result<Self, LatencyError> {
        parse(given).ok_or_else(|| LatencyError { given: given.to_owned() })
    }
}

fn parse(given: &str) -> Option<Latency> {
    let duration = |text: &str| humantime::parse_duration(text).ok();
    if let Some(mean) = given.strip_prefix("exp:") {
        return duration(mean).map(Latency::Exponential);
    }
    if let Some(rest) = given.strip_prefix("lognormal:") {
        let (median, sigma) = rest.split_once(':')?;
        let sigma = sigma.parse().ok().filter(|sigma: &f64| (0.0..=5.0).contains(sigma))?;
        return Some(Latency::LogNormal(duration(median)?, sigma));
    }
    if let Some((low, high)) = given.split_once("..") {
        let (low, high) = (duration(low)?, duration(high)?);
        return (low <= high).then_some(Latency::Uniform(low, high));
    }
    duration(given).map(Latency::Fixed)
}

impl fmt::Display for Latency {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = humantime::format_duration;
        match *self {
            Self::Fixed(fixed) => text(fixed).fmt(out),
            Self::Uniform(low, high) => write!(out, "{}..{}", text(low), text(high)),
            Self::Exponential(mean) => write!(out, "exp:{}", text(mean)),
            Self::LogNormal(median, sigma) => write!(out, "lognormal:{}:{sigma}", text(median)),
        }
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_written_as_it_is_read() {
        for text in ["20ms", "10ms..30ms", "exp:20ms", "lognormal:20ms:0.8"] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_latency_says_how_to_write_one() {
        for text in ["", "20", "30ms..10ms", "exp:", "lognormal:20ms", "lognormal:20ms:-1", "fast"]
        {
            let error = text.parse::<Latency>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("exp:20ms"), "{error}");
        }
    }

    #[test]
    fn distributions_have_the_mean_or_median_they_name() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut samples = |latency: Latency| {
            let mut samples: Vec<f64> =
                (0..20_000).map(|_| latency.sample(&mut random).as_secs_f64() * 1e3).collect();
            samples.sort_by(f64::total_cmp);
            (samples.iter().sum::<f64>() / 20_000.0, samples[10_000])
        };
        let ms = Duration::from_millis;
        let near = |value: f64, wanted: f64| (value - wanted).abs() < wanted * 0.1;
        assert!(near(samples(Latency::Fixed(ms(20))).1, 20.0));
        assert!(near(samples(Latency::Uniform(ms(10), ms(30))).0, 20.0));
        assert!(near(samples(Latency::Exponential(ms(20))).0, 20.0));
        assert!(near(samples(Latency::LogNormal(ms(20), 0.8)).1, 20.0));
    }
}
