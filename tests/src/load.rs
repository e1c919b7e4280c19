//! Load over HTTP/1.1 keep-alive connections, counted to the last request.

use crate::http;
use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What became of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Complete answers of status 2xx.
    pub good: usize,
    /// Complete answers of another status, by what it was.
    pub bad: Vec<u16>,
    /// Requests that were sent and got no complete answer, with what happened.
    pub lost: Vec<String>,
    /// Connections closed by the proxy with `Connection: close` on a complete answer.
    pub told_to_close: usize,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.good += other.good;
        self.bad.extend(other.bad);
        self.lost.extend(other.lost);
        self.told_to_close += other.told_to_close;
    }

    /// All requests that were sent.
    pub fn total(&self) -> usize {
        self.good + self.bad.len() + self.lost.len()
    }
}

/// Callers at work, each with one connection and one request at a time.
#[derive(Debug)]
pub struct Load {
    callers: Vec<JoinHandle<()>>,
    count: Arc<Mutex<Count>>,
    stop: Arc<AtomicBool>,
}

/// What a caller does when it is told to close its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenClosed {
    /// Open another one, as most clients do.
    Reconnect,
    /// End, as an application does that is being stopped itself.
    End,
}

impl Load {
    /// Starts `callers` callers that send GETs until they are stopped.
    pub fn start(address: SocketAddr, callers: usize, when_closed: WhenClosed) -> Self {
        Self::of_host(address, &address.to_string(), callers, when_closed)
    }

    /// The same for another host than the address.
    pub fn of_host(
        address: SocketAddr,
        host: &str,
        callers: usize,
        when_closed: WhenClosed,
    ) -> Self {
        let host: Arc<str> = host.into();
        let count = Arc::new(Mutex::new(Count::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let callers = (0..callers).map(|_| {
            let (count, stop) = (Arc::clone(&count), Arc::clone(&stop));
            let to = (address, Arc::clone(&host));
            std::thread::spawn(move || call(&to, when_closed, &count, &stop))
        });
        Self { callers: callers.collect(), count, stop }
    }

    /// What became of the requests until now.
    pub fn so_far(&self) -> Count {
        self.count.lock().clone()
    }

    /// Whether all callers have ended.
    pub fn is_over(&self) -> bool {
        self.callers.iter().all(JoinHandle::is_finished)
    }

    /// Lets each caller finish its request, and counts.
    pub fn stop(self) -> Count {
        self.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.join().unwrap();
        }
        let count = self.count.lock();
        count.clone()
    }
}

fn call(
    (address, host): &(SocketAddr, Arc<str>),
    when_closed: WhenClosed,
    count: &Mutex<Count>,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        // No connection: the proxy is gone, and nothing was sent.
        let Ok(socket) = http::connect(*address) else { return };
        let mut connection = BufReader::new(socket);
        while !stop.load(Ordering::Relaxed) {
            let one = request(&mut connection, host);
            let (over, told) = (!one.lost.is_empty(), one.told_to_close > 0);
            count.lock().add(one);
            if told && when_closed == WhenClosed::End {
                return;
            }
            if over || told {
                break;
            }
        }
    }
}

fn request(connection: &mut BufReader<TcpStream>, host: &str) -> Count {
    let mut count = Count::default();
    match exchange(connection, host) {
        Ok((status, close)) => {
            count.told_to_close = usize::from(close);
            if (200..300).contains(&status) {
                count.good = 1;
            } else {
                count.bad.push(status);
            }
        }
        Err(error) => count.lost.push(error),
    }
    count
}

fn exchange(connection: &mut BufReader<TcpStream>, host: &str) -> Result<(u16, bool), String> {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let say = |error: std::io::Error| error.to_string();
    connection.get_mut().write_all(request.as_bytes()).map_err(say)?;
    let mut status = String::new();
    if connection.read_line(&mut status).map_err(say)? == 0 {
        return Err("closed without an answer".to_owned());
    }
    let (mut length, mut close) = (None, false);
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).map_err(say)? == 0 {
            return Err("the header is cut short".to_owned());
        }
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse::<usize>().ok(),
            Some(("connection", "close")) => close = true,
            None if line.is_empty() => break,
            _ => {}
        }
    }
    let length = length.ok_or("an answer without Content-Length")?;
    connection.read_exact(&mut vec![0; length]).map_err(say)?;
    let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or("no status line")?, close))
}
