//! An endpoint that speaks HTTP/2 by hand.

use crate::wire::accept;
use crate::wire::http2::{END_HEADERS, END_STREAM, PREFACE, Peer, data, frame, headers, kind};
use crate::wire::origin::FOLLOW;
use parking_lot::Mutex;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// The frames that answer a request on a stream.
pub type Script = Arc<dyn Fn(u32) -> Vec<u8> + Send + Sync>;

/// A listening origin. Its threads end with the process.
#[derive(Debug)]
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: Option<Script>,
    requests: usize,
    connections: usize,
    /// Streams that may be reset on one connection before it is ended, as strict servers do.
    resets_max: Option<usize>,
    /// Connections ended for that, after a request of a good caller was served on them.
    ended: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl Origin {
    /// Starts it.
    pub fn start() -> Self {
        let (address, state) = accept::each(serve);
        Self { address, state }
    }

    /// Answers requests like this from now on.
    pub fn set(&self, script: Script) {
        let mut state = self.state.lock();
        state.script = Some(script);
        state.requests = 0;
    }

    /// Ends a connection after that many resets from now on.
    pub fn bear_resets(&self, max: usize) {
        self.state.lock().resets_max = Some(max);
    }

    /// Connections that it ended because of resets.
    pub fn ended(&self) -> usize {
        self.state.lock().ended
    }

    /// Requests since then.
    pub fn requests(&self) -> usize {
        self.state.lock().requests
    }

    /// Connections that were ever made to it.
    pub fn connections(&self) -> usize {
        self.state.lock().connections
    }
}

/// A plain 200.
pub fn plain(stream: u32) -> Vec<u8> {
    let mut bytes = headers(stream, &[(":status", "200"), ("content-length", "2")], 0);
    bytes.extend(data(stream, "ok", END_STREAM));
    bytes
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    state.lock().connections += 1;
    // A peer that is gone is no matter of the origin.
    drop(stream.set_nodelay(true));
    let mut peer = Peer::new(stream);
    if !peer.skip(PREFACE.len()) || !peer.write(&frame(kind::SETTINGS, 0, 0, &[])) {
        return;
    }
    let (mut open, mut resets) = (Vec::new(), 0);
    while let Some(frame) = peer.frame() {
        let stream = frame.stream;
        if frame.kind == kind::RST_STREAM {
            resets += 1;
            let mut state = state.lock();
            if state.resets_max.is_some_and(|max| resets > max) {
                state.ended += 1;
                return;
            }
        }
        let mut ended = frame.flags & END_STREAM != 0;
        if frame.kind == kind::HEADERS && !open.iter().any(|(known, _)| *known == stream) {
            let Some((fields, last)) = peer.header_list(frame) else { return };
            let follow = fields.iter().any(|(name, value)| name == ":path" && value == FOLLOW);
            open.push((stream, follow));
            ended = last;
        } else if !matches!(frame.kind, kind::HEADERS | kind::DATA) {
            debug_assert!(frame.flags & END_HEADERS == 0 || frame.kind != kind::HEADERS);
            continue;
        }
        if ended {
            let follow = open.iter().any(|(known, follow)| *known == stream && *follow);
            let script = {
                let mut state = state.lock();
                state.requests += usize::from(!follow);
                if follow { None } else { state.script.clone() }
            };
            let bytes = script.map_or_else(|| plain(stream), |script| script(stream));
            if !peer.write(&bytes) {
                return;
            }
        }
    }
}
