//! What the process has to live on: file descriptors and memory. Near their end the proxy sheds what is new, with a clear
//! answer, so that what is under way goes on and nothing is ever ended by the kernel.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// File descriptors that are none of the callers' and endpoints': listeners, event queues, admin server, files being read.
const FDS_RESERVED: usize = 64;

/// Each caller may need a connection to an endpoint.
const FDS_PER_CALLER: usize = 2;

/// What a caller's connection and its endpoint's cost while a request is served whose body is as small a share as there is.
const BYTES_PER_CALLER: usize = 56 * 1024;

/// The share of the memory limit that callers' connections may take by that; the rest is for bodies and the proxy itself.
const MEMORY_FOR_CALLERS: f64 = 0.75;

/// The share of the memory limit that bodies on their way may take.
const MEMORY_FOR_BODIES: f64 = 0.1;

/// Of each body there is as much with the reader as with the writer.
const PLACES_PER_BODY: usize = 2;

/// What one body may hold in one place, however many there are. The HTTP library reads into buffers of 8 KiB, and into larger
/// ones once it has filled one.
const SHARE_MIN: usize = 8 * 1024 - 1;

/// What one body may hold in one place, however few there are. More makes nothing faster.
const SHARE_MAX: usize = 128 * 1024;

/// From this share of the memory limit on, what is new is shed.
const MEMORY_PRESSED: f64 = 0.85;

/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How often from this share of the limit on: the rest is gone within tens of milliseconds when thousands of callers send.
const LOOK_CLOSELY: Duration = Duration::from_millis(10);
const MEMORY_WATCHED: f64 = 0.5;

/// How many connections there are, how many there may be, and whether memory is short. Shared by all workers.
#[derive(Debug)]
pub struct Overload {
    connections: AtomicUsize,
    connections_max: usize,
    memory_max: Option<u64>,
    pressed: AtomicBool,
    /// What one body may hold in one place.
    share: AtomicUsize,
}

/// A caller's connection that was let in. Its place is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Admission(Arc<Overload>);

impl Overload {
    /// With these limits; `None` where there is none.
    pub fn new(connections_max: Option<usize>, memory_max: Option<u64>) -> Self {
        Self {
            connections: AtomicUsize::new(0),
            connections_max: connections_max.unwrap_or(usize::MAX),
            memory_max,
            pressed: AtomicBool::new(false),
            share: AtomicUsize::new(memory_max.map_or(usize::MAX, |_| SHARE_MAX)),
        }
    }

    /// With the limits of this process; `connections_max` goes before what follows from them.
    pub fn of_this_process(connections_max: Option<usize>) -> Self {
        let (fds_max, memory_max) = (fds_max(), memory_max());
        let connections_max = connections_max.unwrap_or_else(|| room(fds_max, memory_max));
        tracing::info!(connections_max, fds_max, memory_max, "limits of this process");
        Self::new(Some(connections_max), memory_max)
    }

    /// Whether memory is short.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed)
    }

    /// From now on memory is short.
    #[cfg(test)]
    pub(crate) fn press(&self) {
        self.pressed.store(true, Ordering::Relaxed);
        self.divide();
    }

    /// How many bytes of its body a connection may hold in one place. Without a limit of memory, as many as it likes.
    pub(crate) fn share(&self) -> usize {
        self.share.load(Ordering::Relaxed)
    }

    /// Whether memory is limited.
    pub(crate) fn is_limited(&self) -> bool {
        self.memory_max.is_some()
    }

    /// The connections that are there share what there is for bodies.
    fn divide(&self) {
        let Some(limit) = self.memory_max else { return };
        let connections = self.connections.load(Ordering::Relaxed).max(1);
        let share = if self.is_pressed() {
            SHARE_MIN
        } else {
            part(limit, MEMORY_FOR_BODIES) / (connections * PLACES_PER_BODY)
        };
        self.share.store(share.clamp(SHARE_MIN, SHARE_MAX), Ordering::Relaxed);
    }

    /// Lets a caller's connection in, if there is room.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Admission> {
        if self.is_pressed() {
            return None;
        }
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        let admission = Admission(Arc::clone(self));
        self.divide();
        (before < self.connections_max).then_some(admission)
    }

    /// Looks at the memory, for ever.
    pub(crate) async fn watch(&self) {
        let Some(limit) = self.memory_max else { return };
        let mut pause = LOOK;
        loop {
            tokio::time::sleep(pause).await;
            let Some(resident) = resident() else { continue };
            let much = resident as f64 > limit as f64 * MEMORY_WATCHED;
            pause = if much { LOOK_CLOSELY } else { LOOK };
            let pressed = resident as f64 > limit as f64 * MEMORY_PRESSED;
            if self.pressed.swap(pressed, Ordering::Relaxed) != pressed {
                self.divide();
                tracing::warn!(
                    resident,
                    limit,
                    "memory is {}",
                    if pressed { "short: new requests are refused" } else { "enough again" }
                );
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.divide();
    }
}

/// Whether a body of so many bytes is within any share.
pub(crate) fn is_small(bytes: u64) -> bool {
    bytes <= SHARE_MIN as u64
}

/// Connections of callers that descriptors and memory allow.
fn room(fds_max: Option<usize>, memory_max: Option<u64>) -> usize {
    let by_fds = fds_max.map(|max| max.saturating_sub(FDS_RESERVED) / FDS_PER_CALLER);
    let by_memory = memory_max.map(|max| part(max, MEMORY_FOR_CALLERS) / BYTES_PER_CALLER);
    [by_fds, by_memory].into_iter().flatten().min().unwrap_or(usize::MAX).max(1)
}

/// A share of some bytes.
fn part(bytes: u64, share: f64) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of what is positive"
    )]
    let part = (bytes as f64 * share) as u64;
    usize::try_from(part).unwrap_or(usize::MAX)
}

fn fds_max() -> Option<usize> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The memory limit of the control group, of either version.
fn memory_max() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let found = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = if controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            return None;
        };
        // In a container the group's own folder is often the root of what can be seen.
        let own = PathBuf::from(root).join(path.trim_start_matches('/')).join(file);
        let shown = PathBuf::from(root).join(file);
        let text = fs::read_to_string(own).or_else(|_hidden| fs::read_to_string(shown)).ok()?;
        text.trim().parse().ok()
    });
    // Version 1 writes "no limit" as a number near the largest.
    found.filter(|max| *max < 1 << 60).min()
}

/// How much memory is resident.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::{Overload, SHARE_MAX, SHARE_MIN, room};
    use std::sync::Arc;

    #[test]
    fn room_follows_from_what_is_scarce() {
        let mib = |count: u64| Some(count << 20);
        let cases = [
            ((Some(256), None), 96),
            ((Some(20_000), None), 9_968),
            ((Some(20_000), mib(64)), 877),
            ((Some(256), mib(64)), 96),
            ((Some(10), None), 1),
            ((None, None), usize::MAX),
        ];
        for ((fds, memory), expected) in cases {
            assert_eq!(room(fds, memory), expected, "{fds:?} {memory:?}");
        }
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_ended() {
        let overload = Arc::new(Overload::new(Some(2), None));
        let first = overload.admit();
        let _second = overload.admit().unwrap();
        assert!(overload.admit().is_none() && overload.admit().is_none());
        drop(first);
        assert!(overload.admit().is_some());
    }

    #[test]
    fn connections_share_what_there_is_for_bodies() {
        let cases = [
            (None, 1, usize::MAX),
            (Some(64 << 20), 1, SHARE_MAX),
            (Some(64 << 20), 100, 33_554),
            (Some(64 << 20), 2_000, SHARE_MIN),
            (Some(1 << 30), 2_000, 26_843),
        ];
        for (memory_max, connections, expected) in cases {
            let overload = Arc::new(Overload::new(None, memory_max));
            let before = overload.share();
            let open: Vec<_> = (0..connections).map(|_| overload.admit().unwrap()).collect();
            assert_eq!(overload.share(), expected, "{memory_max:?}, {connections}");
            drop(open);
            assert_eq!(overload.share(), before);
        }
    }
}
