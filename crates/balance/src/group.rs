//! What is known of one side, local or remote: how much is under way, how fast answers come and how many fail.

use crate::number::left_after;

/// Memory of successes and failures, in seconds: the remote side is asked rarely and remembers longer.
pub(crate) const MEMORY_LOCAL: f64 = 5.0;
pub(crate) const MEMORY_REMOTE: f64 = 30.0;

/// One side. All sums decay; they are brought up to date when they are touched.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Requests waiting for their headers.
    pub(crate) outstanding: u32,
    /// Those of them that still count for load: a request that waits too long stops counting.
    pub(crate) counted: u32,
    /// Failures since the last success. The success of a request that was dispatched before the last failure was known
    /// says nothing about now.
    pub(crate) failures_in_a_row: u32,
    failed_at: f64,
    memory: f64,
    window: Window,
    verdicts: Verdicts,
}

/// Sums over the load window `T`.
#[derive(Clone, Debug, Default)]
struct Window {
    at: f64,
    /// Time-weighted mean of `counted`.
    load: f64,
    /// Dispatches a second.
    rate: f64,
    latency_sum: f64,
    latency_count: f64,
    /// The same for answers to requests that were dispatched after the last drop of the valve.
    fresh_sum: f64,
    fresh_count: f64,
}

/// Sums over the memory of verdicts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Verdicts {
    pub(crate) at: f64,
    pub(crate) ok: f64,
    pub(crate) failed: f64,
}

/// The window at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    /// Mean outstanding requests.
    pub(crate) load: f64,
    /// Requests a second.
    pub(crate) rate: f64,
    /// Good answers in the window.
    pub(crate) answers: f64,
    /// Their mean latency in seconds, if there were any.
    pub(crate) latency: Option<f64>,
    /// Good answers to requests dispatched after the last drop, and their mean latency.
    pub(crate) fresh_answers: f64,
    pub(crate) fresh_latency: Option<f64>,
}

impl Group {
    pub(crate) fn new(memory: f64) -> Self {
        Self {
            outstanding: 0,
            counted: 0,
            failures_in_a_row: 0,
            failed_at: f64::NEG_INFINITY,
            memory,
            window: Window::default(),
            verdicts: Verdicts::default(),
        }
    }

    /// A request leaves for this side.
    pub(crate) fn dispatched(&mut self, now: f64, window: f64) {
        self.roll(now, window);
        self.outstanding += 1;
        self.counted += 1;
        self.window.rate += 1.0 / window;
    }

    /// A request stops counting for load, though it still waits.
    pub(crate) fn aged(&mut self, now: f64, window: f64) {
        self.roll(now, window);
        self.counted = self.counted.saturating_sub(1);
    }

    /// A request waits no more.
    pub(crate) fn finished(&mut self, counted: bool, now: f64, window: f64) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if counted {
            self.aged(now, window);
        }
    }

    /// A good answer. `fresh`: dispatched after the valve's last drop.
    pub(crate) fn succeeded(&mut self, latency: f64, fresh: bool, now: f64, window: f64) {
        self.roll(now, window);
        self.window.latency_sum += latency;
        self.window.latency_count += 1.0;
        if fresh {
            self.window.fresh_sum += latency;
            self.window.fresh_count += 1.0;
        }
        self.judge(now).ok += 1.0;
        if now - latency >= self.failed_at {
            self.failures_in_a_row = 0;
        }
    }

    /// A connection came about: a success that tells nothing about latency.
    pub(crate) fn connected(&mut self, dispatched: f64, now: f64) {
        self.judge(now).ok += 1.0;
        if dispatched >= self.failed_at {
            self.failures_in_a_row = 0;
        }
    }

    /// A failure of the endpoint. It tells nothing about latency.
    pub(crate) fn failed(&mut self, now: f64) {
        self.judge(now).failed += 1.0;
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.failed_at = now;
    }

    /// A good answer, given `at`, turned out to be a failure at the end of its body.
    pub(crate) fn reversed(&mut self, at: f64, now: f64) {
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        self.failed_at = now;
        let left = left_after(now - at, self.memory);
        let verdicts = self.judge(now);
        verdicts.ok = (verdicts.ok - left).max(0.0);
        verdicts.failed += 1.0;
    }

    /// Forgets which answers came after the last drop: there is a new one.
    pub(crate) fn forget_fresh(&mut self) {
        self.window.fresh_sum = 0.0;
        self.window.fresh_count = 0.0;
    }

    /// Forgets how much waited and how often requests came: the local endpoints are others now.
    pub(crate) fn forget_load(&mut self, now: f64, window: f64) {
        self.roll(now, window);
        self.forget_fresh();
        self.window.load = 0.0;
        self.window.rate = 0.0;
    }

    /// Forgets latencies: another tier is local now.
    pub(crate) fn forget_latency(&mut self) {
        self.forget_fresh();
        self.window.latency_sum = 0.0;
        self.window.latency_count = 0.0;
    }

    /// The window as it is now.
    pub(crate) fn read(&self, now: f64, window: f64) -> Reading {
        let left = left_after(now - self.window.at, window);
        let mean = |sum: f64, count: f64| (count > 0.0).then(|| sum / count);
        let counted = f64::from(self.counted);
        Reading {
            load: counted + (self.window.load - counted) * left,
            rate: self.window.rate * left,
            answers: self.window.latency_count * left,
            latency: mean(self.window.latency_sum, self.window.latency_count),
            fresh_answers: self.window.fresh_count * left,
            fresh_latency: mean(self.window.fresh_sum, self.window.fresh_count),
        }
    }

    /// Requests a second, for the one check that every dispatch makes.
    pub(crate) fn rate(&self) -> f64 {
        self.window.rate
    }

    /// Successes and failures as remembered now.
    pub(crate) fn verdicts(&self, now: f64) -> Verdicts {
        self.verdicts.decayed(now, self.memory)
    }

    fn judge(&mut self, now: f64) -> &mut Verdicts {
        self.verdicts = self.verdicts.decayed(now, self.memory);
        &mut self.verdicts
    }

    fn roll(&mut self, now: f64, window: f64) {
        let left = left_after(now - self.window.at, window);
        let counted = f64::from(self.counted);
        let sums = &mut self.window;
        sums.at = sums.at.max(now);
        sums.load = counted + (sums.load - counted) * left;
        sums.rate *= left;
        sums.latency_sum *= left;
        sums.latency_count *= left;
        sums.fresh_sum *= left;
        sums.fresh_count *= left;
    }
}

impl Verdicts {
    pub(crate) fn decayed(self, now: f64, memory: f64) -> Self {
        let left = left_after(now - self.at, memory);
        Self { at: self.at.max(now), ok: self.ok * left, failed: self.failed * left }
    }

    /// All answers that are remembered.
    pub(crate) fn answers(self) -> f64 {
        self.ok + self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_the_time_weighted_mean_of_what_waits() {
        let mut group = Group::new(MEMORY_LOCAL);
        group.dispatched(100.0, 5.0);
        group.dispatched(100.0, 5.0);
        let one_window_later = group.read(105.0, 5.0).load;
        assert!(
            (one_window_later - 2.0 * (1.0 - libm::exp(-1.0))).abs() < 1e-9,
            "{one_window_later}"
        );
        group.finished(true, 105.0, 5.0);
        group.finished(true, 105.0, 5.0);
        assert!(group.read(200.0, 5.0).load < 1e-6);
        assert_eq!((group.outstanding, group.counted), (0, 0));
    }

    #[test]
    fn failures_leave_latency_alone() {
        let mut group = Group::new(MEMORY_LOCAL);
        group.succeeded(0.05, true, 1.0, 5.0);
        group.failed(1.0);
        assert_eq!(group.read(1.0, 5.0).latency, Some(0.05));
        assert_eq!(group.failures_in_a_row, 1);
    }

    #[test]
    fn a_success_from_before_the_last_failure_does_not_end_a_row_of_failures() {
        let mut group = Group::new(MEMORY_LOCAL);
        group.failed(10.0);
        group.succeeded(0.05, true, 10.01, 5.0);
        assert_eq!(group.failures_in_a_row, 1);
        group.succeeded(0.05, true, 10.06, 5.0);
        assert_eq!(group.failures_in_a_row, 0);
    }

    #[test]
    fn a_request_that_waits_too_long_counts_no_more_and_finishes_once() {
        let mut group = Group::new(MEMORY_LOCAL);
        group.dispatched(0.0, 5.0);
        group.aged(1.0, 5.0);
        assert_eq!((group.outstanding, group.counted), (1, 0));
        group.finished(false, 2.0, 5.0);
        assert_eq!((group.outstanding, group.counted), (0, 0));
    }
}
