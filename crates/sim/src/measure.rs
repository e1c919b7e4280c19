//! What is measured. Everything counts by the time at which the request arrived.

use crate::scenario::Scenario;
use crate::time::{Nanos, SECOND, seconds};
use hdrhistogram::Histogram;
use serde::Serialize;

/// A run's measurements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Success of the callers in zone 0 in the first 5 s of the fault, in per cent.
    pub ok5: f64,
    /// The same in the first 30 s.
    pub ok30: f64,
    /// The same in the whole fault.
    pub ok: f64,
    /// Success of the callers in the other zones in the whole fault.
    pub ok_others: f64,
    /// Cross-zone share of all requests from 20 s to the fault, in per cent.
    pub xs: f64,
    /// The same in the fault.
    pub xf: f64,
    /// The same after the fault.
    pub xr: f64,
    /// Median latency of the callers in zone 0 in the fault, in milliseconds, failures and timeouts included.
    pub p50: f64,
    /// Their 99th percentile.
    pub p99: f64,
    /// Standard deviation of the cross-zone share of a second, in points: before the fault if there is none, else from
    /// 10 s into it.
    pub std: f64,
    /// Seconds from the start of the fault to the first 3 s with 95 % success.
    pub t95: Option<f64>,
    /// Seconds from the end of the fault to the first 5 s with at most 1 % crossing.
    pub back: Option<f64>,
    /// Largest deviation of the mean baseline from its mean after 300 s, in per cent, if it was sampled.
    pub drift: Option<f64>,
    /// What became of all requests.
    pub totals: Totals,
    /// The seconds one by one.
    #[serde(skip)]
    pub seconds: Vec<Second>,
    /// Looks into the balancers, if asked for.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

/// What became of all requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Requests that arrived.
    pub arrived: u64,
    /// Answered.
    pub succeeded: u64,
    /// Failed for good.
    pub failed: u64,
    /// Given up by their caller.
    pub cancelled: u64,
    /// Second attempts.
    pub retries: u64,
}

/// One second of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Requests of zone 0.
    pub requests: u32,
    /// Those that succeeded.
    pub succeeded: u32,
    /// Attempts of zone 0.
    pub attempts: u32,
    /// Those that crossed.
    pub crossed: u32,
    /// Attempts of all zones.
    pub attempts_all: u32,
    /// Those that crossed.
    pub crossed_all: u32,
    /// Requests of the other zones.
    pub requests_others: u32,
    /// Those that succeeded.
    pub succeeded_others: u32,
}

/// A look into the balancers of zone 0: means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// When, in seconds.
    pub at: f64,
    /// Share.
    pub share: f64,
    /// Load.
    pub load: f64,
    /// Baseline in seconds, of those that have one.
    pub baseline: f64,
    /// Load valve.
    pub valve: f64,
    /// Failure cap.
    pub failure_cap: f64,
    /// Remote endpoints that take part.
    pub reach: f64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Answered.
    Succeeded,
    /// Failed for good.
    Failed,
    /// Given up by its caller.
    Cancelled,
}

/// Collects while the world runs.
#[derive(Debug)]
pub struct Recorder {
    fault: (f64, f64),
    /// Whether the scenario has a fault at all.
    faulty: bool,
    seconds: Vec<Second>,
    /// Latencies in microseconds.
    latencies: Histogram<u32>,
    totals: Totals,
    samples: Vec<Sample>,
}

/// Longest latency that the histogram tells apart, in microseconds.
const LATENCY_MAX: u64 = 400_000_000;

impl Recorder {
    /// An empty one.
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            fault: scenario.fault,
            faulty: scenario.episodes.iter().any(|e| e.from >= scenario.fault.0),
            seconds: vec![Second::default(); scenario.end.ceil() as usize],
            latencies: Histogram::new_with_max(LATENCY_MAX, 3)
                .unwrap_or_else(|_| unreachable!("constant arguments")),
            totals: Totals::default(),
            samples: Vec::new(),
        }
    }

    /// A request arrived.
    pub fn arrived(&mut self, at: Nanos, zone: u8) {
        self.totals.arrived += 1;
        let second = self.second(at);
        second.requests += u32::from(zone == 0);
        second.requests_others += u32::from(zone != 0);
    }

    /// An attempt of a request that arrived at `at` was sent.
    pub fn sent(&mut self, at: Nanos, zone: u8, (across, retry): (bool, bool)) {
        self.totals.retries += u64::from(retry);
        let second = self.second(at);
        second.attempts_all += 1;
        second.crossed_all += u32::from(across);
        if zone == 0 {
            second.attempts += 1;
            second.crossed += u32::from(across);
        }
    }

    /// A request that arrived at `at` ended.
    pub fn ended(&mut self, at: Nanos, zone: u8, end: End, now: Nanos) {
        match end {
            End::Succeeded => self.totals.succeeded += 1,
            End::Failed => self.totals.failed += 1,
            End::Cancelled => self.totals.cancelled += 1,
        }
        let succeeded = u32::from(end == End::Succeeded);
        if zone != 0 {
            self.second(at).succeeded_others += succeeded;
            return;
        }
        self.second(at).succeeded += succeeded;
        if (self.fault.0..self.fault.1).contains(&seconds(at)) {
            self.latencies.saturating_record((now - at) / 1000);
        }
    }

    /// A look into the balancers.
    pub fn sampled(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// The result.
    pub fn measured(self) -> Measured {
        let (from, until) = (self.fault.0 as usize, self.fault.1 as usize);
        let steady = &self.seconds[20.min(from)..from];
        let fault = &self.seconds[from..until];
        let after = &self.seconds[until..];
        let first = |n: usize| &fault[..n.min(fault.len())];
        let spread = if self.faulty || fault.len() > 100 { &fault[10..] } else { steady };
        Measured {
            ok5: success(first(5)),
            ok30: success(first(30)),
            ok: success(fault),
            ok_others: percent(fault.iter().map(|s| (s.succeeded_others, s.requests_others))),
            xs: crossing(steady),
            xf: crossing(fault),
            xr: crossing(after),
            p50: self.latencies.value_at_quantile(0.5) as f64 / 1000.0,
            p99: self.latencies.value_at_quantile(0.99) as f64 / 1000.0,
            std: deviation(spread),
            t95: first_window(fault, 3, |window| success(window) >= 95.0),
            back: first_window(after, 5, |window| crossing(window) <= 1.0),
            drift: drift(&self.samples),
            totals: self.totals,
            seconds: self.seconds,
            samples: self.samples,
        }
    }

    fn second(&mut self, at: Nanos) -> &mut Second {
        &mut self.seconds[(at / SECOND) as usize]
    }
}

fn success(window: &[Second]) -> f64 {
    percent(window.iter().map(|s| (s.succeeded, s.requests)))
}

fn crossing(window: &[Second]) -> f64 {
    percent(window.iter().map(|s| (s.crossed_all, s.attempts_all)))
}

/// Of nothing, nothing: success 100 and crossing 0 would both be claims.
fn percent(parts: impl Iterator<Item = (u32, u32)>) -> f64 {
    let (part, whole) = parts.fold((0, 0), |(a, b), (x, y)| (a + u64::from(x), b + u64::from(y)));
    if whole == 0 { f64::NAN } else { 100.0 * part as f64 / whole as f64 }
}

fn deviation(window: &[Second]) -> f64 {
    let shares =
        window.iter().map(|s| crossing(std::slice::from_ref(s))).filter(|share| share.is_finite());
    let (n, sum, squares) =
        shares.fold((0.0, 0.0, 0.0), |(n, sum, sq), x| (n + 1.0, sum + x, sq + x * x));
    let mean: f64 = sum / n;
    (squares / n - mean * mean).max(0.0).sqrt()
}

fn first_window(of: &[Second], length: usize, holds: impl Fn(&[Second]) -> bool) -> Option<f64> {
    of.windows(length).position(holds).map(|start| start as f64)
}

fn drift(samples: &[Sample]) -> Option<f64> {
    let late: Vec<f64> = samples.iter().filter(|s| s.at >= 300.0).map(|s| s.baseline).collect();
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    late.iter().map(|x| 100.0 * (x / mean - 1.0).abs()).reduce(f64::max)
}
