//! The request's body, sent to one endpoint and, while it is small, kept for another one. It remembers when it failed itself,
//! since the client side of the HTTP library reports that as an error of the endpoint's connection.

use crate::outbound::accept::{Caller, Uploading};
use crate::outbound::body::BodyError;
use crate::outbound::body::flow::Flow;
use crate::outbound::limits;
use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Sleep;

/// A request body as one attempt sends it.
#[derive(Debug)]
pub(crate) struct RequestBody(Option<Reader>);

/// One attempt's view of the body that the caller sends.
#[derive(Debug)]
struct Reader {
    upload: Upload,
    attempt: u32,
    /// Kept pieces that this attempt has sent.
    next: usize,
    /// Bytes still to send, when the caller said how many there are.
    remaining: Option<u64>,
    ended: bool,
}

/// The body that the caller sends, shared by the attempts to forward it. `None` for a request without body.
#[derive(Clone, Debug)]
pub(crate) struct Upload(Option<Rc<RefCell<Source>>>);

#[derive(Debug)]
struct Source {
    /// `None` when the rest is not wanted any more.
    incoming: Option<Incoming>,
    hold: Option<Hold>,
    /// Who waits for the next piece.
    waiting: Option<Waker>,
    /// Held until the end is read.
    uploading: Option<Uploading>,
    flow: Option<Arc<Flow>>,
    length: Option<u64>,
    attempt: u32,
    keep: bool,
    kept: Vec<Bytes>,
    kept_bytes: usize,
    trailers: Option<HeaderMap>,
    ended: bool,
    fault: Option<Fault>,
}

/// Opened when the endpoint asks for a body that the caller holds back. The HTTP library opens it, from wherever it reads.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    opened: AtomicBool,
    waiting: Mutex<Option<Waker>>,
}

#[derive(Debug)]
struct Hold {
    gate: Arc<Gate>,
    patience: Pin<Box<Sleep>>,
}

/// How long an endpoint may keep a caller waiting that holds back its body: many know nothing of `Expect` and wait for the
/// body themselves. curl waits as long.
const CONTINUE_PATIENCE: Duration = Duration::from_secs(1);

/// What the caller did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The body is malformed, or ended early.
    Broken,
    /// Its trailers are over the limits.
    TooLarge,
}

impl Upload {
    /// Takes the caller's body; `keep` for a request that may be sent again.
    pub(crate) fn new(incoming: Incoming, keep: bool, caller: &Caller) -> Self {
        if incoming.is_end_stream() {
            return Self(None);
        }
        let length = incoming.size_hint().exact();
        let flow = Flow::of(&incoming, caller.worker.overload());
        let keep = keep && length.is_none_or(|length| length <= limits::REPLAY_BYTES_MAX as u64);
        Self(Some(Rc::new(RefCell::new(Source {
            incoming: Some(incoming),
            hold: None,
            waiting: None,
            uploading: caller.uploads(),
            flow,
            length,
            attempt: 0,
            keep,
            kept: Vec::new(),
            kept_bytes: 0,
            trailers: None,
            ended: false,
            fault: None,
        }))))
    }

    /// The body for the next attempt, from its beginning. Bodies given out before end with an error.
    pub(crate) fn body(&self) -> RequestBody {
        RequestBody(self.0.as_ref().map(|shared| {
            let mut source = shared.borrow_mut();
            source.attempt += 1;
            Reader {
                upload: self.clone(),
                attempt: source.attempt,
                next: 0,
                remaining: source.length,
                ended: false,
            }
        }))
    }

    /// Whether the body can be sent once more from its beginning.
    pub(crate) fn replayable(&self) -> bool {
        self.0.as_ref().is_none_or(|source| {
            let source = source.borrow();
            source.fault.is_none() && (source.keep || source.untouched())
        })
    }

    /// The body is not needed once more: what is kept of it is given up.
    pub(crate) fn settle(&self) {
        if let Some(source) = &self.0 {
            let mut source = source.borrow_mut();
            source.keep = false;
            source.kept = Vec::new();
        }
    }

    /// Asks the caller for the body only when the gate is opened, or after some patience; `None` when there is no body.
    pub(crate) fn hold(&self) -> Option<Arc<Gate>> {
        let mut source = self.0.as_ref()?.borrow_mut();
        let gate = Arc::new(Gate::default());
        let patience = Box::pin(tokio::time::sleep(CONTINUE_PATIENCE));
        source.hold = Some(Hold { gate: Arc::clone(&gate), patience });
        Some(gate)
    }

    /// Whether the caller has not been asked for the body yet.
    pub(crate) fn is_held(&self) -> bool {
        self.0.as_ref().is_some_and(|source| source.borrow().hold.is_some())
    }

    /// The rest is not wanted any more: who sends it on gets an error, and the caller's connection ends after its answer.
    pub(crate) fn abandon(&self) {
        let Some(source) = &self.0 else { return };
        let mut source = source.borrow_mut();
        source.incoming = None;
        source.uploading = None;
        if let Some(waiting) = source.waiting.take() {
            waiting.wake();
        }
    }

    /// Bytes of it that were passed on, all attempts together.
    pub(crate) fn passed(&self) -> usize {
        self.0.as_ref().map_or(0, |source| source.borrow().kept_bytes)
    }

    /// Whether the caller has sent all of it.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.as_ref().is_none_or(|source| source.borrow().ended)
    }

    /// What the caller did wrong, if it did.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.0.as_ref().and_then(|source| source.borrow().fault)
    }
}

impl Gate {
    pub(crate) fn open(&self) {
        self.opened.store(true, Ordering::Release);
        let waiting = self.waiting.lock().take();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    fn poll_open(&self, cx: &Context<'_>) -> Poll<()> {
        *self.waiting.lock() = Some(cx.waker().clone());
        if self.opened.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The HTTP/1 library tells what is over its limits from what is malformed by the words of its error only.
fn trailers_are_over_limits(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| {
        source.kind() == std::io::ErrorKind::InvalidData
            && source.to_string().starts_with("chunk trailers")
    })
}

impl Source {
    fn untouched(&self) -> bool {
        self.kept_bytes == 0 && !self.ended
    }

    /// Reads the next piece from the caller.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        std::task::ready!(self.poll_hold(cx));
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(Some(Err(BodyError::Superseded)));
        };
        let polled = Pin::new(incoming).poll_frame(cx);
        if let Some(uploading) = &self.uploading {
            uploading.is_awaited(polled.is_pending());
        }
        let Poll::Ready(polled) = polled else {
            self.wait(cx);
            return Poll::Pending;
        };
        let polled = match polled {
            None => {
                self.ended = true;
                None
            }
            Some(Err(error)) => {
                let over = trailers_are_over_limits(&error);
                self.fault = Some(if over { Fault::TooLarge } else { Fault::Broken });
                Some(Err(BodyError::Caller(error)))
            }
            Some(Ok(frame)) => Some(self.take(frame)),
        };
        if self.ended {
            self.uploading = None;
        }
        Poll::Ready(polled)
    }

    /// Ready when the caller may be asked for the body.
    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(hold) = &mut self.hold else { return Poll::Ready(()) };
        if hold.gate.poll_open(cx).is_pending() && hold.patience.as_mut().poll(cx).is_pending() {
            self.wait(cx);
            return Poll::Pending;
        }
        self.hold = None;
        Poll::Ready(())
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.as_ref().is_some_and(|waiting| waiting.will_wake(cx.waker())) {
            self.waiting = Some(cx.waker().clone());
        }
    }

    fn take(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, BodyError> {
        if let Some(trailers) = frame.trailers_ref() {
            self.ended = true;
            if limits::too_large(trailers) {
                self.fault = Some(Fault::TooLarge);
                return Err(BodyError::TooLarge);
            }
            if self.keep {
                self.trailers = Some(trailers.clone());
            }
        } else if let Some(data) = frame.data_ref() {
            self.kept_bytes = self.kept_bytes.saturating_add(data.len());
            self.ended = self.incoming.as_ref().is_none_or(Body::is_end_stream);
            let kept_max = self.flow.as_ref().map_or(usize::MAX, |flow| flow.share());
            if self.kept_bytes > kept_max.min(limits::REPLAY_BYTES_MAX) {
                self.keep = false;
                self.kept = Vec::new();
            }
            if self.keep {
                self.kept.push(data.clone());
            }
        }
        Ok(frame)
    }
}

impl Reader {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(shared) = &self.upload.0 else { return Poll::Ready(None) };
        let mut source = shared.borrow_mut();
        if source.attempt != self.attempt {
            return Poll::Ready(Some(Err(BodyError::Superseded)));
        }
        if let Some(flow) = &source.flow {
            std::task::ready!(flow.poll_room(cx));
        }
        let frame = if let Some(kept) = source.kept.get(self.next) {
            Some(Ok(Frame::data(kept.clone())))
        } else if source.ended {
            source.trailers.clone().map(|trailers| Ok(Frame::trailers(trailers)))
        } else {
            std::task::ready!(source.poll(cx))
        };
        self.next = self.next.saturating_add(1);
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(remaining), Some(data)) = (&mut self.remaining, frame.data_ref()) {
                    *remaining = remaining.saturating_sub(data.len() as u64);
                }
                self.ended = frame.is_trailers();
            }
            Some(Err(_)) => {}
            None => self.ended = true,
        }
        Poll::Ready(match (&source.flow, frame) {
            (Some(flow), Some(Ok(frame))) => Some(Ok(frame.map_data(|data| flow.count(data)))),
            (_, frame) => frame,
        })
    }

    fn is_end(&self) -> bool {
        if self.ended {
            return true;
        }
        let Some(shared) = &self.upload.0 else { return true };
        let source = shared.borrow();
        source.ended && source.trailers.is_none() && self.next >= source.kept.len()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Some(reader) if !reader.ended => reader.poll(cx),
            _ => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Reader::is_end)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            None => SizeHint::with_exact(0),
            Some(reader) => reader.remaining.map_or_else(SizeHint::new, SizeHint::with_exact),
        }
    }
}
