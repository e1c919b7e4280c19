//! The event queue: what happens next.

use crate::time::Nanos;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A request in the table of requests under way. The generation tells a late event of a finished request from one of
/// the request that took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// Place in the table.
    pub index: u32,
    /// How often the place was given away before.
    pub generation: u32,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A caller may have a new request (thinned to its rate of the moment).
    Arrival(u16),
    /// A caller that stood still gets to a request that arrived meanwhile.
    Backlog(u16),
    /// A caller opens a stream, or starts to poll.
    Extra(u16),
    /// A request reaches its server.
    Delivery(RequestId),
    /// A server is through with a request. The request may be gone, the slot is free all the same.
    Done {
        /// The server.
        server: u16,
        /// The request.
        request: RequestId,
    },
    /// An answer reaches its caller.
    Reply(RequestId),
    /// A caller gives up waiting.
    Timeout(RequestId),
    /// A balancer's timer.
    Tick(u16),
    /// The scenario's next change.
    Change(u16),
    /// A look into the balancers.
    Sample,
}

/// Events in order of time; events of one moment in the order in which they were planned.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    planned: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Nanos,
    order: u32,
    what: What,
}

impl EventQueue {
    /// Plans an event.
    pub fn plan(&mut self, at: Nanos, what: What) {
        self.heap.push(Entry { at, order: self.planned, what });
        self.planned += 1;
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Nanos, What)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }
}

impl Ord for Entry {
    /// Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
