//! The connections of callers that one worker serves. One sweep a second finds those that are idle or slow for too long, so
//! that no request sets a timer; the same list tells all of them to drain.

use crate::clock::Clock;
use crate::metrics::edge::{self, Closed, Peer};
use crate::outbound::detect::Version;
use crate::tunnel::Watch;
use crate::worker::Cut;
use balance::time::Timestamp;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

/// How long callers may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A connection without a request is closed after this time.
    pub idle: Duration,
    /// A request's header has to arrive whole in this time.
    pub header: Duration,
    /// A body of HTTP/1 that is waited for, or an answer that is not read, may stand still for this time.
    pub stall: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(2),
            header: Duration::from_secs(10),
            // As Envoy's limit for idle streams: longer than anything that works pauses.
            stall: Duration::from_mins(5),
        }
    }
}

/// A caller has this long to read the last answer and close, before its connection is closed over what it still sends.
const LINGER_MAX: Duration = Duration::from_secs(1);

/// A caller that ends its side this soon after its request waits for the answer; one that ends it later has given up. TCP does
/// not tell the two apart, but the first sends its end right behind the request, and the second has waited for its own limit
/// before. Who gives up sooner than this has its request carried to its end.
pub(crate) const HALF_CLOSE_WITHIN: Duration = Duration::from_millis(20);

/// An opaque connection of which one end is done is closed when the other one is silent for this time. The kernel's own
/// tables forget such a connection after a minute, so that nothing would ever come of waiting longer.
const HALF_CLOSED_MAX: Duration = Duration::from_mins(1);

/// The connections that one worker serves.
#[derive(Debug)]
pub(crate) struct Roster {
    patience: Patience,
    clock: Clock,
    entries: RefCell<Vec<Option<Rc<Entry>>>>,
    free: RefCell<Vec<usize>>,
    open: Cell<usize>,
    /// Connections of all times.
    seen: Cell<u64>,
}

/// One connection of a caller.
#[derive(Debug)]
pub(crate) struct Entry {
    phase: Cell<Phase>,
    /// When a sweep first saw the present phase.
    since: Cell<Option<Timestamp>>,
    requests: Cell<u32>,
    spoken: Cell<Spoken>,
    command: Cell<Option<Command>>,
    waker: RefCell<Option<Waker>>,
    /// Whether an endpoint waits for more of a request's body.
    body_wanted: Cell<bool>,
    /// Whether the caller does not take what is to be written.
    write_blocked: Cell<bool>,
    /// Whether bytes passed since the last sweep.
    moved: Cell<bool>,
    /// Bodies of requests that have not been read to their end.
    uploads: Cell<u32>,
    clock: Clock,
    /// When the last request had arrived whole.
    asked: Cell<Option<Timestamp>>,
    /// Whether the caller ended its side, it is not known yet whether within a body.
    ended: Cell<bool>,
    /// Whether the caller ended its side right behind its request.
    half_closed: Cell<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was read since the last response.
    Idle,
    /// The same for a while: what the connection holds was given back.
    Resting,
    /// Bytes of a header were read.
    Header,
    /// A request is served.
    Busy,
    /// All is said; the caller has not closed yet.
    Lingering,
    /// One end of an opaque connection is done, and the other one silent.
    HalfClosed,
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Unknown,
    Http(Version),
    Opaque,
}

/// What a connection is told from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Nothing has happened for a while: give back what is not needed.
    Rest,
    /// Finish what is under way and take no more.
    Drain,
    /// End now.
    Close,
}

/// What the end of a caller's side means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It has gone.
    Gone,
    /// It has said all and waits for the answer.
    AwaitsAnswer,
    /// The body of its request is not known to be whole. It may have been read already and be on its way through the HTTP
    /// library: that is known soon.
    PerhapsWithinBody,
}

/// A place in the roster, given back when dropped.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    roster: &'a Roster,
    index: usize,
    pub(crate) entry: Rc<Entry>,
}

impl Roster {
    pub(crate) fn new(patience: Patience, clock: Clock) -> Self {
        Self {
            patience,
            clock,
            entries: RefCell::default(),
            free: RefCell::default(),
            open: Cell::default(),
            seen: Cell::default(),
        }
    }

    pub(crate) fn join(&self) -> Member<'_> {
        let entry = Rc::new(Entry {
            phase: Cell::new(Phase::Idle),
            since: Cell::new(None),
            requests: Cell::new(0),
            spoken: Cell::new(Spoken::Unknown),
            command: Cell::new(None),
            waker: RefCell::new(None),
            body_wanted: Cell::new(false),
            write_blocked: Cell::new(false),
            moved: Cell::new(false),
            uploads: Cell::new(0),
            clock: self.clock,
            asked: Cell::new(None),
            ended: Cell::new(false),
            half_closed: Cell::new(false),
        });
        let mut entries = self.entries.borrow_mut();
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            entries.push(None);
            entries.len() - 1
        });
        if let Some(place) = entries.get_mut(index) {
            *place = Some(Rc::clone(&entry));
        }
        self.open.set(self.open.get() + 1);
        self.seen.set(self.seen.get() + 1);
        Member { roster: self, index, entry }
    }

    /// How many there are.
    pub(crate) fn open(&self) -> usize {
        self.open.get()
    }

    /// How many there have been.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.get()
    }

    #[cfg(test)]
    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Connections at rest.
    #[cfg(test)]
    pub(crate) fn resting(&self) -> usize {
        let entries = self.entries.borrow();
        entries.iter().flatten().filter(|entry| entry.phase.get() == Phase::Resting).count()
    }

    /// Closes connections that are idle or slow for too long, and lets those rest that are idle since the last sweep.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.each(|entry| {
            let (limit, why) = match entry.phase.get() {
                Phase::Idle | Phase::Resting => (self.patience.idle, Some(Closed::Idle)),
                Phase::Header => (self.patience.header, Some(Closed::HeaderTimeout)),
                Phase::Lingering => (LINGER_MAX, None),
                Phase::HalfClosed => (HALF_CLOSED_MAX, Some(Closed::Idle)),
                Phase::Busy if entry.stands_still() => (self.patience.stall, Some(Closed::Stalled)),
                Phase::Busy => return entry.since.set(None),
            };
            match entry.since.get() {
                None => entry.since.set(Some(now)),
                Some(since) if now.since(since) >= limit => {
                    if let Some(why) = why {
                        edge::closed(Peer::Caller, why);
                    }
                    entry.tell(Command::Close);
                }
                Some(_) if entry.may_rest() => entry.tell(Command::Rest),
                Some(_) => {}
            }
        });
    }

    /// Closes connections without a request: their memory is needed.
    pub(crate) fn close_idle(&self) {
        self.each(|entry| {
            if matches!(entry.phase.get(), Phase::Idle | Phase::Resting) {
                edge::closed(Peer::Caller, Closed::Overloaded);
                entry.tell(Command::Close);
            }
        });
    }

    /// What ends before its time if everything ends now.
    pub(crate) fn under_way(&self) -> Cut {
        let cut = Cell::new(Cut::default());
        self.each(|entry| {
            let mut sum = cut.get();
            match entry.spoken.get() {
                Spoken::Opaque => sum.connections += 1,
                Spoken::Http(_) => {
                    sum.requests += usize::try_from(entry.requests.get()).unwrap_or(usize::MAX);
                }
                Spoken::Unknown => {}
            }
            cut.set(sum);
        });
        cut.get()
    }

    /// Tells HTTP/2 callers to open no new streams here.
    pub(crate) fn drain_http2(&self) {
        self.each(|entry| {
            if entry.spoken.get() == Spoken::Http(Version::Http2) {
                entry.tell(Command::Drain);
            }
        });
    }

    /// Tells callers to go whose connections are idle for as long as that. The others hear it with their next answer.
    pub(crate) fn drain_idle(&self, linger: Duration, now: Timestamp) {
        self.each(|entry| {
            let idle = matches!(entry.phase.get(), Phase::Idle | Phase::Resting)
                && entry.since.get().is_some_and(|since| now.since(since) >= linger);
            match entry.spoken.get() {
                Spoken::Http(_) if idle => entry.tell(Command::Drain),
                Spoken::Unknown if idle => entry.tell(Command::Close),
                Spoken::Http(_) | Spoken::Unknown | Spoken::Opaque => {}
            }
        });
    }

    /// Tells all callers to go.
    pub(crate) fn drain_all(&self) {
        self.each(|entry| match entry.spoken.get() {
            Spoken::Http(_) => entry.tell(Command::Drain),
            Spoken::Unknown => entry.tell(Command::Close),
            // Its two ends know when they are done; until the grace period is over they are left alone.
            Spoken::Opaque => {}
        });
    }

    fn each(&self, act: impl Fn(&Entry)) {
        for entry in self.entries.borrow().iter().flatten() {
            act(entry);
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.roster.entries.borrow_mut().get_mut(self.index) {
            *place = None;
        }
        self.roster.free.borrow_mut().push(self.index);
        self.roster.open.set(self.roster.open.get().saturating_sub(1));
    }
}

impl Watch for Entry {
    fn half_closed(&self) {
        self.enter(Phase::HalfClosed);
    }
}

impl Entry {
    /// Bytes arrived.
    pub(crate) fn received(&self) {
        self.moved.set(true);
        if self.phase.get() == Phase::Idle {
            // What comes after an early answer is the rest of a body.
            self.enter(if self.uploads.get() == 0 { Phase::Header } else { Phase::Idle });
        }
    }

    /// Whether what arrives belongs to a header.
    pub(crate) fn reads_header(&self) -> bool {
        self.phase.get() == Phase::Header
    }

    /// Bytes were written.
    pub(crate) fn wrote(&self) {
        self.moved.set(true);
        self.write_blocked.set(false);
    }

    /// The caller takes no bytes at present.
    pub(crate) fn cannot_write(&self) {
        self.write_blocked.set(true);
    }

    /// Whether an endpoint waits for more of a request's body.
    pub(crate) fn waits_for_body(&self, waits: bool) {
        self.body_wanted.set(waits);
    }

    /// A request's body is to be read.
    pub(crate) fn upload_began(&self) {
        self.uploads.set(self.uploads.get() + 1);
    }

    /// It was read to its end, or is not wanted.
    pub(crate) fn upload_ended(&self) {
        let left = self.uploads.get().saturating_sub(1);
        self.uploads.set(left);
        if left == 0 {
            self.asked.set(Some(self.clock.now()));
            self.half_closed.set(self.half_closed.get() || self.ended.get());
        }
    }

    /// Whether its HTTP/1 connection has nothing to remember: all requests were read and all answers written.
    pub(crate) fn may_rest(&self) -> bool {
        self.phase.get() == Phase::Idle
            && self.spoken.get() == Spoken::Http(Version::Http1)
            && self.uploads.get() == 0
            && !self.write_blocked.get()
            && self.command.get().is_none()
    }

    /// What it held is given back. It is as idle as before.
    pub(crate) fn rests(&self) {
        self.phase.set(Phase::Resting);
    }

    /// Something may have happened.
    pub(crate) fn wakes(&self) {
        if self.phase.get() == Phase::Resting {
            self.phase.set(Phase::Idle);
        }
    }

    /// A request's head has arrived.
    pub(crate) fn asked(&self, now: Timestamp) {
        self.asked.set(Some(now));
    }

    /// What the end of the caller's side means.
    pub(crate) fn end(&self) -> End {
        if self.phase.get() != Phase::Busy || self.spoken.get() != Spoken::Http(Version::Http1) {
            return End::Gone;
        }
        if self.uploads.get() > 0 {
            self.ended.set(true);
            return End::PerhapsWithinBody;
        }
        let since = |asked| self.clock.now().since(asked);
        if self.asked.get().is_none_or(|asked| since(asked) <= HALF_CLOSE_WITHIN) {
            self.half_closed.set(true);
        }
        if self.half_closed.get() { End::AwaitsAnswer } else { End::Gone }
    }

    /// Whether nothing has moved since the last question though something should have. What is no HTTP has its own rules for
    /// that.
    fn stands_still(&self) -> bool {
        self.spoken.get() != Spoken::Opaque
            && !self.moved.replace(false)
            && (self.body_wanted.get() || self.write_blocked.get() || self.half_closed.get())
    }

    pub(crate) fn speaks(&self, version: Version) {
        self.spoken.set(Spoken::Http(version));
        if version == Version::Http2 {
            // Its preface is no header; streams are counted on their own.
            self.enter(Phase::Idle);
        }
    }

    /// Our side is closed.
    pub(crate) fn lingers(&self) {
        if self.phase.get() != Phase::Lingering {
            self.enter(Phase::Lingering);
        }
    }

    /// Whether it is known to carry requests.
    pub(crate) fn carries_http(&self) -> bool {
        matches!(self.spoken.get(), Spoken::Http(_))
    }

    /// Its bytes are not looked at: how long it is silent is its own affair.
    pub(crate) fn is_opaque(&self) {
        self.spoken.set(Spoken::Opaque);
        self.enter(Phase::Busy);
    }

    pub(crate) fn request_began(&self) {
        self.requests.set(self.requests.get() + 1);
        self.asked.set(None);
        self.enter(Phase::Busy);
    }

    pub(crate) fn request_ended(&self) {
        let left = self.requests.get().saturating_sub(1);
        self.requests.set(left);
        self.body_wanted.set(false);
        if left == 0 && self.phase.get() == Phase::Busy {
            self.enter(Phase::Idle);
            if self.half_closed.get() {
                self.wake();
            }
        }
    }

    /// What the connection was told, once; who asks is woken by the next command.
    pub(crate) fn command(&self, waker: &Waker) -> Option<Command> {
        let mut slot = self.waker.borrow_mut();
        match &mut *slot {
            Some(known) => known.clone_from(waker),
            None => *slot = Some(waker.clone()),
        }
        self.command.take()
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since.set(None);
    }

    pub(crate) fn tell(&self, command: Command) {
        self.command.set(Some(command));
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
