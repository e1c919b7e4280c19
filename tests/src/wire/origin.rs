//! The origin of the table: notes every request that it sees, parsed strictly, and answers by script.

use crate::wire::accept;
use crate::wire::row::{PLAIN, Row, Then, When};
use crate::wire::strict::{self, Kind, Message, Parsed};
use parking_lot::Mutex;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// A target that is always answered by 200 and belongs to no row.
pub const FOLLOW: &str = "/follow";

/// A listening origin. Its threads end with the process.
#[derive(Debug)]
pub struct Origin {
    /// Where it listens.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    script: Option<Script>,
    requests: Vec<Message>,
    junk: Vec<&'static str>,
}

#[derive(Clone, Debug)]
struct Script {
    answer: Vec<u8>,
    when: When,
    then: Then,
}

impl Origin {
    /// Starts it.
    pub fn start() -> Self {
        let (address, state) = accept::each(serve);
        Self { address, state }
    }

    /// Forgets what it saw, and answers the first request of what follows as the row says.
    pub fn set(&self, row: &Row) {
        let script = Script { answer: row.answer.clone(), when: row.when, then: row.then };
        *self.state.lock() = State { script: Some(script), ..State::default() };
    }

    /// What it saw.
    pub fn seen(&self) -> (Vec<Message>, Vec<&'static str>) {
        let state = self.state.lock();
        (state.requests.clone(), state.junk.clone())
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    // A peer that is gone is no matter of the origin.
    drop(stream.set_nodelay(true));
    let mut bytes = Vec::new();
    loop {
        let at_end = !more(&mut stream, &mut bytes);
        loop {
            match answer(&mut stream, &mut bytes, at_end, state) {
                Next::Request => {}
                Next::Bytes if at_end => return,
                Next::Bytes => break,
                Next::Close => return,
            }
        }
    }
}

enum Next {
    Request,
    Bytes,
    Close,
}

fn answer(stream: &mut TcpStream, bytes: &mut Vec<u8>, at_end: bool, state: &Mutex<State>) -> Next {
    let early = state.lock().script.as_ref().is_some_and(|script| script.when == When::Head);
    let (request, used) = match strict::parse(bytes, Kind::Request, at_end) {
        Parsed::Whole(request, used) => (request, used),
        Parsed::More | Parsed::Broken(_) if early && strict::head(bytes).is_some() => {
            let Some(head) = strict::head(bytes) else { return Next::Bytes };
            (head, bytes.len())
        }
        Parsed::More => return Next::Bytes,
        // A connection that ends in the middle of a request is how a proxy gives one up.
        Parsed::Broken("cut short") => return Next::Close,
        Parsed::Broken(why) => {
            state.lock().junk.push(why);
            return Next::Close;
        }
    };
    bytes.drain(..used);
    if request.start.contains(FOLLOW) {
        return if stream.write_all(PLAIN.as_bytes()).is_ok() {
            Next::Request
        } else {
            Next::Close
        };
    }
    let script = {
        let mut state = state.lock();
        state.requests.push(request);
        state.script.take()
    };
    let (answer, then) = match script {
        Some(script) => (script.answer, script.then),
        None => (PLAIN.into(), Then::Keep),
    };
    if stream.write_all(&answer).is_err() || then == Then::Close {
        return Next::Close;
    }
    Next::Request
}

fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 * 1024];
    match stream.read(&mut buffer) {
        Ok(length) if length > 0 => {
            bytes.extend_from_slice(buffer.get(..length).unwrap_or_default());
            true
        }
        _ => false,
    }
}
