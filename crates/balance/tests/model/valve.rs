//! The model of what moves the local share: baseline, failure cap, load valve, hold.

use super::{Sums, WINDOW, fade};

const EPS: f64 = 0.005;
const LOW: f64 = 1.2;
const HIGH: f64 = 1.5;

#[derive(Clone, Debug)]
pub(crate) struct Valve {
    pub(crate) baseline: Option<f64>,
    pub(crate) spread: f64,
    pub(crate) first: Option<f64>,
    /// Remote answers and their mean latency at each tick.
    remote_looks: Vec<(f64, f64)>,
    pub(crate) share: f64,
    pub(crate) cap: f64,
    pub(crate) last_drop: f64,
    open: bool,
    proven: bool,
    pub(crate) hold_until: f64,
    hold_length: f64,
    hold_failure: f64,
    local_failure: f64,
    last_tick: f64,
    /// When local requests left and when good local answers came.
    departures: Vec<f64>,
    answers: Vec<f64>,
    rush_until: f64,
    alarm: Option<Alarm>,
}

/// An alarm: when it was, what the share and the rate were before, whether a remote endpoint answered in time since.
#[derive(Clone, Debug)]
struct Alarm {
    at: f64,
    share: f64,
    rate: f64,
    remote_answers: bool,
}

fn rise(share: f64) -> f64 {
    (1.25 * share + 0.01).min(1.0)
}

impl Valve {
    pub(crate) fn new() -> Self {
        Self {
            baseline: None,
            spread: 2.0,
            first: None,
            remote_looks: Vec::new(),
            share: 0.5,
            cap: 1.0,
            last_drop: f64::NEG_INFINITY,
            open: false,
            proven: false,
            hold_until: f64::NEG_INFINITY,
            hold_length: 0.0,
            hold_failure: 0.0,
            local_failure: 0.0,
            last_tick: 0.0,
            departures: Vec::new(),
            answers: Vec::new(),
            rush_until: f64::NEG_INFINITY,
            alarm: None,
        }
    }

    pub(crate) fn age_limit(&self) -> f64 {
        self.baseline.map_or(60.0, |baseline| (20.0 * baseline).max(1.0))
    }

    fn settled(&self, now: f64) -> bool {
        now - self.last_drop >= (1.5 * self.baseline.unwrap_or(0.0)).clamp(2.0, 6.0)
    }

    fn held(&self, now: f64) -> bool {
        now < self.hold_until
    }

    fn start_hold(&mut self, failure: f64, now: f64) {
        self.hold_length = self.hold_length.clamp(5.0, 300.0);
        self.hold_until = now + self.hold_length;
        self.hold_length *= 2.0;
        self.hold_failure = failure;
    }

    fn drop(&mut self, part: f64, now: f64) {
        self.share = (self.share * (1.0 - part)).max(0.01);
        self.last_drop = now;
        self.alarm = None;
    }

    /// The zone came back: it starts at its fair share.
    pub(crate) fn start_at(&mut self, share: f64) {
        if share < self.share {
            self.share = share;
            self.alarm = None;
        }
    }

    pub(crate) fn on_latency(&mut self, latency: f64) {
        if let Some(baseline) = self.baseline {
            let ratio = (latency / baseline).min(30.0);
            self.spread += 0.003 * (ratio * ratio - self.spread);
        }
    }

    /// Load, its lower bound, and load with the benefit of the doubt.
    pub(crate) fn load(&self, local: &Sums) -> (f64, f64, f64) {
        let Some(baseline) = self.baseline else { return (1.0, 1.0, 1.0) };
        let load = local.mean / (local.rate.max(0.2 / WINDOW) * baseline);
        let deviation = (self.spread / (local.rate * WINDOW).max(0.2)).sqrt();
        (load, load - 2.5 * deviation, load - 0.5 * deviation)
    }

    /// More waiting requests are a pile.
    fn pile_limit(&self, local: &Sums) -> f64 {
        let usual = local.rate * self.baseline.unwrap_or(0.0);
        3.0 * (usual + (usual * self.spread).sqrt()) + 8.0
    }

    fn rush(&mut self, pause: f64, now: f64) {
        self.rush_until = now + pause.min(8.0 * self.baseline.unwrap_or(0.0));
    }

    /// A local request left.
    pub(crate) fn on_departure(&mut self, local: &Sums, now: f64) {
        if let Some(before) = self.departures.last() {
            let pause = now - before;
            let others = f64::from(local.counted) - 1.0;
            if pause * local.rate > 8.0 && others <= self.pile_limit(local) {
                self.rush(pause, now);
            }
        }
        self.departures.push(now);
    }

    /// A good local answer came, and taught what it teaches of latency.
    pub(crate) fn on_answer(&mut self, local: &Sums, now: f64) {
        if let Some(before) = self.answers.last() {
            let pause = now - before;
            if pause * local.rate > 8.0 && pause > 3.0 * self.baseline.unwrap_or(0.0) {
                self.rush(pause, now);
            }
        }
        self.answers.push(now);
    }

    pub(crate) fn feel_surge(&mut self, local: &Sums, now: f64) {
        let (Some(baseline), Some(oldest)) = (self.baseline, local.oldest) else { return };
        let (waiting, usual) = (f64::from(local.counted), local.rate * baseline);
        let piled = waiting > self.pile_limit(local)
            && now - oldest > 3.0 * baseline
            && 2.0 * local.rate * (now - oldest) >= waiting - usual
            && now >= self.rush_until;
        if piled && self.share > 0.3 && self.cap > 0.95 && self.settled(now) && !self.held(now) {
            let (share, rate) = (self.share, local.rate);
            self.drop(0.6, now);
            let silence = self.answers.last().map_or(f64::NEG_INFINITY, |last| now - last);
            if silence * rate > 8.0 {
                self.alarm = Some(Alarm { at: now, share, rate, remote_answers: false });
            }
        }
    }

    /// A good answer may prove that an alarm was false.
    pub(crate) fn reconsider(&mut self, local: bool, latency: f64) {
        let Some(alarm) = &mut self.alarm else { return };
        let baseline = self.baseline.unwrap_or(0.0);
        if !local {
            alarm.remote_answers |= latency < 3.0 * baseline;
            return;
        }
        // the greatest surplus of answers over requests that ends now
        let since: Vec<f64> = self.answers.iter().copied().filter(|at| *at >= alarm.at).collect();
        let now = since.last().copied().unwrap_or(alarm.at);
        let surplus = (0..since.len())
            .map(|from| (since.len() - from) as f64 - (now - since[from]) * alarm.rate)
            .fold(0.0, f64::max);
        if surplus > 8.0 + (alarm.rate * baseline).sqrt() && self.cap >= 1.0 {
            self.share = self.share.max(alarm.share);
            self.alarm = None;
        }
    }

    /// Whether remote endpoints, where so many requests wait, may be as silent as the local ones.
    pub(crate) fn doubts_remote(&self, waiting: u32) -> bool {
        self.alarm.as_ref().is_some_and(|alarm| {
            let usual = alarm.rate * self.baseline.unwrap_or(0.0);
            !alarm.remote_answers && f64::from(waiting) > 1.0 + usual
        })
    }

    /// The cap that the evidence allows.
    pub(crate) fn judge(&mut self, near: &Sums, far: &Sums, breadth: f64, now: f64) -> f64 {
        let capped = self.cap < 1.0;
        if near.failed < if capped { 0.3 } else { 1.5 } {
            self.local_failure = 0.0;
            return 1.0;
        }
        let (n, nr) = (near.failed + near.ok, far.failed + far.ok);
        let local = near.failed * breadth / (n + if capped { 1.0 } else { 2.0 });
        let remote = far.failed / (nr + 2.0);
        self.local_failure = local;
        let error =
            (local * (1.0 - local) / (n + 2.0) + remote * (1.0 - remote) / (nr + 2.0)).sqrt();
        let excess = local - remote - if capped && local > 0.2 { 0.0 } else { error };
        if capped && local > 0.03 && nr >= 10.0 && remote > 0.5 * local && !self.held(now) {
            self.start_hold(local, now);
        }
        if self.held(now) && local - error > 2.0 * self.hold_failure.max(0.05) {
            self.hold_until = now;
        }
        if self.held(now) {
            self.cap = 1.0;
            return 1.0;
        }
        if excess <= EPS { 1.0 } else { (EPS / excess).clamp(0.01, 1.0) }
    }

    pub(crate) fn tick(
        &mut self,
        near: &Sums,
        far: &Sums,
        breadth: f64,
        (remotes, now): (bool, f64),
    ) {
        let elapsed = now - self.last_tick;
        self.last_tick = now;
        if now > self.hold_until + 60.0 {
            self.hold_length = 0.0;
        }
        self.move_baseline(near, far, (elapsed, now));
        let cap = self.judge(near, far, breadth, now);
        self.cap = if cap < self.cap { cap } else { cap.min(rise(self.cap)) };
        self.move_share(near, far, (remotes, now));
    }

    fn move_baseline(&mut self, near: &Sums, far: &Sums, (elapsed, now): (f64, f64)) {
        let Some(first) = self.first else { return };
        let wr = if far.answers > 0.0 { far.latency_sum / far.answers } else { 0.0 };
        if near.answers > 0.0 {
            self.remote_looks.push((far.answers, wr));
        }
        if near.answers < 3.0 {
            return;
        }
        let w = near.latency_sum / near.answers;
        let Some(r0) = self.baseline else {
            if now - first > (4.0 * w).max(3.0) {
                let anchored = (wr - 0.001).max(w / 4.0);
                self.baseline = Some(if far.answers >= 3.0 && wr < 0.8 * w { anchored } else { w });
            }
            return;
        };
        let mut target = w;
        let mut memory: f64 = if self.proven {
            10.0
        } else if w < r0 {
            60.0
        } else if self.share >= 1.0 {
            600.0 + 6.0 * near.answers
        } else {
            600.0
        };
        if w > r0 && self.share < 1.0 && !self.proven {
            target = if far.answers >= 5.0 { (wr - 0.001).max(r0).min(w) } else { r0 };
        }
        if self.share >= 1.0 && now - first < 60.0 {
            target = target.min(self.ceiling());
        }
        if !self.open && now - first < 60.0 {
            memory = memory.min((now - first) / 2.0);
        }
        let trust = near.answers / (near.answers + 5.0);
        self.baseline = Some(r0 + (target - r0) * trust * (1.0 - fade(elapsed, memory)));
    }

    /// Two standard errors above the mean of remote answers, when there were the most of them.
    fn ceiling(&self) -> f64 {
        let most = self.remote_looks.iter().map(|(answers, _)| *answers).fold(3.0, f64::max);
        let best = self.remote_looks.iter().rev().find(|(answers, _)| *answers >= most);
        best.map_or(f64::INFINITY, |(answers, latency)| {
            latency * (1.0 + 2.0 * ((self.spread - 1.0).max(0.1) / answers).sqrt())
        })
    }

    fn move_share(&mut self, near: &Sums, far: &Sums, (remotes, now): (bool, f64)) {
        let r0 = self.baseline.unwrap_or(0.0);
        let w = if near.answers > 0.0 { near.latency_sum / near.answers } else { 0.0 };
        let wf = if near.fresh_answers > 0.0 { near.fresh_sum / near.fresh_answers } else { w };
        let (_, lower, doubted) = self.load(near);
        let (settled, held) = (self.settled(now), self.held(now));
        let normal = near.fresh_answers >= 3.0 && wf < LOW * r0;
        self.open = lower > HIGH && !normal;
        self.proven = self.open
            && far.answers >= 5.0
            && self.share < 0.97
            && wf > HIGH * r0
            && far.latency_sum / far.answers > 0.85 * wf;
        if self.proven {
            if !held {
                self.start_hold(self.local_failure, now);
            }
            self.share = rise(self.share);
        } else if self.open && !held {
            if settled && self.cap > 0.95 && remotes {
                self.drop((lower / HIGH - 1.0).clamp(0.05, 0.6), now);
            }
        } else if (doubted < LOW || normal || held) && (settled || held) {
            self.share = rise(self.share);
        }
        if self.alarm.as_ref().is_some_and(|alarm| self.share >= alarm.share) {
            self.alarm = None;
        }
    }
}
