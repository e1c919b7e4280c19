//! The destinations that the application uses: each is asked for at its first use and forgotten when it was idle for long.
//!
//! ```text
//!   worker: find ─▶ [waiting] ──first answer──▶ [Balanced | Passthrough] ◀── later answers
//!                       └──── not in time, or the controller is away ──▶ [Passthrough: unanswered]
//! ```
//!
//! Workers find and wait; the client of the controller asks, answers and sweeps. Nothing here knows how it asks.

use crate::discovery::{Destination, Passthrough};
use crate::service::Service;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Destinations that are kept: more than any application calls by itself, so that only a crawler or a flood of invented hosts
/// gets here. A tenth of them in services of 100 endpoints takes some 20 MiB.
pub const DESTINATIONS_MAX: usize = 4096;

/// How long the first request to a new destination waits for what it is. The answer of a controller that lives takes
/// milliseconds; callers' own limits are rarely below a second.
pub const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// Pause between two sweeps for idle destinations.
pub const SWEEP: Duration = Duration::from_secs(30);

/// A service is forgotten after ten minutes without use: jobs that run every five find their endpoints, and what was learnt
/// about them, still there, and a cluster's controller does not go on telling about services that were called once.
pub const IDLE_SWEEPS: u32 = 20;

/// What is not balanced is forgotten after one to two minutes: nothing is lost with it, and crawlers have many.
pub const IDLE_SWEEPS_PASSTHROUGH: u32 = 3;

/// Wishes that wait for the stream: the whole table in and out. A stream that is so far behind begins anew.
const WANTED_MAX: usize = 2 * DESTINATIONS_MAX;

const UNANSWERED: Answer = Answer::Passthrough(Passthrough::Unanswered);

/// What a destination turned out to be.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A service.
    Balanced(Arc<Service>),
    /// Nothing to balance: on to where the application sent it.
    Passthrough(Passthrough),
    /// Nothing at all: only a topology file, which names everything, can tell.
    Refused,
}

impl Answer {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Balanced(ours), Self::Balanced(theirs)) => Arc::ptr_eq(ours, theirs),
            (Self::Passthrough(ours), Self::Passthrough(theirs)) => ours == theirs,
            (Self::Refused, Self::Refused) => true,
            _ => false,
        }
    }
}

/// One destination, as all workers share it.
#[derive(Debug)]
pub struct Known {
    answer: watch::Sender<Option<Answer>>,
    /// Since the last sweep.
    used: AtomicBool,
    idle_sweeps: AtomicU32,
}

impl Known {
    fn new(answer: Option<Answer>) -> Self {
        Self {
            answer: watch::Sender::new(answer),
            used: AtomicBool::new(true),
            idle_sweeps: AtomicU32::new(0),
        }
    }

    /// Notes that it is used. Costs a read nearly always.
    pub fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// What it is; waits for the first answer, but not for long.
    pub async fn answer(&self) -> Answer {
        let known = self.answer.borrow().clone();
        if let Some(answer) = known {
            return answer;
        }
        let mut receiver = self.answer.subscribe();
        let answered = async { receiver.wait_for(Option::is_some).await.ok()?.clone() };
        if let Ok(Some(answer)) = tokio::time::timeout(FIRST_ANSWER, answered).await {
            return answer;
        }
        // Those that come after it do not wait again.
        self.answer_if_waiting(UNANSWERED);
        self.answer.borrow().clone().unwrap_or(UNANSWERED)
    }

    fn answer_if_waiting(&self, answer: Answer) {
        self.answer.send_if_modified(|current| {
            let waiting = current.is_none();
            if waiting {
                *current = Some(answer);
            }
            waiting
        });
    }

    fn is_balanced(&self) -> bool {
        matches!(&*self.answer.borrow(), Some(Answer::Balanced(_)))
    }

    /// Counts a sweep; whether it has been idle for too long.
    fn idle(&self) -> bool {
        if self.used.swap(false, Ordering::Relaxed) {
            self.idle_sweeps.store(0, Ordering::Relaxed);
            return false;
        }
        let sweeps = self.idle_sweeps.fetch_add(1, Ordering::Relaxed) + 1;
        match &*self.answer.borrow() {
            // Something long is under way.
            Some(Answer::Balanced(service)) => sweeps >= IDLE_SWEEPS && !service.is_busy(),
            _ => sweeps >= IDLE_SWEEPS_PASSTHROUGH,
        }
    }
}

/// What the client of the controller is to do about a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Ask for it.
    Subscribe(Destination),
    /// Say that it is no longer of interest.
    Unsubscribe(Destination),
}

/// How many destinations there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Balanced.
    pub balanced: usize,
    /// Passed through.
    pub passthrough: usize,
    /// Not answered yet.
    pub waiting: usize,
}

/// All destinations in use.
#[derive(Debug)]
pub struct Destinations {
    table: Mutex<Table>,
    /// Something is wanted.
    wanted: Notify,
}

#[derive(Debug)]
struct Table {
    known: HashMap<Destination, Arc<Known>>,
    /// Since the client last looked; empty while it has no stream, since then it asks for everything at its start.
    wanted: Vec<Wanted>,
    listening: bool,
    /// Whether an answer may be hoped for.
    hopeful: bool,
    /// It is full and nothing in it can give way, as far as is known.
    crowded: bool,
}

impl Default for Destinations {
    fn default() -> Self {
        let table = Table {
            known: HashMap::new(),
            wanted: Vec::new(),
            listening: false,
            // The first connection to a controller is being made.
            hopeful: true,
            crowded: false,
        };
        Self { table: Mutex::new(table), wanted: Notify::new() }
    }
}

impl Destinations {
    /// The destination, made if this is its first use, and whether others had to give way.
    pub(crate) fn find(&self, destination: &Destination) -> (Arc<Known>, bool) {
        let mut table = self.table.lock();
        if let Some(known) = table.known.get(destination) {
            known.touch();
            return (Arc::clone(known), false);
        }
        let evicted = table.known.len() >= DESTINATIONS_MAX && !table.crowded && table.evict();
        if table.known.len() >= DESTINATIONS_MAX {
            let answer = Answer::Passthrough(Passthrough::TooMany);
            return (Arc::new(Known::new(Some(answer))), evicted);
        }
        let answer = (!table.hopeful).then_some(UNANSWERED);
        let known = Arc::new(Known::new(answer));
        table.known.insert(destination.clone(), Arc::clone(&known));
        table.want(Wanted::Subscribe(destination.clone()));
        drop(table);
        self.wanted.notify_one();
        (known, evicted)
    }

    /// A stream begins: everything that is to be asked for on it.
    pub fn begin(&self) -> Vec<Destination> {
        let mut table = self.table.lock();
        (table.listening, table.hopeful) = (true, true);
        table.wanted.clear();
        table.known.keys().cloned().collect()
    }

    /// The stream ended. What is known stays; what is new waits for the next one.
    pub fn end(&self) {
        let mut table = self.table.lock();
        table.listening = false;
        table.wanted.clear();
    }

    /// No controller can be reached: nobody waits any longer, nor from now on.
    pub fn give_up(&self) {
        let mut table = self.table.lock();
        table.hopeful = false;
        for known in table.known.values() {
            known.answer_if_waiting(UNANSWERED);
        }
    }

    /// Waits until something is wanted of the stream; `None` when that became too much, so that the stream is to begin anew.
    pub async fn wanted(&self) -> Option<Vec<Wanted>> {
        loop {
            let (wanted, listening) = {
                let mut table = self.table.lock();
                (std::mem::take(&mut table.wanted), table.listening)
            };
            if !listening {
                return None;
            }
            if !wanted.is_empty() {
                return Some(wanted);
            }
            self.wanted.notified().await;
        }
    }

    /// Takes an answer. Whether what was looked up before may now be wrong.
    pub(crate) fn answer(&self, destination: &Destination, answer: Answer) -> bool {
        let mut table = self.table.lock();
        table.crowded &= matches!(answer, Answer::Balanced(_));
        // It may have been given up in the meantime.
        let Some(known) = table.known.get(destination) else { return false };
        let mut stale = false;
        known.answer.send_if_modified(|current| {
            let same = current.as_ref().is_some_and(|current| current.is_same(&answer));
            stale = !same && current.is_some();
            if !same {
                *current = Some(answer);
            }
            !same
        });
        stale
    }

    /// Forgets what was not used for long and returns it. To be called every [`SWEEP`], while a stream is open: without one,
    /// what is forgotten could not be learnt again.
    pub(crate) fn sweep(&self) -> Vec<Destination> {
        let mut table = self.table.lock();
        table.crowded = false;
        let idle = table.known.extract_if(|_, known| known.idle());
        let idle: Vec<Destination> = idle.map(|(destination, _)| destination).collect();
        for destination in &idle {
            table.want(Wanted::Unsubscribe(destination.clone()));
        }
        drop(table);
        if !idle.is_empty() {
            self.wanted.notify_one();
        }
        idle
    }

    /// How many there are.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for known in self.table.lock().known.values() {
            match &*known.answer.borrow() {
                Some(Answer::Balanced(_)) => census.balanced += 1,
                Some(Answer::Passthrough(_) | Answer::Refused) => census.passthrough += 1,
                None => census.waiting += 1,
            }
        }
        census
    }

    /// All of them in order, with what they are; `None` while that is not known.
    pub fn all(&self) -> Vec<(Destination, Option<Answer>)> {
        let table = self.table.lock();
        let mut all: Vec<_> = table
            .known
            .iter()
            .map(|(destination, known)| (destination.clone(), known.answer.borrow().clone()))
            .collect();
        drop(table);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

impl Table {
    /// Notes a wish for the stream.
    fn want(&mut self, wanted: Wanted) {
        if self.listening {
            self.wanted.push(wanted);
        }
        if self.wanted.len() > WANTED_MAX {
            self.wanted.clear();
            self.listening = false;
        }
    }

    /// The table is full: everything that is not balanced gives way, since nothing is lost with it. Whether anything did.
    fn evict(&mut self) -> bool {
        let before = self.known.len();
        let evicted: Vec<Destination> = self
            .known
            .extract_if(|_, known| !known.is_balanced())
            .map(|(destination, known)| {
                known.answer_if_waiting(Answer::Passthrough(Passthrough::TooMany));
                destination
            })
            .collect();
        for destination in evicted {
            self.want(Wanted::Unsubscribe(destination));
        }
        self.crowded = self.known.len() == before;
        !self.crowded
    }
}
