//! The topology file over time: read at start, then again whenever it changes.
//!
//! It is looked at four times a second, and a change counts once two looks in a row saw the same content: so a file that is
//! being written in place is not taken half, and the whole still takes effect within a second. A file that is replaced by a
//! rename is whole from its first moment: one that is replaced again before each look is taken as it is, once a second. Replacing the file by a
//! rename and editing it in place both work, without anything of the operating system to go wrong. While nothing changes, a
//! look is one `stat`.

use super::topology::report::Report;
use super::{Place, World, topology};
use crate::discovery::metrics::DiscoveryMetrics;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::time::MissedTickBehavior;

/// Pause between two looks at the file.
const LOOK: Duration = Duration::from_millis(250);

/// After so many looks in a row that saw another file each, the last one is taken: once a second.
const RESTLESS_LOOKS: u32 = 4;

/// Largest file: some 50,000 endpoints.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Why a topology cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// The file says something wrong.
    #[error("{path} has {}:\n{report}", .report.count())]
    Mistakes {
        /// The file.
        path: PathBuf,
        /// All mistakes.
        report: Report,
    },
}

/// A topology file that was read once.
#[derive(Debug)]
pub struct TopologyFile {
    path: PathBuf,
    /// Goes before the file's own `[proxy]`.
    place: Place,
    /// What was last taken over or refused.
    content: Option<u64>,
    /// The file as it was when that was confirmed.
    confirmed: Option<Stamp>,
    /// Seen by the last look, not yet by two.
    pending: Option<(Stamp, u64)>,
    /// Looks in a row that found the file replaced by yet another one.
    replaced: u32,
    /// Why the last look failed.
    failure: Option<io::ErrorKind>,
}

impl TopologyFile {
    /// Reads the file. What is known of `place` goes before what the file says about this proxy.
    pub fn open(path: &Path, place: Place) -> Result<(Self, World), LoadError> {
        let mut file = Self {
            path: path.to_owned(),
            place,
            content: None,
            confirmed: None,
            pending: None,
            replaced: 0,
            failure: None,
        };
        let (_, text) =
            read(path).map_err(|reason| LoadError::Read { path: path.to_owned(), reason })?;
        file.content = Some(fingerprint(&text));
        let world = file.parse(&text)?;
        Ok((file, world))
    }

    /// Looks at the file: a new world or a new failure, `None` when nothing is new or the change is not confirmed yet.
    pub fn look(&mut self) -> Option<Result<World, LoadError>> {
        match self.changed() {
            Ok(changed) => {
                self.failure = None;
                changed.map(|text| self.parse(&text))
            }
            Err(reason) => {
                // When it comes back, it is taken anew, whatever it holds.
                (self.content, self.confirmed, self.pending) = (None, None, None);
                self.replaced = 0;
                let told = self.failure.replace(reason.kind()) == Some(reason.kind());
                (!told).then(|| Err(LoadError::Read { path: self.path.clone(), reason }))
            }
        }
    }

    fn changed(&mut self) -> io::Result<Option<String>> {
        if self.confirmed == Some(Stamp::of(&fs::metadata(&self.path)?)) {
            self.replaced = 0;
            return Ok(None);
        }
        let (stamp, text) = read(&self.path)?;
        let content = fingerprint(&text);
        if self.pending != Some((stamp, content)) {
            let before = self.pending.replace((stamp, content));
            let replaced = before
                .map(|(seen, _)| seen)
                .or(self.confirmed)
                .is_some_and(|seen| seen.is_another_file(stamp));
            self.replaced = if replaced { self.replaced + 1 } else { 0 };
            if self.replaced < RESTLESS_LOOKS {
                return Ok(None);
            }
        }
        (self.pending, self.confirmed, self.replaced) = (None, Some(stamp), 0);
        let before = self.content.replace(content);
        Ok((before != Some(content)).then_some(text))
    }

    fn parse(&self, text: &str) -> Result<World, LoadError> {
        let mut world = topology::parse(text)
            .map_err(|report| LoadError::Mistakes { path: self.path.clone(), report })?;
        let ours = self.place.clone();
        world.place = Place {
            zone: ours.zone.or(world.place.zone),
            region: ours.region.or(world.place.region),
            node: ours.node.or(world.place.node),
        };
        Ok(world)
    }
}

/// Looks at the file for ever and hands every new world to `apply`.
pub async fn watch(mut file: TopologyFile, metrics: DiscoveryMetrics, apply: impl Fn(&World)) {
    metrics.up.set(1.0);
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        match file.look() {
            None => {}
            Some(Ok(world)) => {
                apply(&world);
                metrics.updates.increment(1);
                metrics.up.set(1.0);
                let endpoints: usize =
                    world.services.iter().map(|service| service.endpoints.len()).sum();
                tracing::info!(services = world.services.len(), endpoints, "topology changed");
            }
            Some(Err(error)) => {
                metrics.errors.increment(1);
                metrics.up.set(0.0);
                tell(&error);
            }
        }
    }
}

/// One log line for each mistake.
fn tell(error: &LoadError) {
    match error {
        LoadError::Read { .. } => {
            tracing::error!(%error, "the topology cannot be read, the last good one stays in force: check the file");
        }
        LoadError::Mistakes { path, report } => {
            let file = path.display();
            tracing::error!(%file, "the topology has {}, the last good one stays in force", report.count());
            for mistake in &report.mistakes {
                tracing::error!(%file, "{mistake}");
            }
        }
    }
}

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    /// Where the file system knows it.
    born: Option<SystemTime>,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            inode: meta.ino(),
            born: meta.created().ok(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The numbers of files that are gone are given out again.
    fn is_another_file(self, other: Self) -> bool {
        self.inode != other.inode || self.born != other.born
    }
}

/// The text and what it was read from: by the time that it is read, another file may stand at its path.
fn read(path: &Path) -> io::Result<(Stamp, String)> {
    let mut text = String::new();
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes > FILE_BYTES_MAX) {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {FILE_BYTES_MAX} bytes"),
        ));
    }
    Ok((stamp, text))
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
