//! Callers at a fixed rate: a request is due whether or not the ones before it were answered.

use crate::WINDOW;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a caller waits.
const PATIENCE: Duration = Duration::from_secs(3);

/// Enough for all that may hang at the same time.
const CALLERS: usize = 250;

/// What became of one request.
#[derive(Clone, Copy, Debug)]
struct Sample {
    due: Duration,
    took: Duration,
    end: End,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By a whole good answer. One that the proxy gives with `Connection: close` is good too.
    Good,
    /// By another answer.
    Bad,
    /// Without an answer.
    Lost,
    /// There was no connection.
    Refused,
}

/// What callers do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) target: SocketAddr,
    pub(crate) time: Duration,
    /// Requests a second.
    pub(crate) rate: u32,
    /// Whether a request is sent again whose connection was closed while it was idle, as most clients do.
    pub(crate) lenient: bool,
}

/// What became of all.
#[derive(Debug, Default)]
pub(crate) struct Report {
    samples: Vec<Sample>,
    onset: Duration,
    pub(crate) remark: Option<String>,
    pub(crate) resident_kib: (u64, u64),
    pub(crate) descriptors: (usize, usize),
}

/// A load that is running.
#[derive(Debug)]
pub(crate) struct Load {
    callers: Vec<std::thread::JoinHandle<Vec<Sample>>>,
    start: Instant,
}

impl Load {
    /// Starts it.
    pub(crate) fn start(plan: Plan) -> Self {
        let start = Instant::now();
        let next = Arc::new(AtomicU32::new(0));
        let callers = (0..CALLERS).map(|_| {
            let next = Arc::clone(&next);
            std::thread::spawn(move || call(plan, start, &next))
        });
        Self { callers: callers.collect(), start }
    }

    /// Time since its start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits for its end.
    pub(crate) fn report(self, onset: Duration) -> Report {
        let samples: Vec<_> =
            self.callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        Report { samples, onset, ..Report::default() }
    }
}

fn call(plan: Plan, start: Instant, next: &AtomicU32) -> Vec<Sample> {
    let count = plan.rate * u32::try_from(plan.time.as_secs()).unwrap();
    let mut connection = None;
    let mut samples = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return samples;
        }
        let due = Duration::from_secs(1) * number / plan.rate;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let begun = Instant::now();
        let end = ask(plan, &mut connection);
        if end != End::Good {
            connection = None;
        }
        samples.push(Sample { due, took: begun.elapsed(), end });
    }
}

fn ask(plan: Plan, connection: &mut Option<TcpStream>) -> End {
    let is_closed = |stream: &mut TcpStream| {
        drop(stream.set_nonblocking(true));
        let closed = !matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
        drop(stream.set_nonblocking(false));
        closed
    };
    if connection.as_mut().is_some_and(is_closed) {
        *connection = None;
    }
    let kept = connection.is_some();
    let mut done = exchange(plan.target, connection);
    if kept && plan.lenient && matches!(done, Err(Early::Nothing)) {
        *connection = None;
        done = exchange(plan.target, connection);
    }
    match done {
        Ok(true) => End::Good,
        Ok(false) => End::Bad,
        Err(Early::Refused) => End::Refused,
        Err(Early::Nothing | Early::Middle) => End::Lost,
    }
}

enum Early {
    Refused,
    Nothing,
    Middle,
}

fn exchange(target: SocketAddr, connection: &mut Option<TcpStream>) -> Result<bool, Early> {
    if connection.is_none() {
        let stream =
            TcpStream::connect_timeout(&target, PATIENCE).map_err(|_error| Early::Refused)?;
        drop(stream.set_nodelay(true));
        drop(stream.set_read_timeout(Some(PATIENCE)));
        *connection = Some(stream);
    }
    let Some(stream) = connection else { return Err(Early::Nothing) };
    stream.write_all(b"GET / HTTP/1.1\r\nHost: chaos\r\n\r\n").map_err(|_error| Early::Nothing)?;
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with(b"\r\n\r\n0123456789") {
        match stream.read(&mut buffer) {
            Ok(0) if answer.is_empty() => return Err(Early::Nothing),
            Ok(0) => return Err(Early::Middle),
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
            Err(error)
                if error.kind() == std::io::ErrorKind::ConnectionReset && answer.is_empty() =>
            {
                return Err(Early::Nothing);
            }
            Err(_) => return Err(Early::Middle),
        }
        if !answer.starts_with(&b"HTTP/1.1 200"[..answer.len().min(12)]) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Report {
    /// What must succeed after the first window.
    pub(crate) const SUCCESS_MIN: f64 = 0.999;

    fn later(&self) -> Vec<Sample> {
        let from = self.onset + WINDOW;
        self.samples.iter().filter(|sample| sample.due >= from).copied().collect()
    }

    fn success(&self) -> f64 {
        let later = self.later();
        let good = later.iter().filter(|sample| sample.end == End::Good).count();
        good as f64 / later.len().max(1) as f64
    }

    /// Requests that ended in each way: good, bad, lost, refused.
    pub(crate) fn ends(&self) -> [usize; 4] {
        [End::Good, End::Bad, End::Lost, End::Refused]
            .map(|end| self.samples.iter().filter(|sample| sample.end == end).count())
    }

    /// Whether it is as it has to be.
    pub(crate) fn holds(&self) -> bool {
        self.success() >= Self::SUCCESS_MIN
    }

    /// A row of the table.
    pub(crate) fn row(&self, name: &str) -> String {
        let later = self.later();
        let failed =
            |samples: &[Sample]| samples.iter().filter(|sample| sample.end != End::Good).count();
        let window: Vec<_> = self
            .samples
            .iter()
            .filter(|sample| sample.due >= self.onset && sample.due < self.onset + WINDOW)
            .copied()
            .collect();
        let mut took: Vec<_> = later.iter().map(|sample| sample.took).collect();
        took.sort_unstable();
        let quantile = |share: usize| {
            took.get(took.len() * share / 100).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
        };
        format!(
            "| {name} | {} | {} | {} | {:.2} % | {:.0} ms | {:.0} ms | {:.1}, {:.1} MiB | {}, {} |",
            self.samples.len(),
            failed(&window),
            failed(&later),
            self.success() * 100.0,
            quantile(50),
            quantile(99),
            self.resident_kib.0 as f64 / 1024.0,
            self.resident_kib.1 as f64 / 1024.0,
            self.descriptors.0,
            self.descriptors.1,
        )
    }
}
