//! Pieces of bodies on their way. Where memory is limited, each body counts what of it the HTTP library has and has not
//! written yet, and waits when that is its share: then its sender is not read any more, and waits as well.

use crate::overload::{self, Overload};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// What of one body is on its way.
#[derive(Debug)]
pub(crate) struct Flow {
    overload: Arc<Overload>,
    /// Bytes that are not written yet.
    held: AtomicUsize,
    /// Who waits for them to be written.
    waiting: Mutex<Option<Waker>>,
}

/// A piece of it.
#[derive(Debug)]
struct Held {
    bytes: Bytes,
    flow: Arc<Flow>,
}

impl Flow {
    /// For a body that may become larger than any share; `None` for others, and where memory is not limited.
    pub(crate) fn of(body: &Incoming, overload: &Arc<Overload>) -> Option<Arc<Self>> {
        let small = || body.size_hint().upper().is_some_and(overload::is_small);
        (overload.is_limited() && !small()).then(|| Arc::new(Self::new(Arc::clone(overload))))
    }

    fn new(overload: Arc<Overload>) -> Self {
        Self { overload, held: AtomicUsize::new(0), waiting: Mutex::new(None) }
    }

    /// The same bytes, which count until they are dropped: the HTTP library does that when they are written.
    pub(crate) fn count(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.held.fetch_add(bytes.len(), Ordering::Relaxed);
        Bytes::from_owner(Held { bytes, flow: Arc::clone(self) })
    }

    /// The most that is to be on its way.
    pub(crate) fn share(&self) -> usize {
        self.overload.share()
    }

    /// Ready when less than the share is on its way.
    pub(crate) fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        let has_room = || self.held.load(Ordering::Acquire) < self.share();
        if has_room() {
            return Poll::Ready(());
        }
        *self.waiting.lock() = Some(cx.waker().clone());
        // It may have been written in the meantime.
        if has_room() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.flow.held.fetch_sub(self.bytes.len(), Ordering::Release);
        let waiting = self.flow.waiting.lock().take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Flow;
    use crate::overload::Overload;
    use bytes::{Buf, Bytes};
    use std::sync::Arc;
    use std::task::{Context, Waker};

    #[test]
    fn a_body_waits_until_its_share_is_written() {
        let overload = Arc::new(Overload::new(None, Some(1 << 20)));
        let flow = Arc::new(Flow::new(overload));
        let cx = Context::from_waker(Waker::noop());
        let share = flow.share();
        let half = || flow.count(Bytes::from(vec![0; share.div_ceil(2)]));
        let mut first = half();
        assert!(flow.poll_room(&cx).is_ready());
        let second = half();
        assert!(flow.poll_room(&cx).is_pending());
        first.advance(share / 2);
        assert!(flow.poll_room(&cx).is_pending(), "what is written in part is held as a whole");
        drop(first);
        assert!(flow.poll_room(&cx).is_ready());
        drop(second);
        assert!(flow.poll_room(&cx).is_ready());
    }
}
