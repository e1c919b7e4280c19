//! Figures of the phases, from what the callers saw (oha) and what the proxies counted.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::fault::FAULTY_ZONE;
use crate::load::TIMEOUT;
use crate::load::record::Offered;
use crate::observe::Observed;
use crate::policy::Policy;
use crate::timeline::{Phase, Timeline};

/// Everything recorded of one policy.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) policy: Policy,
    /// In the order of [`crate::policy::ZONES`].
    pub(crate) zones: Vec<ZoneRecord>,
}

/// Everything recorded of the callers of one zone.
#[derive(Debug)]
pub(crate) struct ZoneRecord {
    pub(crate) zone: &'static str,
    /// What the callers saw.
    pub(crate) offered: Vec<Offered>,
    /// What their proxy said.
    pub(crate) observed: Observed,
}

/// Figures of one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figures {
    pub(crate) policy: &'static str,
    pub(crate) phases: Vec<PhaseFigures>,
    /// Seconds from the heal until the zone that failed keeps more than 99 % of its requests, for good.
    pub(crate) seconds_to_local: Option<u32>,
    /// How often more than 1 % of that zone's requests crossed again after it had been less in the recovery.
    pub(crate) flaps: u32,
}

/// Figures of one phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PhaseFigures {
    pub(crate) name: &'static str,
    pub(crate) seconds: u32,
    /// By the callers' zone.
    pub(crate) zones: BTreeMap<&'static str, ZoneFigures>,
    /// Share of all zones' requests that crossed.
    pub(crate) cross_zone: Option<f64>,
    /// Bytes that crossed, requests and answers.
    pub(crate) cross_zone_bytes: f64,
}

/// Figures of the callers of one zone in one phase. Shares run from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ZoneFigures {
    /// Requests offered by the load's schedule.
    pub(crate) requests: usize,
    /// Share that was answered at all, whatever the status.
    pub(crate) completed: Option<f64>,
    /// Share that was answered with 2xx within the timeout: what callers see, after retries.
    pub(crate) success: Option<f64>,
    /// The same in the phase's first five seconds.
    pub(crate) success_first_5s: Option<f64>,
    /// The same after the phase's first ten seconds.
    pub(crate) success_after_10s: Option<f64>,
    /// Share of the proxy's attempts that went well: success before retries.
    pub(crate) attempt_success: Option<f64>,
    /// Latency over all requests; one without an answer counts as the timeout.
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    /// Median after the phase's first five seconds.
    pub(crate) p50_after_5s_ms: Option<f64>,
    /// Share of the requests that an endpoint of another zone answered.
    pub(crate) cross_zone: Option<f64>,
}

/// Computes the figures of a policy.
pub(crate) fn figures(record: &Record, timeline: &Timeline) -> Figures {
    let local = Locality::after(record, &timeline.phases()[2]);
    Figures {
        policy: record.policy.name(),
        phases: timeline.phases().iter().map(|phase| phase_figures(record, phase)).collect(),
        seconds_to_local: local.seconds_to_local(),
        flaps: local.flaps(),
    }
}

fn phase_figures(record: &Record, phase: &Phase) -> PhaseFigures {
    let counted = |zone: &ZoneRecord| zone.observed.between(phase.from, phase.to);
    let crossing = |zone: &ZoneRecord| {
        let counters = counted(zone);
        let placed: f64 = counters.by_zone.iter().sum();
        (placed, counters.cross_zone(zone.zone).unwrap_or(0.0) * placed)
    };
    let (placed, crossed) = record
        .zones
        .iter()
        .map(crossing)
        .fold((0.0, 0.0), |sum, zone| (sum.0 + zone.0, sum.1 + zone.1));
    PhaseFigures {
        name: phase.name,
        seconds: phase.seconds(),
        zones: record.zones.iter().map(|zone| (zone.zone, zone_figures(zone, phase))).collect(),
        cross_zone: (placed > 0.0).then(|| crossed / placed),
        cross_zone_bytes: record.zones.iter().map(|zone| counted(zone).cross_bytes).sum(),
    }
}

fn zone_figures(zone: &ZoneRecord, phase: &Phase) -> ZoneFigures {
    let counters = zone.observed.between(phase.from, phase.to);
    let offered = &zone.offered;
    let whole = latencies(offered, phase);
    let settled = latencies(offered, &phase.part(5, u32::MAX));
    ZoneFigures {
        requests: within(offered, phase).count(),
        completed: share(offered, phase, |request| request.answer.is_some()),
        success: share(offered, phase, Offered::succeeded),
        success_first_5s: share(offered, &phase.part(0, 5), Offered::succeeded),
        success_after_10s: share(offered, &phase.part(10, u32::MAX), Offered::succeeded),
        attempt_success: counters.attempt_success(),
        p50_ms: quantile_ms(whole.as_ref(), 0.5),
        p99_ms: quantile_ms(whole.as_ref(), 0.99),
        p50_after_5s_ms: quantile_ms(settled.as_ref(), 0.5),
        cross_zone: counters.cross_zone(zone.zone),
    }
}

fn within<'a>(offered: &'a [Offered], phase: &'a Phase) -> impl Iterator<Item = &'a Offered> {
    offered.iter().filter(|request| phase.contains(request.due))
}

/// Share of a phase's requests of which something holds; none when there were no requests.
pub(crate) fn share(
    offered: &[Offered],
    phase: &Phase,
    holds: impl Fn(&Offered) -> bool,
) -> Option<f64> {
    let (mut all, mut held) = (0_u32, 0_u32);
    for request in within(offered, phase) {
        all += 1;
        held += u32::from(holds(request));
    }
    (all > 0).then(|| f64::from(held) / f64::from(all))
}

/// Longest latency that the histogram can hold; the timeout is far below.
const LATENCY_MICROS_MAX: u64 = 60_000_000;

fn latencies(offered: &[Offered], phase: &Phase) -> Option<Histogram<u32>> {
    let mut histogram = Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3).ok()?;
    let timeout_ms = TIMEOUT.as_secs_f64() * 1e3;
    for request in within(offered, phase) {
        let ms = request.answer.map_or(timeout_ms, |answer| answer.latency_ms);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; a cast saturates"
        )]
        histogram.saturating_record((ms * 1e3) as u64);
    }
    (!histogram.is_empty()).then_some(histogram)
}

fn quantile_ms(latencies: Option<&Histogram<u32>>, quantile: f64) -> Option<f64> {
    latencies.map(|latencies| latencies.value_at_quantile(quantile) as f64 / 1e3)
}

/// Seconds over which locality is judged: at 100 requests a second, one stray request in a second is 1 %.
const WINDOW: u32 = 5;

/// For each second of the recovery, whether the zone that failed keeps more than 99 % in the window that starts there. What other
/// zones do then has its own figures.
#[derive(Debug, PartialEq, Eq)]
struct Locality(Vec<bool>);

impl Locality {
    fn after(record: &Record, recovery: &Phase) -> Self {
        let keeps = |zone: &ZoneRecord, from: u32| {
            zone.observed
                .between(from, from + WINDOW)
                .cross_zone(zone.zone)
                .is_some_and(|crossed| crossed < 0.01)
        };
        let starts = recovery.from..=recovery.to.saturating_sub(WINDOW);
        let zone = record.zones.iter().find(|zone| zone.zone == FAULTY_ZONE);
        Self(starts.map(|from| zone.is_some_and(|zone| keeps(zone, from))).collect())
    }

    fn seconds_to_local(&self) -> Option<u32> {
        let kept = self.0.iter().rev().take_while(|local| **local).count();
        (kept > 0).then(|| u32::try_from(self.0.len() - kept).unwrap_or(u32::MAX))
    }

    fn flaps(&self) -> u32 {
        let leaves =
            self.0.iter().zip(self.0.iter().skip(1)).filter(|(before, after)| **before && !**after);
        u32::try_from(leaves.count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
pub(crate) mod tests;
