//! From the written form to a valid policy. All mistakes are found at once.

use super::spec::{BackoffSpec, BreakerSpec, LoadSpec, PolicySpec, RetrySpec, Signal, TimeoutSpec};
use super::{
    Backoff, Breaker, LoadBand, MinEndpoints, Mistake, Percent, Policy, Retry, Tier, Timeout,
};
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Limits of the fields, each with its reason; `fields::FIELDS` shows them to users.
pub(super) mod limit {
    use super::{Duration, RangeInclusive};

    /// More endpoints than a service has would be a guard that always fails.
    pub(crate) const ENDPOINTS: RangeInclusive<u32> = 0..=10_000;
    /// Above 100 times the uncongested level, requests have timed out long before.
    pub(crate) const LOAD: f64 = 100.0;
    /// HAZL's signal counts requests per endpoint; a busy gateway may hold thousands.
    pub(crate) const OUTSTANDING: f64 = 100_000.0;
    /// Below 100 %, healthy localities would never be used whole; the upper end switches the rule off.
    pub(crate) const OVERPROVISIONING: RangeInclusive<f64> = 100.0..=100_000.0;
    /// 0 would eject on nothing.
    pub(crate) const CONSECUTIVE: RangeInclusive<u32> = 1..=1_000;
    /// The window holds seconds of traffic, so more is never seen.
    pub(crate) const MIN_REQUESTS: RangeInclusive<u32> = 1..=10_000;
    /// Shorter pauses probe a dead endpoint without end, longer ones are for ever.
    pub(crate) const BACKOFF: RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_hours(1);
    /// A second retry multiplies load in an overload and gains next to nothing.
    pub(crate) const ATTEMPTS: RangeInclusive<u32> = 1..=2;
    /// Shorter is below the network's own round trip, longer than a minute no caller waits to connect.
    pub(crate) const CONNECT: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_mins(1);
    /// A day bounds the longest job.
    pub(crate) const REQUEST: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_hours(24);
}

impl Policy {
    /// The policy that `spec` describes, built-in values where it is silent; or every mistake in it.
    pub fn parse(spec: &PolicySpec) -> Result<Self, Vec<Mistake>> {
        let base = Self::default();
        let mut found = Mistakes(Vec::new());
        let policy = Self {
            mode: spec.mode.unwrap_or(base.mode),
            tiers: tiers(spec.tiers.as_deref(), &mut found).unwrap_or(base.tiers),
            min_endpoints: min_endpoints(spec, base.min_endpoints, &mut found),
            min_healthy: found.percent(
                "minHealthyPercent",
                spec.min_healthy_percent,
                base.min_healthy,
            ),
            fallback: spec.fallback.unwrap_or(base.fallback),
            max_remote: found.percent("maxRemotePercent", spec.max_remote_percent, base.max_remote),
            percent: found.percent("percent", spec.percent, base.percent),
            load: load(spec.load.as_ref(), base.load, &mut found),
            failure_budget: found.percent(
                "failureBudgetPercent",
                spec.failure_budget_percent,
                base.failure_budget,
            ),
            overprovisioning: Percent(found.within(
                "overprovisioningPercent",
                spec.overprovisioning_percent.unwrap_or(base.overprovisioning.0),
                limit::OVERPROVISIONING,
            )),
            algorithm: spec.algorithm.unwrap_or(base.algorithm),
            breaker: breaker(spec.breaker.as_ref(), base.breaker, &mut found),
            retry: retry(spec.retry.as_ref(), base.retry, &mut found),
            timeout: timeout(spec.timeout.as_ref(), base.timeout, &mut found),
        };
        if found.0.is_empty() { Ok(policy) } else { Err(found.0) }
    }
}

fn tiers(spec: Option<&[Tier]>, found: &mut Mistakes) -> Option<Vec<Tier>> {
    let tiers = spec?;
    if tiers.is_empty() {
        found.add(
            "tiers",
            "is empty, so that no endpoint could be used",
            "name at least one of node, zone, region, any",
        );
    } else if !tiers.is_sorted_by(|nearer, farther| nearer < farther) {
        found.add(
            "tiers",
            "is out of order or names a tier twice",
            "list each at most once, nearest first: node, zone, region, any",
        );
    }
    Some(tiers.to_vec())
}

fn min_endpoints(spec: &PolicySpec, base: MinEndpoints, found: &mut Mistakes) -> MinEndpoints {
    let Some(spec) = &spec.min_endpoints else { return base };
    MinEndpoints {
        local: found.within(
            "minEndpoints.local",
            spec.local.unwrap_or(base.local),
            limit::ENDPOINTS,
        ),
        total: found.within(
            "minEndpoints.total",
            spec.total.unwrap_or(base.total),
            limit::ENDPOINTS,
        ),
    }
}

fn load(spec: Option<&LoadSpec>, base: LoadBand, found: &mut Mistakes) -> LoadBand {
    let Some(spec) = spec else { return base };
    let signal = spec.signal.unwrap_or(Signal::Normalized);
    let (low, high) = match signal {
        Signal::Normalized => LoadBand::NORMALIZED.bounds(),
        Signal::Outstanding => LoadBand::OUTSTANDING.bounds(),
    };
    band(
        signal,
        spec.low.unwrap_or(low),
        spec.high.unwrap_or(high),
        &mut |field, problem, remedy| {
            found.add(&format!("load.{field}"), problem, remedy);
        },
    )
}

/// A load band; each mistake goes to `found` as field (`low` or `high`), problem and remedy.
pub(super) fn band(
    signal: Signal,
    low: f64,
    high: f64,
    found: &mut dyn FnMut(&str, &str, &str),
) -> LoadBand {
    let (band, lowest, highest) = match signal {
        Signal::Normalized => (LoadBand::Normalized { low, high }, 1.0, limit::LOAD),
        Signal::Outstanding => (LoadBand::Outstanding { low, high }, 0.0, limit::OUTSTANDING),
    };
    let low_ok = low > lowest && low.is_finite();
    if !low_ok {
        let remedy = match signal {
            Signal::Normalized => {
                "set it above 1, which is the load of a service that queues nothing"
            }
            Signal::Outstanding => "set it above 0",
        };
        found("low", &format!("{low} is not above {lowest}"), remedy);
    }
    if high.is_nan() || high > highest {
        found(
            "high",
            &format!("{high} is above {highest}"),
            "set it lower: a band that high never opens",
        );
    } else if low_ok && high <= low {
        found(
            "high",
            &format!("{high} is not above low, {low}"),
            "set high above low: the band lies between them",
        );
    } else if low_ok && matches!(signal, Signal::Outstanding) && high / low <= 2.0 {
        let problem = format!("{high} is not more than twice low, {low}");
        found(
            "high",
            &problem,
            "raise high or lower low: going from one endpoint to two halves the load, so a narrower band swings",
        );
    }
    band
}

fn breaker(spec: Option<&BreakerSpec>, base: Breaker, found: &mut Mistakes) -> Breaker {
    let Some(spec) = spec else { return base };
    Breaker {
        consecutive: found.within(
            "breaker.consecutive",
            spec.consecutive.unwrap_or(base.consecutive),
            limit::CONSECUTIVE,
        ),
        success_rate: found.percent(
            "breaker.successRatePercent",
            spec.success_rate_percent,
            base.success_rate,
        ),
        min_requests: found.within(
            "breaker.minRequests",
            spec.min_requests.unwrap_or(base.min_requests),
            limit::MIN_REQUESTS,
        ),
        backoff: backoff(spec.backoff.as_ref(), base.backoff, found),
    }
}

fn backoff(spec: Option<&BackoffSpec>, base: Backoff, found: &mut Mistakes) -> Backoff {
    let Some(spec) = spec else { return base };
    let min = found.duration("breaker.backoff.min", spec.min.as_deref(), limit::BACKOFF);
    let max = found.duration("breaker.backoff.max", spec.max.as_deref(), limit::BACKOFF);
    let backoff = Backoff { min: min.unwrap_or(base.min), max: max.unwrap_or(base.max) };
    if backoff.min > backoff.max {
        let [min, max] = [backoff.min, backoff.max].map(humantime::format_duration);
        found.add(
            "breaker.backoff.max",
            &format!("{max} is below min, {min}"),
            "set max to at least min",
        );
    }
    backoff
}

fn retry(spec: Option<&RetrySpec>, base: Retry, found: &mut Mistakes) -> Retry {
    let Some(spec) = spec else { return base };
    let mut seen = HashSet::new();
    if spec.on.iter().flatten().any(|condition| !seen.insert(condition)) {
        found.add(
            "retry.on",
            "names a condition twice",
            "list each of connect, refused-stream, 5xx at most once",
        );
    }
    Retry {
        budget: found.percent("retry.budgetPercent", spec.budget_percent, base.budget),
        attempts: found.within(
            "retry.attempts",
            spec.attempts.unwrap_or(base.attempts),
            limit::ATTEMPTS,
        ),
        on: spec.on.clone().unwrap_or(base.on),
        methods: spec.methods.unwrap_or(base.methods),
    }
}

fn timeout(spec: Option<&TimeoutSpec>, base: Timeout, found: &mut Mistakes) -> Timeout {
    let Some(spec) = spec else { return base };
    let timeout = Timeout {
        connect: found
            .duration("timeout.connect", spec.connect.as_deref(), limit::CONNECT)
            .unwrap_or(base.connect),
        request: found.duration("timeout.request", spec.request.as_deref(), limit::REQUEST),
        per_try: found.duration("timeout.perTry", spec.per_try.as_deref(), limit::REQUEST),
    };
    if let (Some(request), Some(per_try)) = (timeout.request, timeout.per_try)
        && per_try > request
    {
        let [per_try, request] = [per_try, request].map(humantime::format_duration);
        found.add(
            "timeout.perTry",
            &format!("{per_try} is above request, {request}"),
            "set perTry to at most request, or leave it out",
        );
    }
    timeout
}

/// What was found so far, and the checks that fields share.
struct Mistakes(Vec<Mistake>);

impl Mistakes {
    fn add(&mut self, path: &str, problem: &str, remedy: &str) {
        self.0.push(Mistake {
            path: path.to_owned(),
            problem: problem.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    fn percent(&mut self, path: &str, value: Option<f64>, base: Percent) -> Percent {
        Percent(value.map_or(base.0, |value| self.within(path, value, 0.0..=100.0)))
    }

    /// A number as it is; outside its range it is a mistake.
    fn within<T: PartialOrd + Display>(
        &mut self,
        path: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> T {
        if !range.contains(&value) {
            let (start, end) = range.into_inner();
            self.add(
                path,
                &format!("{value} is out of range"),
                &format!("set it to {start} up to {end}"),
            );
        }
        value
    }

    /// `None` when the field is not set, or is wrong.
    fn duration(
        &mut self,
        path: &str,
        text: Option<&str>,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let text = text?;
        let Ok(value) = humantime::parse_duration(text) else {
            self.add(
                path,
                &format!("{text:?} is no duration"),
                "write a number with its unit: 250ms, 1s, 2m",
            );
            return None;
        };
        if range.contains(&value) {
            return Some(value);
        }
        let (start, end) = range.into_inner();
        let [start, end] = [start, end].map(humantime::format_duration);
        self.add(
            path,
            &format!("{text} is out of range"),
            &format!("set it to {start} up to {end}"),
        );
        None
    }
}
