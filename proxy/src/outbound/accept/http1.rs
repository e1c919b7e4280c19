//! Connections of HTTP/1 callers. The HTTP library's state of a connection takes 20 KiB, most of it buffers, and most
//! connections have nothing to do most of the time: one without a request for a second or two is taken apart, waits as a bare
//! socket, and is put together again when its caller speaks.
//!
//! ```text
//!            ┌── bytes, their end, or a drain ──┐
//!            ▼                                  │
//! ──▶ serve requests ──── told to rest ────▶ at rest
//! ```

use crate::outbound::accept::{Caller, handle};
use crate::outbound::detect::Inbound;
use crate::outbound::{limits, upgrade};
use crate::worker::roster::{Command, Entry};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// Serves a connection to its end; `None` when it was told to end.
pub(super) async fn serve(
    entry: &Rc<Entry>,
    mut io: Inbound,
    caller: Rc<Caller>,
) -> Option<hyper::Result<()>> {
    loop {
        // On the heap, so that nothing of it is held at rest.
        match Box::pin(serve_requests(entry, io, &caller)).await {
            ControlFlow::Break(ended) => return ended,
            ControlFlow::Continue(idle) => io = idle,
        }
        if io.has_unread() {
            // The beginning of a request, which came with the one before.
            entry.received();
        } else if !rest(entry, &io).await {
            return None;
        }
    }
}

/// Why requests are not served any longer.
enum Pause {
    /// The connection ended.
    Ended(hyper::Result<()>),
    /// It was told to end.
    Closed,
    /// It was told to rest.
    Idle,
}

/// Serves requests until the connection is told to rest.
async fn serve_requests(
    entry: &Rc<Entry>,
    io: Inbound,
    caller: &Rc<Caller>,
) -> ControlFlow<Option<hyper::Result<()>>, Inbound> {
    let called = Rc::clone(caller);
    let service = service_fn(move |request| handle(Rc::clone(&called), request));
    let mut builder = http1::Builder::new();
    builder
        .auto_date_header(false)
        .max_headers(limits::FIELDS_MAX)
        .max_header_size(limits::HEADER_BYTES_MAX)
        .max_buf_size(limits::BUFFER_BYTES_MAX);
    let mut connection = builder.serve_connection(TokioIo::new(io), service);
    let pause = std::future::poll_fn(|cx| {
        let command = entry.command(cx.waker());
        match command {
            Some(Command::Close) => return Poll::Ready(Pause::Closed),
            Some(Command::Drain) => Pin::new(&mut connection).graceful_shutdown(),
            Some(Command::Rest) | None => {}
        }
        match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Pause::Ended(ended)),
            // Asked again, since something may have come since it was told.
            Poll::Pending if command == Some(Command::Rest) && entry.may_rest() => {
                Poll::Ready(Pause::Idle)
            }
            Poll::Pending => Poll::Pending,
        }
    });
    match pause.await {
        Pause::Closed => ControlFlow::Break(None),
        Pause::Ended(ended) => {
            if let (Ok(()), Some(switch)) = (&ended, caller.switch.take()) {
                let http1::Parts { io, read_buf, .. } = connection.into_parts();
                Box::pin(upgrade::serve(entry, switch, io.into_inner(), read_buf)).await;
            }
            ControlFlow::Break(Some(ended))
        }
        Pause::Idle => {
            let http1::Parts { io, read_buf, .. } = connection.into_parts();
            let mut io = io.into_inner();
            io.unread(&read_buf);
            ControlFlow::Continue(io)
        }
    }
}

/// Waits until there is something to do. `false` when the connection was told to end.
async fn rest(entry: &Entry, io: &Inbound) -> bool {
    entry.rests();
    let goes_on = std::future::poll_fn(|cx| match entry.command(cx.waker()) {
        Some(Command::Close) => Poll::Ready(false),
        Some(Command::Drain) => {
            // What serves requests knows how to end in order.
            entry.tell(Command::Drain);
            Poll::Ready(true)
        }
        Some(Command::Rest) | None => io.poll_readable(cx).map(|()| true),
    });
    let goes_on = goes_on.await;
    entry.wakes();
    goes_on
}
