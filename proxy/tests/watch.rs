//! The topology file over time: what counts as a change, and what does not.
#![expect(clippy::expect_used, reason = "helpers of tests may fail loudly")]

use proxy::discovery::watch::{LoadError, TopologyFile};
use proxy::discovery::{Place, World};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tidegate-watch-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("topology.toml")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("its own folder");
    }
}

/// A topology of so many services.
fn topology(services: usize) -> String {
    let head = "[proxy]\nzone = \"a\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n";
    let services = (0..services).map(|number| format!("[[service]]\nname = \"s{number}\"\n"));
    head.to_owned() + &services.collect::<String>()
}

fn open(path: &Path) -> TopologyFile {
    let (mut file, world) = TopologyFile::open(path, Place::default()).expect("a good file");
    assert_eq!(world.services.len(), 1);
    settle(&mut file, "the file just read is nothing new");
    file
}

/// Looks three times and expects nothing new.
fn settle(file: &mut TopologyFile, why: &str) {
    for _ in 0..3 {
        assert!(file.look().is_none(), "{why}");
    }
}

/// The second look after a change tells it, and only that one.
fn told(file: &mut TopologyFile) -> Told {
    assert!(file.look().is_none(), "one look is no proof");
    let told = file.look().expect("two looks are");
    settle(file, "told once");
    Told(told)
}

struct Told(Result<World, LoadError>);

impl Told {
    fn services(self) -> usize {
        self.0.expect("a good file").services.len()
    }
}

#[test]
fn a_change_counts_once_two_looks_agree() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1)).expect("written");
    let mut file = open(&folder.file());
    fs::write(folder.file(), topology(2)).expect("written");
    assert_eq!(told(&mut file).services(), 2, "edited in place");
    fs::write(folder.0.join("next"), topology(3)).expect("written");
    fs::rename(folder.0.join("next"), folder.file()).expect("renamed");
    assert_eq!(told(&mut file).services(), 3, "replaced by a rename");
}

#[test]
fn a_file_being_written_is_not_taken_half() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1)).expect("written");
    let mut file = open(&folder.file());
    for services in 2..9 {
        fs::write(folder.file(), topology(services)).expect("written");
        assert!(file.look().is_none(), "still growing");
    }
    assert_eq!(file.look().expect("it rests").expect("good").services.len(), 8);
}

#[test]
fn a_file_that_is_replaced_again_and_again_is_taken_every_second() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1)).expect("written");
    let mut file = open(&folder.file());
    let mut seen = Vec::new();
    for services in 2..14 {
        fs::write(folder.0.join("next"), topology(services)).expect("written");
        fs::rename(folder.0.join("next"), folder.file()).expect("renamed");
        seen.push(file.look().map(|told| told.expect("good").services.len()));
    }
    let told: Vec<usize> = seen.iter().flatten().copied().collect();
    assert_eq!(told, [5, 9, 13], "each fourth look, which is a second: {seen:?}");
    settle(&mut file, "the last one was taken");
}

#[test]
fn touching_the_file_changes_nothing() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1)).expect("written");
    let mut file = open(&folder.file());
    fs::write(folder.0.join("next"), topology(1)).expect("written");
    fs::rename(folder.0.join("next"), folder.file()).expect("renamed");
    settle(&mut file, "the same content again");
}

#[test]
fn mistakes_are_told_once_and_the_next_good_file_is_taken() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1)).expect("written");
    let mut file = open(&folder.file());
    fs::write(folder.file(), "[[listner]]\n").expect("written");
    let error = told(&mut file).0.expect_err("mistakes").to_string();
    assert!(
        error.contains(
            "topology.toml has 1 mistake:\nline 1: listner: no such key; did you mean listener?"
        ),
        "{error}"
    );
    fs::write(folder.file(), topology(1)).expect("written");
    assert_eq!(told(&mut file).services(), 1, "back to what it was");
}

#[test]
fn a_missing_file_is_told_once_and_comes_back() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1)).expect("written");
    let mut file = open(&folder.file());
    fs::rename(folder.file(), folder.0.join("away")).expect("renamed");
    let error = file.look().expect("told at once").expect_err("nothing there").to_string();
    assert!(error.contains("cannot read") && error.contains("No such file"), "{error}");
    settle(&mut file, "told once");
    fs::rename(folder.0.join("away"), folder.file()).expect("renamed");
    assert_eq!(told(&mut file).services(), 1);
}

#[test]
fn what_the_process_knows_of_its_place_goes_before_the_file() {
    let folder = Folder::new();
    fs::write(folder.file(), topology(1).replace("[proxy]", "[proxy]\nregion = \"r1\""))
        .expect("written");
    let place = Place { zone: Some("b".into()), ..Place::default() };
    let (_, world) = TopologyFile::open(&folder.file(), place).expect("good");
    assert_eq!(
        world.place,
        Place { zone: Some("b".into()), region: Some("r1".into()), node: None }
    );
}
