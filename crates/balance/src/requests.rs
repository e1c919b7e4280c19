//! The requests that wait for their headers, oldest first on each side.

use crate::endpoint::Locality;
use crate::slots::Slot;
use alloc::vec::Vec;

/// The number of a waiting request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(u32);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) slot: Slot,
    pub(crate) side: Locality,
    pub(crate) dispatched: f64,
    /// It decides for an ejected endpoint.
    pub(crate) trial: bool,
    /// It still counts for load.
    pub(crate) counted: bool,
    previous: u32,
    next: u32,
}

/// A slab of requests with a list a side, in the order of dispatch. Only requests that count for load are in a list.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    all: Vec<Request>,
    free: Vec<u32>,
    local: Ends,
    remote: Ends,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    youngest: u32,
}

impl Requests {
    pub(crate) fn new() -> Self {
        let empty = Ends { oldest: NONE, youngest: NONE };
        Self { all: Vec::new(), free: Vec::new(), local: empty, remote: empty }
    }

    /// Adds a request as the youngest of its side.
    pub(crate) fn add(
        &mut self,
        slot: Slot,
        side: Locality,
        dispatched: f64,
        trial: bool,
    ) -> RequestId {
        let previous = self.ends(side).youngest;
        let request =
            Request { slot, side, dispatched, trial, counted: true, previous, next: NONE };
        let id = if let Some(id) = self.free.pop() {
            if let Some(place) = self.all.get_mut(id as usize) {
                *place = request;
            }
            id
        } else {
            self.all.push(request);
            crate::number::count(self.all.len() - 1)
        };
        if let Some(previous) = self.all.get_mut(previous as usize) {
            previous.next = id;
        } else {
            self.ends(side).oldest = id;
        }
        self.ends(side).youngest = id;
        RequestId(id)
    }

    /// Takes a request out for good.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Request> {
        let request = *self.all.get(id.0 as usize)?;
        if request.counted {
            self.unlink(id);
        }
        self.free.push(id.0);
        Some(request)
    }

    /// The oldest request of a side that counts, if it was dispatched before `limit`: it counts no more.
    pub(crate) fn age_out(&mut self, side: Locality, limit: f64) -> Option<Request> {
        let id = RequestId(self.ends(side).oldest);
        let request = *self.all.get(id.0 as usize)?;
        if request.dispatched > limit {
            return None;
        }
        self.unlink(id);
        let place = self.all.get_mut(id.0 as usize)?;
        place.counted = false;
        place.trial = false;
        Some(request)
    }

    /// When the oldest counted request of a side was dispatched.
    pub(crate) fn oldest(&self, side: Locality) -> Option<f64> {
        let ends = match side {
            Locality::Local => &self.local,
            Locality::Remote => &self.remote,
        };
        self.all.get(ends.oldest as usize).map(|request| request.dispatched)
    }

    fn unlink(&mut self, id: RequestId) {
        let Some(Request { side, previous, next, .. }) = self.all.get(id.0 as usize).copied()
        else {
            return;
        };
        match self.all.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.ends(side).oldest = next,
        }
        match self.all.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.ends(side).youngest = previous,
        }
    }

    fn ends(&mut self, side: Locality) -> &mut Ends {
        match side {
            Locality::Local => &mut self.local,
            Locality::Remote => &mut self.remote,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{EndpointKey, EndpointSpec};
    use crate::slots::Slots;

    #[test]
    fn requests_age_out_in_the_order_of_dispatch_and_end_in_any_order() {
        let spec = EndpointSpec {
            key: EndpointKey(1),
            tier: 0,
            same_zone: true,
            same_region: true,
            zone: None,
        };
        let slot = Slots::default().add(spec, 0.0);
        let mut requests = Requests::new();
        let ids: [RequestId; 4] =
            core::array::from_fn(|at| requests.add(slot, Locality::Local, at as f64, false));
        requests.remove(ids[1]);
        assert_eq!(requests.oldest(Locality::Local), Some(0.0));
        assert!(requests.age_out(Locality::Local, 0.5).is_some());
        assert!(requests.age_out(Locality::Local, 0.5).is_none());
        assert_eq!(requests.oldest(Locality::Local), Some(2.0));
        assert!(!requests.remove(ids[0]).unwrap().counted);
        assert!(requests.remove(ids[3]).unwrap().counted);
        assert!(requests.remove(ids[2]).unwrap().counted);
        assert_eq!(requests.oldest(Locality::Local), None);
        let again = requests.add(slot, Locality::Local, 9.0, true);
        assert_eq!(requests.oldest(Locality::Local), Some(9.0));
        assert!(requests.remove(again).unwrap().trial);
    }
}
