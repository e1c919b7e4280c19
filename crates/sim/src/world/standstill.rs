//! A machine that is too busy: processes stand still for a moment, all together or each by itself, once in ten seconds.
//!
//! What was to happen to a process meanwhile happens when it goes on, in a rush: a caller's proxy finds all the requests and
//! answers that came in the meantime at once. A server that stands still serves nothing, so what it was at takes that much
//! longer.

use crate::time::{Nanos, SECOND};
use crate::world::chance::{Stream, stream_of};

/// Who stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// All callers and servers at once.
    World,
    /// All servers at once; callers go on.
    Servers,
    /// Each caller and each server at a time of its own.
    Each,
}

/// Who stands still, and for how long at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Who.
    pub whom: Whom,
    /// How long.
    pub length: Nanos,
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// A caller with its proxy.
    Caller(u16),
    /// A server.
    Server(u16),
}

const PERIOD: Nanos = 10 * SECOND;
/// When in a period all stand still.
const TOGETHER: Nanos = 5 * SECOND;
/// What was to happen in so many seconds happens in one afterwards.
const RUSH: Nanos = 100;

impl Standstill {
    /// When what is to happen to a process at `now` does happen, if that is later.
    pub fn until(&self, process: Process, (run, now): (u64, Nanos)) -> Option<Nanos> {
        let since = self.since(process, (run, now)).filter(|since| *since < self.length)?;
        Some(now - since + self.length + since / RUSH)
    }

    /// When a server that takes up work of this length at `now` is through with it.
    pub fn finish(&self, server: u16, (run, now): (u64, Nanos), length: Nanos) -> Nanos {
        let (mut at, mut left) = (now, length);
        while let Some(since) = self.since(Process::Server(server), (run, at)) {
            at += self.length.saturating_sub(since);
            let free = PERIOD - since.max(self.length);
            if left <= free {
                break;
            }
            at += free;
            left -= free;
        }
        at + left
    }

    /// How long ago the process stood still last, if it ever does.
    fn since(&self, process: Process, (run, now): (u64, Nanos)) -> Option<Nanos> {
        let start = match (self.whom, process) {
            (Whom::World, _) | (Whom::Servers, Process::Server(_)) => TOGETHER,
            (Whom::Servers, Process::Caller(_)) => return None,
            (Whom::Each, Process::Caller(index)) => own_start(run, u64::from(index)),
            (Whom::Each, Process::Server(index)) => own_start(run, u64::from(index) | 1 << 16),
        };
        Some((now + PERIOD - start) % PERIOD)
    }
}

/// When in a period a process stands still that does so by itself.
fn own_start(run: u64, process: u64) -> Nanos {
    stream_of(run, Stream::Standstill, process).u64(..PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = SECOND / 1000;
    const ALL: Standstill = Standstill { whom: Whom::World, length: 400 * MS };

    #[test]
    fn what_comes_meanwhile_comes_in_a_rush_afterwards() {
        let until = |ms: Nanos| ALL.until(Process::Caller(3), (1, ms * MS));
        assert_eq!(until(4_999), None);
        assert_eq!(until(5_000), Some(5_400 * MS));
        assert_eq!(until(5_300), Some(5_403 * MS));
        assert_eq!(until(5_400), None);
        assert_eq!(until(15_100), Some(15_401 * MS));
    }

    #[test]
    fn work_takes_as_much_longer() {
        let finish = |ms: Nanos, length: Nanos| ALL.finish(0, (1, ms * MS), length * MS) / MS;
        assert_eq!(finish(1_000, 500), 1_500);
        assert_eq!(finish(4_990, 20), 5_410);
        assert_eq!(finish(5_200, 20), 5_420, "taken up while it stands still");
        assert_eq!(finish(4_000, 20_000), 24_800, "two times");
    }

    #[test]
    fn servers_may_stand_still_alone_and_each_at_a_time_of_its_own() {
        let servers = Standstill { whom: Whom::Servers, ..ALL };
        assert_eq!(servers.until(Process::Caller(0), (1, 5_100 * MS)), None);
        assert!(servers.until(Process::Server(0), (1, 5_100 * MS)).is_some());
        let each = Standstill { whom: Whom::Each, ..ALL };
        let still = |server, ms: Nanos| each.until(Process::Server(server), (1, ms * MS)).is_some();
        let times = |server| (0..10_000).filter(|ms| still(server, *ms)).count();
        assert_eq!((times(0), times(1)), (400, 400));
        assert!((0..10_000).any(|ms| still(0, ms) && !still(1, ms)));
    }
}
