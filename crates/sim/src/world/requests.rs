//! The requests under way.

use crate::policy::Sent;
use crate::time::Nanos;
use crate::world::event::RequestId;

/// One attempt of a request.
#[derive(Debug)]
pub struct Request {
    /// Who asks.
    pub caller: u16,
    /// When the request arrived at the caller's proxy.
    pub arrived: Nanos,
    /// What it is.
    pub kind: Kind,
    /// Whether it crossed a zone border.
    pub across: bool,
    /// Whether it is the second attempt.
    pub retry: bool,
    /// Whether its answer is a failure.
    pub fails: bool,
    /// What the balancer gets back.
    pub sent: Sent,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answered as soon as it is served.
    Plain,
    /// A long poll.
    Poll,
}

/// A table whose places are given away again.
#[derive(Debug, Default)]
pub struct Requests {
    places: Vec<Place>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place {
    generation: u32,
    request: Option<Request>,
}

impl Requests {
    /// Adds a request.
    pub fn add(&mut self, request: Request) -> RequestId {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.request = Some(request);
            return RequestId { index, generation: place.generation };
        }
        self.places.push(Place { generation: 0, request: Some(request) });
        RequestId { index: self.places.len() as u32 - 1, generation: 0 }
    }

    /// Whether the request is still under way.
    pub fn holds(&self, id: RequestId) -> bool {
        self.places[id.index as usize].generation == id.generation
    }

    /// The request, if it is still under way.
    pub fn find(&mut self, id: RequestId) -> Option<&mut Request> {
        let place = &mut self.places[id.index as usize];
        place.request.as_mut().filter(|_| place.generation == id.generation)
    }

    /// Ends the request, if it is still under way.
    pub fn take(&mut self, id: RequestId) -> Option<Request> {
        let place = &mut self.places[id.index as usize];
        if place.generation != id.generation {
            return None;
        }
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        place.request.take()
    }
}
