//! Callers at a fixed rate: a request is due whether or not the ones before it were answered.

use crate::{RATE, WINDOW};
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
    good: bool,
}

/// What became of all.
#[derive(Debug, Default)]
pub(crate) struct Report {
    samples: Vec<Sample>,
    onset: Duration,
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
    /// Starts it, for that long.
    pub(crate) fn start(target: SocketAddr, time: Duration) -> Self {
        let start = Instant::now();
        let next = Arc::new(AtomicU32::new(0));
        let count = RATE * u32::try_from(time.as_secs()).unwrap();
        let callers = (0..CALLERS).map(|_| {
            let next = Arc::clone(&next);
            std::thread::spawn(move || call(target, start, &next, count))
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

fn call(target: SocketAddr, start: Instant, next: &AtomicU32, count: u32) -> Vec<Sample> {
    let mut connection = None;
    let mut samples = Vec::new();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return samples;
        }
        let due = Duration::from_secs(1) * number / RATE;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let begun = Instant::now();
        let good = ask(target, &mut connection);
        if !good {
            connection = None;
        }
        samples.push(Sample { due, took: begun.elapsed(), good });
    }
}

/// Whether a whole good answer came. One that the proxy gives with `Connection: close` is good too.
fn ask(target: SocketAddr, connection: &mut Option<TcpStream>) -> bool {
    let kept = connection.is_some();
    let done = exchange(target, connection);
    if kept && matches!(done, Err(Early::Nothing)) {
        // An idle connection that was just closed: any client opens another one.
        *connection = None;
        return exchange(target, connection).unwrap_or(false);
    }
    done.unwrap_or(false)
}

enum Early {
    Nothing,
    Middle,
}

fn exchange(target: SocketAddr, connection: &mut Option<TcpStream>) -> Result<bool, Early> {
    if connection.is_none() {
        let stream =
            TcpStream::connect_timeout(&target, PATIENCE).map_err(|_error| Early::Middle)?;
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
        later.iter().filter(|sample| sample.good).count() as f64 / later.len().max(1) as f64
    }

    /// Whether it is as it has to be.
    pub(crate) fn holds(&self) -> bool {
        self.success() >= Self::SUCCESS_MIN
    }

    /// A row of the table.
    pub(crate) fn row(&self, name: &str) -> String {
        let later = self.later();
        let failed = |samples: &[Sample]| samples.iter().filter(|sample| !sample.good).count();
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
