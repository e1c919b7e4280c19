//! Many runs on few threads. The results do not depend on the number of threads, nor on their timing.

use crate::measure::Measured;
use crate::policy::PolicyKind;
use crate::scenario::Scenario;
use crate::time::SECOND;
use crate::world::Run;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// One run to be done.
#[derive(Clone, Debug)]
pub struct Job {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The policy.
    pub policy: PolicyKind,
    /// The seed.
    pub seed: u64,
}

/// What identifies a run: scenario, policy, seed.
type Key = (String, PolicyKind, u64);

/// Runs that were done, and the means to do more.
#[derive(Debug)]
pub struct Results {
    done: HashMap<Key, Measured>,
    threads: usize,
    progress: Progress,
}

/// Tells on standard error how far a long command is.
#[derive(Debug)]
struct Progress {
    silent: AtomicBool,
}

/// How often to look into the balancers, in runs that are measured by it.
const SAMPLE_EVERY: u64 = 10 * SECOND;

impl Results {
    /// None yet; on so many threads, on as many as the machine has cores if not given.
    pub fn new(threads: Option<usize>) -> Self {
        let threads =
            threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into)).max(1);
        Self {
            done: HashMap::new(),
            threads,
            progress: Progress { silent: AtomicBool::new(false) },
        }
    }

    /// Without a word on standard error.
    #[must_use]
    pub fn silent(self) -> Self {
        Self { progress: Progress { silent: AtomicBool::new(true) }, ..self }
    }

    /// The measurements of a run.
    pub fn of(&self, scenario: &str, policy: PolicyKind, seed: u64) -> Option<&Measured> {
        self.done.get(&(scenario.to_owned(), policy, seed))
    }

    /// Does the runs that were not done yet, longest scenarios first.
    pub fn add(&mut self, mut jobs: Vec<Job>) {
        jobs.retain(|job| !self.done.contains_key(&key(job)));
        jobs.sort_by_cached_key(|job| (Reverse(effort(job)), key(job)));
        jobs.dedup_by_key(|job| key(job));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((key(job), measure(job)));
                let count = next.load(Ordering::Relaxed).min(jobs.len());
                self.progress.say(&format!("\r{count}/{} {:<40}", jobs.len(), job.scenario.name));
            }
            done
        };
        let done = thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            let joined =
                workers.into_iter().map(|w| w.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect::<Vec<_>>()
        });
        self.done.extend(done);
        self.progress.say("\r");
    }
}

impl Progress {
    /// Says something. A closed standard error ends the progress, not the run.
    fn say(&self, what: &str) {
        if !self.silent.load(Ordering::Relaxed) && write!(std::io::stderr(), "{what}").is_err() {
            self.silent.store(true, Ordering::Relaxed);
        }
    }
}

fn key(job: &Job) -> Key {
    (job.scenario.name.clone(), job.policy, job.seed)
}

/// Expected effort, in requests and ticks.
fn effort(job: &Job) -> u64 {
    let base = &job.scenario.base;
    let callers = f64::from(3 * base.callers);
    ((job.scenario.rate_per_caller() * callers + callers) * job.scenario.end) as u64
}

fn measure(job: &Job) -> Measured {
    let scenario = &*job.scenario;
    let sample_every = (scenario.end > 1000.0).then_some(SAMPLE_EVERY);
    Run { scenario, policy: job.policy, seed: job.seed, sample_every }.measured()
}
