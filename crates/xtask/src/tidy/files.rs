//! Where files lie, how long they are and what must not be in them.

use super::Mistake;
use super::tree::{File, Tree};

/// What stands at the top of the workspace. What users meet stands here, the rest under `crates/`.
const FOLDERS: [&str; 10] = [
    ".cargo",
    ".ci",
    "charts",
    "controller",
    "crates",
    "demo",
    "docs",
    "injector",
    "proxy",
    "tests",
];

/// A new file at the top needs a place in this list, so that the first look at the project stays short.
const FILES: [&str; 12] = [
    ".gitignore",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "clippy.toml",
    "deny.toml",
    "proptest-regressions",
    "rust-toolchain.toml",
    "rustfmt.toml",
];

/// Lines of a Rust file, its inline tests included.
const LINES_MAX: usize = 500;

/// Files at the top of the workspace and folders are known ones.
pub(super) fn check_folders(tree: &Tree) -> Vec<Mistake> {
    let known = |name: &str| FOLDERS.contains(&name) || FILES.contains(&name);
    let unknown = tree.top.iter().filter(|name| !known(name.as_str()));
    let text = "not in the layout; move it, or name it in ARCHITECTURE.md and in crates/xtask/src/tidy/files.rs";
    unknown.map(|name| Mistake::new(name, text)).collect()
}

/// No Rust file is too long to be read in one go. Generated code is not read.
pub(super) fn check_sizes(tree: &Tree) -> Vec<Mistake> {
    let read = tree.files.iter().filter(|file| file.is_rust() && !is_generated(file));
    let long =
        read.map(|file| (file, file.text.lines().count())).filter(|(_, lines)| *lines > LINES_MAX);
    long.map(|(file, lines)| {
        Mistake::new(&file.path, format!("{lines} lines, at most {LINES_MAX}; split it"))
    })
    .collect()
}

fn is_generated(file: &File) -> bool {
    file.path.ends_with("/generated.rs")
}

/// Paths of one developer's machine are in no file.
pub(super) fn check_words(tree: &Tree) -> Vec<Mistake> {
    let lines = tree.files.iter().filter(|file| file.path != "Cargo.lock").flat_map(|file| {
        file.text.lines().enumerate().map(move |(index, line)| (file, index + 1, line))
    });
    lines
        .filter_map(|(file, number, line)| {
            let found = home_path(line)?;
            let text = format!("line {number} names {found}, which only one machine has");
            Some(Mistake::new(&file.path, text))
        })
        .collect()
}

/// A path below a folder that belongs to a person or a build machine. Relative paths and URLs with the same word are fine.
fn home_path(line: &str) -> Option<&'static str> {
    // Put together, so that this file passes its own check.
    let folders = [("/ho", "me/"), ("/ro", "ot/"), ("/wo", "rk/"), ("/Us", "ers/")];
    let names = ["a home folder", "root's home folder", "a work folder", "a home folder"];
    folders.iter().zip(names).find_map(|((start, end), name)| {
        let path = [*start, *end].concat();
        line.match_indices(&path).any(|(at, _)| starts_path(line, at)).then_some(name)
    })
}

fn starts_path(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|before| before.chars().next_back());
    before.is_none_or(|before| !before.is_alphanumeric() && !"/._-*})".contains(before))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;
    use super::*;

    #[test]
    fn an_unknown_name_at_the_top_is_a_mistake() {
        let top = ["crates", "misc", "README.md", "notes.txt"].map(str::to_owned).to_vec();
        let mistakes = check_folders(&Tree { top, ..Tree::default() });
        let paths: Vec<_> = mistakes.iter().map(|mistake| mistake.path.to_str().unwrap()).collect();
        assert_eq!(paths, ["misc", "notes.txt"]);
    }

    #[test]
    fn the_501st_line_is_too_much() {
        let check =
            |path: &str, lines: usize| check_sizes(&tree(&[(path, &"x\n".repeat(lines))])).len();
        assert_eq!(check("proxy/src/a.rs", 500), 0);
        assert_eq!(check("proxy/src/a.rs", 501), 1);
        assert_eq!(check("docs/a.md", 501), 0);
        assert_eq!(check("crates/api/src/a/generated.rs", 501), 0);
    }

    #[test]
    fn a_path_of_one_machine_is_a_mistake() {
        let check = |line: &str| check_words(&tree(&[("a.md", line)])).len();
        let join = |parts: [&str; 2]| parts.concat();
        assert_eq!(check(&join(["see /ro", "ot/notes"])), 1);
        assert_eq!(check(&join(["`/ho", "me/ann/x`"])), 1);
        assert_eq!(check(&join(["PATH=/wo", "rk/bin"])), 1);
        assert_eq!(check(&join(["https://example.com/wo", "rk/x"])), 0);
        assert_eq!(check(&join(["net", "work/x and ./wo"])), 0);
        assert_eq!(check(&join(["a/wo", "rk/x"])), 0);
    }
}
