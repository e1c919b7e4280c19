//! How long the requests of a service took lately, for people: quantiles over the last one to two minutes.

use balance::endpoint::Locality;
use balance::time::Timestamp;
use hdrhistogram::Histogram;
use std::time::Duration;

/// After this a window becomes the last one, and the one before it is forgotten.
const WINDOW: Duration = Duration::from_mins(1);

/// Latencies are counted in steps of this and told within 1 %.
const STEP: Duration = Duration::from_micros(100);

/// Longer ones count as this long.
const LONGEST: Duration = Duration::from_mins(10);

/// Latencies of one service by locality of the endpoint. It costs memory (9 KiB a histogram) only for what is used.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    now: [Option<Histogram<u32>>; 2],
    before: [Option<Histogram<u32>>; 2],
    since: Timestamp,
}

/// What is told about them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// Requests counted.
    pub requests: u64,
    /// Half of the requests took at most this long.
    pub p50: Duration,
    /// 90 of 100 took at most this long.
    pub p90: Duration,
    /// 99 of 100 took at most this long.
    pub p99: Duration,
}

impl Latencies {
    /// Counts a request that ended now.
    pub(crate) fn record(&mut self, locality: Locality, took: Duration, now: Timestamp) {
        self.turn(now);
        let [local, remote] = &mut self.now;
        let slot = match locality {
            Locality::Local => local,
            Locality::Remote => remote,
        };
        if slot.is_none() {
            *slot = Histogram::new_with_bounds(1, steps(LONGEST), 2).ok();
        }
        if let Some(histogram) = slot {
            histogram.saturating_record(steps(took).max(1));
        }
    }

    /// The quantiles of local and remote requests; `None` where there were none.
    pub(crate) fn quantiles(&mut self, now: Timestamp) -> [Option<Quantiles>; 2] {
        self.turn(now);
        let [now_local, now_remote] = &self.now;
        let [before_local, before_remote] = &self.before;
        [
            quantiles(now_local.as_ref(), before_local.as_ref()),
            quantiles(now_remote.as_ref(), before_remote.as_ref()),
        ]
    }

    fn turn(&mut self, now: Timestamp) {
        let age = now.since(self.since);
        if age < WINDOW {
            return;
        }
        let ended = std::mem::take(&mut self.now);
        self.before = if age < WINDOW * 2 { ended } else { Default::default() };
        self.since = now;
    }
}

fn quantiles(now: Option<&Histogram<u32>>, before: Option<&Histogram<u32>>) -> Option<Quantiles> {
    let mut all = now.or(before)?.clone();
    if let (Some(_), Some(before)) = (now, before) {
        // Both have the same bounds, so that adding cannot fail.
        all.add(before).ok()?;
    }
    let at = |quantile: f64| {
        STEP.saturating_mul(u32::try_from(all.value_at_quantile(quantile)).unwrap_or(u32::MAX))
    };
    Some(Quantiles { requests: all.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99) })
}

fn steps(took: Duration) -> u64 {
    u64::try_from(took.as_micros() / STEP.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64) -> Timestamp {
        Timestamp::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn quantiles_are_within_one_per_cent() {
        let mut latencies = Latencies::default();
        for milliseconds in 1..=100 {
            latencies.record(Locality::Local, Duration::from_millis(milliseconds), after(1));
        }
        let [local, remote] = latencies.quantiles(after(2));
        let local = local.unwrap();
        assert_eq!(remote, None);
        assert_eq!(local.requests, 100);
        for (measured, exact) in [(local.p50, 50.0), (local.p90, 90.0), (local.p99, 99.0)] {
            let off = measured.as_secs_f64() * 1000.0 / exact - 1.0;
            assert!(off.abs() <= 0.011, "{measured:?} for {exact} ms");
        }
    }

    #[test]
    fn old_requests_are_forgotten_after_two_windows_at_most() {
        let mut latencies = Latencies::default();
        latencies.record(Locality::Remote, Duration::from_millis(5), after(59));
        latencies.record(Locality::Remote, Duration::from_millis(7), after(61));
        let count = |latencies: &mut Latencies, second| {
            latencies.quantiles(after(second))[1].map(|seen| seen.requests)
        };
        assert_eq!(count(&mut latencies, 62), Some(2), "the window before still counts");
        assert_eq!(count(&mut latencies, 122), Some(1), "only the later one");
        assert_eq!(count(&mut latencies, 400), None, "nothing lately");
    }

    #[test]
    fn a_time_out_of_range_is_counted_at_the_edge() {
        let mut latencies = Latencies::default();
        latencies.record(Locality::Local, Duration::ZERO, after(1));
        latencies.record(Locality::Local, Duration::from_hours(9), after(1));
        let [local, _] = latencies.quantiles(after(1));
        let local = local.unwrap();
        assert_eq!(local.p50, STEP);
        assert!(local.p99 >= LONGEST, "{:?}", local.p99);
    }
}
