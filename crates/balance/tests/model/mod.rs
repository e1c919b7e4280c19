//! A slow, obvious model of the balancer: it keeps every request for ever and computes each number anew from the whole
//! history, as the specification writes it down. It draws nothing at random: it is told what was picked.

mod breaker;
mod extent;
mod valve;

use balance::endpoint::{EndpointKey, EndpointSpec};
use breaker::Breaker;
use extent::Extent;
use std::collections::BTreeMap;
use valve::Valve;

/// Length of the load window: histories keep to services faster than that.
pub(crate) const WINDOW: f64 = 5.0;
const MEMORY_LOCAL: f64 = 5.0;
const MEMORY_REMOTE: f64 = 30.0;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    Failed,
    Cancelled,
}

/// One request, from beginning to end.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: EndpointKey,
    pub(crate) local: bool,
    pub(crate) sent: f64,
    trial: bool,
    /// When it stopped counting for load.
    counted_until: Option<f64>,
    ended: Option<(f64, End)>,
    /// The latency that counts.
    latency: f64,
    /// When its body failed.
    reversed: Option<f64>,
    /// The endpoint was there when it ended.
    heard: bool,
}

/// One endpoint that is present.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) local: bool,
    /// The first of its requests in the history.
    since: usize,
    pub(crate) breaker: Breaker,
}

/// The model.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) history: Vec<Request>,
    pub(crate) members: BTreeMap<EndpointKey, Member>,
    pub(crate) valve: Valve,
    extent: Extent,
    started: bool,
    /// Load of before says nothing: most local endpoints were new then.
    forgotten: f64,
    pub(crate) trials: u32,
    pub(crate) good_trials: u32,
}

pub(crate) fn fade(elapsed: f64, memory: f64) -> f64 {
    (-elapsed / memory).exp()
}

/// Sums over one side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) counted: u32,
    pub(crate) mean: f64,
    pub(crate) rate: f64,
    pub(crate) oldest: Option<f64>,
    pub(crate) answers: f64,
    pub(crate) latency_sum: f64,
    pub(crate) fresh_answers: f64,
    pub(crate) fresh_sum: f64,
    pub(crate) ok: f64,
    pub(crate) failed: f64,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            history: Vec::new(),
            members: BTreeMap::new(),
            valve: Valve::new(),
            extent: Extent::default(),
            started: false,
            forgotten: f64::NEG_INFINITY,
            trials: 0,
            good_trials: 0,
        }
    }

    pub(crate) fn update(&mut self, specs: &[EndpointSpec], now: f64) {
        let shut_out = self.is_shut_out();
        let locals = |model: &Self| model.members.values().filter(|member| member.local).count();
        let before = locals(self);
        self.members.retain(|key, _| specs.iter().any(|spec| spec.key == *key));
        for spec in specs {
            let since = self.history.len();
            let member = Member { local: spec.tier == 0, since, breaker: Breaker::default() };
            self.members.entry(spec.key).or_insert(member);
        }
        self.extent.look(locals(self), now);
        if self.started && before > 0 && locals(self) > 2 * before {
            self.forgotten = now;
        }
        self.after_membership(shut_out);
        self.started |= !specs.is_empty();
    }

    pub(crate) fn available(&self, local: bool) -> usize {
        self.members
            .values()
            .filter(|member| member.local == local && !member.breaker.is_open())
            .count()
    }

    pub(crate) fn capacity(&self) -> f64 {
        let present = self.members.values().filter(|member| member.local).count();
        if present == 0 {
            1.0
        } else {
            (1.4 * self.available(true) as f64 / self.extent.expected()).min(1.0)
        }
    }

    pub(crate) fn share(&self) -> f64 {
        match (self.available(true), self.available(false)) {
            (_, 0) => 1.0,
            (0, _) => 0.0,
            _ => self.valve.share.min(self.valve.cap).min(self.capacity()),
        }
    }

    pub(crate) fn reach(&self) -> usize {
        let (local, remote) = (self.available(true), self.available(false));
        let share = self.share();
        if share >= 1.0 {
            0
        } else if local == 0 {
            remote
        } else {
            let wanted = (2.0 * local as f64 * (1.0 - share) / share).ceil();
            (2..=remote.max(2)).find(|&count| count as f64 >= wanted).unwrap_or(remote).min(remote)
        }
    }

    /// Local endpoints that are available are taken before remote ones.
    pub(crate) fn doubts_remote(&self, now: f64) -> bool {
        self.available(true) > 0 && self.valve.doubts_remote(self.sums(false, now).counted)
    }

    /// There are endpoints, and no local one is available.
    fn is_shut_out(&self) -> bool {
        self.started && !self.members.is_empty() && self.available(true) == 0
    }

    fn after_membership(&mut self, was_shut_out: bool) {
        let (local, remote) = (self.available(true) as f64, self.available(false) as f64);
        if was_shut_out && local > 0.0 && remote > 0.0 {
            self.valve.start_at((local / (local + remote)).max(0.01));
        }
    }

    /// Requests that have waited too long count no more; a probe among them has failed.
    pub(crate) fn age(&mut self, now: f64) {
        let limit = self.valve.age_limit();
        for index in 0..self.history.len() {
            let request = &mut self.history[index];
            if request.counted_until.is_none() && request.sent <= now - limit {
                request.counted_until = Some(now);
                let (key, trial) = (request.key, request.trial);
                request.trial = false;
                if trial && let Some(member) = self.members.get_mut(&key) {
                    member.breaker.trial_failed(now);
                }
            }
        }
    }

    /// A request goes to `key`. Returns its number.
    pub(crate) fn sent(&mut self, key: EndpointKey, trial: bool, now: f64) -> usize {
        let member = self.members.get_mut(&key).expect("a present endpoint is picked");
        if trial {
            member.breaker.trial_sent(now);
            self.trials += 1;
        }
        let local = member.local;
        self.history.push(Request {
            key,
            local,
            sent: now,
            trial,
            counted_until: None,
            ended: None,
            latency: 0.0,
            reversed: None,
            heard: false,
        });
        self.valve.first.get_or_insert(now);
        if local {
            let sums = self.sums(true, now);
            self.valve.on_departure(&sums, now);
            if self.available(false) > 0 {
                self.valve.feel_surge(&sums, now);
            }
        }
        self.history.len() - 1
    }

    /// A request ended.
    pub(crate) fn ended(&mut self, number: usize, end: End, now: f64) {
        let stall_limit = (5.0 * self.valve.baseline.unwrap_or(0.0)).max(0.25);
        let age_limit = self.valve.age_limit();
        let request = &mut self.history[number];
        let waited = now - request.sent;
        let end = if end == End::Cancelled && waited > stall_limit { End::Failed } else { end };
        request.counted_until.get_or_insert(now);
        request.ended = Some((now, end));
        request.latency = waited.min(age_limit);
        let key = request.key;
        // a key that came back is another endpoint
        let Some(member) = self.members.get_mut(&key).filter(|member| number >= member.since)
        else {
            return;
        };
        request.heard = true;
        let (local, trial) = (request.local, request.trial);
        request.trial = false;
        match (end, trial) {
            (End::Cancelled, true) => member.breaker.trial_cancelled(now),
            (End::Cancelled, false) => {}
            (End::Ok, _) => self.on_success(key, local, trial, (waited, now)),
            (End::Failed, _) => self.on_failure(key, local, trial, now),
        }
    }

    /// The body of an answered request failed. `run` are the failures in a row before the answer.
    pub(crate) fn body_failed(&mut self, number: usize, run: u32, was_trial: bool, now: f64) {
        let request = &mut self.history[number];
        let (key, local) = (request.key, request.local);
        let is_known = self.members.get(&key).is_some_and(|member| number >= member.since);
        if !is_known || request.ended.is_none_or(|(_, end)| end != End::Ok) {
            return;
        }
        request.reversed = Some(now);
        let member = self.members.get_mut(&key).expect("just seen");
        if was_trial && member.breaker.is_open() {
            member.breaker.trial_reversed(now);
            self.on_local_failure(local, now);
        } else {
            member.breaker.resume(run);
            self.on_failure(key, local, false, now);
        }
    }

    /// Whether the request still decides for an ejected endpoint.
    pub(crate) fn is_trial(&self, number: usize) -> bool {
        self.history[number].trial
    }

    pub(crate) fn run(&self, key: EndpointKey) -> u32 {
        self.members.get(&key).map_or(0, |member| member.breaker.run())
    }

    fn on_success(
        &mut self,
        key: EndpointKey,
        local: bool,
        trial: bool,
        (waited, now): (f64, f64),
    ) {
        if local {
            let sums = self.sums(true, now);
            self.valve.on_answer(&sums, now);
            self.valve.on_latency(waited);
        }
        if trial {
            self.good_trials += 1;
            self.on_good_trial(key, now);
        } else if let Some(member) = self.members.get_mut(&key) {
            member.breaker.ok();
        }
        self.valve.reconsider(local, waited);
    }

    fn on_good_trial(&mut self, key: EndpointKey, now: f64) {
        let shut_out = self.is_shut_out();
        let member = self.members.get_mut(&key).expect("just seen");
        if member.breaker.trial_ok(now) {
            self.after_membership(shut_out);
        }
    }

    fn on_failure(&mut self, key: EndpointKey, local: bool, trial: bool, now: f64) {
        let shut_out = self.is_shut_out();
        let (ok, bad) = self.counts(key, now);
        let member = self.members.get_mut(&key).expect("just seen");
        if trial {
            member.breaker.trial_failed(now);
        } else {
            member.breaker.failed(ok, bad, now);
        }
        self.after_membership(shut_out);
        self.on_local_failure(local, now);
    }

    fn on_local_failure(&mut self, local: bool, now: f64) {
        if local {
            let (near, far, breadth) = self.evidence(now);
            let cap = self.valve.judge(&near, &far, breadth, now);
            self.valve.cap = self.valve.cap.min(cap);
        }
    }

    pub(crate) fn tick(&mut self, now: f64) {
        self.age(now);
        let (near, far, breadth) = self.evidence(now);
        let present = self.members.values().filter(|member| member.local).count();
        self.extent.look(present, now);
        let remotes = self.available(false) > 0;
        self.valve.tick(&near, &far, breadth, (remotes, now));
    }

    fn evidence(&self, now: f64) -> (Sums, Sums, f64) {
        let (near, far) = (self.sums(true, now), self.sums(false, now));
        let half_rate = near.failed / (2.0 * (near.failed + near.ok)).max(1e-300);
        let (mut used, mut failing) = (0, 0);
        for (key, member) in &self.members {
            let (ok, bad) = self.counts(*key, now);
            if member.local && !member.breaker.is_open() && ok + bad > 0.3 {
                used += 1;
                failing += u32::from(bad > 0.2 && bad / (ok + bad) > half_rate);
            }
        }
        let breadth =
            if used < 2 { 1.0 } else { (f64::from(failing) / f64::from(used) - 0.25) / 0.25 };
        (near, far, breadth.clamp(0.0, 1.0))
    }

    /// Faded successes and failures of one endpoint.
    pub(crate) fn counts(&self, key: EndpointKey, now: f64) -> (f64, f64) {
        let member = &self.members[&key];
        let (mut ok, mut bad) = (0.0, 0.0);
        for request in self.history.iter().skip(member.since) {
            if request.key != key || !request.heard {
                continue;
            }
            let (good, failures) = request.verdict(now, MEMORY_LOCAL);
            ok += good;
            // what a closing breaker forgave, and only that, is forgotten
            let forgiven = member.breaker.forgiven(request.failed_at());
            bad += if forgiven { 0.0 } else { failures };
        }
        (ok, bad)
    }

    pub(crate) fn outstanding(&self, key: EndpointKey) -> usize {
        let member = &self.members[&key];
        let waiting = |request: &&Request| request.key == key && request.ended.is_none();
        self.history.iter().skip(member.since).filter(waiting).count()
    }

    /// Mean outstanding requests of one endpoint.
    pub(crate) fn load(&self, key: EndpointKey, now: f64) -> f64 {
        let member = &self.members[&key];
        let own = self.history.iter().skip(member.since).filter(|request| request.key == key);
        own.map(|request| request.mean(f64::NEG_INFINITY, now)).sum()
    }

    pub(crate) fn sums(&self, local: bool, now: f64) -> Sums {
        let mut sums = Sums::default();
        let memory = if local { MEMORY_LOCAL } else { MEMORY_REMOTE };
        for request in self.history.iter().filter(|request| request.local == local) {
            let from = if local { self.forgotten } else { f64::NEG_INFINITY };
            sums.mean += request.mean(from, now);
            if request.sent > from {
                sums.rate += fade(now - request.sent, WINDOW) / WINDOW;
            }
            if request.counted_until.is_none() {
                sums.counted += 1;
                sums.oldest.get_or_insert(request.sent);
            }
            if !request.heard {
                continue;
            }
            if let Some((at, End::Ok)) = request.ended {
                let weight = fade(now - at, WINDOW);
                sums.answers += weight;
                sums.latency_sum += weight * request.latency;
                if request.sent > self.valve.last_drop && at > from {
                    sums.fresh_answers += weight;
                    sums.fresh_sum += weight * request.latency;
                }
            }
            let (ok, failed) = request.verdict(now, memory);
            sums.ok += ok;
            sums.failed += failed;
        }
        sums
    }
}

impl Request {
    /// Its part in the time-weighted mean of outstanding requests, as far as it waited after `from`.
    fn mean(&self, from: f64, now: f64) -> f64 {
        let end = self.counted_until.unwrap_or(now);
        if end <= from {
            0.0
        } else {
            fade(now - end, WINDOW) - fade(now - self.sent.max(from), WINDOW)
        }
    }

    fn verdict(&self, now: f64, memory: f64) -> (f64, f64) {
        match (self.reversed, self.ended) {
            (None, Some((at, End::Ok))) => (fade(now - at, memory), 0.0),
            (Some(at), _) | (None, Some((at, End::Failed))) => (0.0, fade(now - at, memory)),
            (None, Some((_, End::Cancelled)) | None) => (0.0, 0.0),
        }
    }

    fn failed_at(&self) -> Option<f64> {
        self.reversed.or(match self.ended {
            Some((at, End::Failed)) => Some(at),
            _ => None,
        })
    }
}
