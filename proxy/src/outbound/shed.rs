//! Turning callers away while there is no room: in their own protocol where that is clear, and without taking the room that
//! there is not.

use crate::metrics::edge::{self, Closed, Peer};
use crate::outbound::reply::{self, Refusal};
use crate::worker::Worker;
use std::io::Result;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Callers that one worker tells at the same time that there is no room. Further ones are just closed.
const TOLD_MAX: usize = 16;

/// How long a caller has to ask and to hear the answer.
const TOLD_IN: Duration = Duration::from_secs(1);

/// Turns a connection away.
pub(crate) fn shed(worker: &Rc<Worker>, stream: TcpStream) {
    edge::closed(Peer::Caller, Closed::Overloaded);
    let told = worker.shedding.get();
    if told >= TOLD_MAX {
        return;
    }
    worker.shedding.set(told + 1);
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let ended = tokio::time::timeout(TOLD_IN, tell(stream)).await;
        if let Ok(Err(error)) = ended {
            tracing::debug!(%error, "a caller that was turned away went first");
        }
        worker.shedding.set(worker.shedding.get().saturating_sub(1));
    });
}

/// Answers a request; what is no HTTP/1 request is closed without a word.
async fn tell(mut stream: TcpStream) -> Result<()> {
    let mut bytes = vec![0; 4096];
    let length = stream.read(&mut bytes).await?;
    let first = bytes.get(..length).unwrap_or_default();
    let is_request =
        first.first().is_some_and(u8::is_ascii_alphabetic) && !first.starts_with(b"PRI ");
    if is_request {
        edge::refused(Refusal::Overloaded as usize, Refusal::Overloaded.name());
        stream.write_all(reply::http1(Refusal::Overloaded).as_bytes()).await?;
        stream.shutdown().await?;
        // Closing over unread bytes would take the answer away again.
        while stream.read(&mut bytes).await? > 0 {}
    }
    Ok(())
}
