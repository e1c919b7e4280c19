//! An endpoint as a process of its own, so that it can be killed and stopped. It does what the last `/_mode` said.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long an answer takes when nothing is wrong.
const NORMAL_MS: u64 = 5;

const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";

/// Mode and its argument: percent of errors, milliseconds of delay, or what is done with the answer.
static ERRORS: AtomicU32 = AtomicU32::new(0);
static DELAY_MS: AtomicU32 = AtomicU32::new(0);
static CUT: AtomicU32 = AtomicU32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Serves, for ever.
pub(crate) fn serve(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    for stream in listener.incoming().flatten() {
        std::thread::spawn(move || connection(stream));
    }
}

fn connection(stream: TcpStream) {
    // A peer that is gone is the end of its connection and nothing else.
    drop(stream.set_nodelay(true));
    let mut reader = BufReader::new(stream);
    while let Some(target) = request(&mut reader) {
        if let Some(mode) = target.strip_prefix("/_mode/") {
            set(mode);
            drop(reader.get_mut().write_all(GOOD.as_bytes()));
            continue;
        }
        if !answer(&mut reader) {
            return;
        }
    }
}

fn set(mode: &str) {
    let (name, value) = mode.split_once('/').unwrap_or((mode, "0"));
    let value = value.parse().unwrap_or(0);
    match name {
        "errors" => ERRORS.store(value, Ordering::Relaxed),
        "delay" => DELAY_MS.store(value, Ordering::Relaxed),
        "truncate" => CUT.store(1, Ordering::Relaxed),
        "reset" => CUT.store(2, Ordering::Relaxed),
        _ => {}
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let target = line.split(' ').nth(1)?.to_owned();
    loop {
        let mut field = String::new();
        if reader.read_line(&mut field).ok()? == 0 {
            return None;
        }
        if field.trim().is_empty() {
            return Some(target);
        }
    }
}

/// Answers; whether the connection goes on.
fn answer(reader: &mut BufReader<TcpStream>) -> bool {
    let delay = NORMAL_MS + u64::from(DELAY_MS.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_millis(delay));
    let number = COUNT.fetch_add(37, Ordering::Relaxed) % 100;
    let stream = reader.get_mut();
    match CUT.load(Ordering::Relaxed) {
        0 if number < ERRORS.load(Ordering::Relaxed) => {
            let bad = "HTTP/1.1 503 Broken\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(bad.as_bytes()).is_ok()
        }
        0 => stream.write_all(GOOD.as_bytes()).is_ok(),
        cut => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123"));
            if cut == 2 {
                // Time for what was sent to arrive: the reset would take it back.
                std::thread::sleep(Duration::from_millis(NORMAL_MS));
                drop(socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO)));
            }
            false
        }
    }
}
