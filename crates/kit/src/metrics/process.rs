//! What the kernel knows about this process, under the names of Prometheus' own client libraries.
//!
//! Written directly as text, since processor seconds are a counter with a fraction and the recorder's counters are whole.

use std::fmt::Write as _;
use std::fs;

/// Ticks a second of the processor times in `/proc`: 100 on every Linux that user space sees (`USER_HZ`).
const TICKS: f64 = 100.0;

/// The state of the process at one moment. What cannot be read is `None` and is not rendered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Process {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    open_fds: Option<u64>,
    fds_max: Option<u64>,
}

impl Process {
    /// Reads `/proc/self`.
    pub fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
        Self {
            cpu_seconds: field(&stat, 14)
                .zip(field(&stat, 15))
                .map(|(user, system)| (user + system) / TICKS),
            start_seconds: field(&stat, 22)
                .zip(boot_seconds(&read("/proc/stat")))
                .map(|(start, boot)| boot + start / TICKS),
            resident_bytes: kilobytes(&status, "VmRSS:"),
            virtual_bytes: kilobytes(&status, "VmSize:"),
            threads: value(&status, "Threads:"),
            open_fds: open_fds(),
            fds_max: value(&read("/proc/self/limits"), "Max open files"),
        }
    }

    /// Appends the metrics to `text`.
    pub(crate) fn render(&self, text: &mut String) {
        let whole = |value: Option<u64>| value.map(|value| value as f64);
        let families = [
            ("process_cpu_seconds_total", "counter", "Processor time used", self.cpu_seconds),
            (
                "process_start_time_seconds",
                "gauge",
                "Start of the process, in seconds since 1970",
                self.start_seconds,
            ),
            (
                "process_resident_memory_bytes",
                "gauge",
                "Resident memory",
                whole(self.resident_bytes),
            ),
            ("process_virtual_memory_bytes", "gauge", "Virtual memory", whole(self.virtual_bytes)),
            ("process_threads", "gauge", "Threads", whole(self.threads)),
            ("process_open_fds", "gauge", "Open file descriptors", whole(self.open_fds)),
            (
                "process_max_fds",
                "gauge",
                "Most file descriptors that may be open",
                whole(self.fds_max),
            ),
        ];
        for (name, kind, help, value) in families {
            if let Some(value) = value {
                let written =
                    write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n");
                debug_assert!(written.is_ok(), "a string takes all");
            }
        }
    }
}

/// Field `number` of `/proc/self/stat`, counted from 1 as in its manual. The second may hold spaces and brackets.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn boot_seconds(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    value(status, name).map(|kilobytes| kilobytes * 1024)
}

/// The one that the listing itself needs is not counted.
fn open_fds() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(entries).ok().map(|count| count.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_hostile_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 4242 20";
        let cases = [
            (3, None),
            (4, Some(1.0)),
            (14, Some(250.0)),
            (15, Some(50.0)),
            (22, Some(4242.0)),
            (99, None),
            (0, None),
        ];
        for (number, expected) in cases {
            assert_eq!(field(stat, number), expected, "field {number}");
        }
    }

    #[test]
    fn this_process_is_read_whole() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
        assert!(process.threads.is_some_and(|threads| threads >= 1), "{process:?}");
        assert!(process.open_fds.is_some_and(|fds| fds >= 3), "{process:?}");
        assert!(process.start_seconds.is_some_and(|seconds| seconds > 1.6e9), "{process:?}");
        let mut text = String::new();
        process.render(&mut text);
        assert_eq!(text.matches("# TYPE").count(), 7, "{text}");
    }
}
