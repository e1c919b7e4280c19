//! The text files of the workspace, read once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// All files that a check may look at, in order of their paths.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// Names at the top of the workspace, files and folders.
    pub(super) top: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct File {
    /// From the top of the workspace, with forward slashes.
    pub(super) path: String,
    /// Empty for a file that is not text.
    pub(super) text: String,
}

/// Folders with nothing of ours: builds, and what belongs to version control and tools.
const SKIPPED: [&str; 4] = ["target", ".git", "__pycache__", "node_modules"];

impl Tree {
    pub(super) fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        for entry in entries(root)? {
            tree.top.push(name(&entry));
            tree.add(root, &entry)?;
        }
        Ok(tree)
    }

    fn add(&mut self, root: &Path, path: &Path) -> io::Result<()> {
        if path.is_symlink() {
            return Ok(());
        }
        if path.is_dir() {
            return entries(path)?.iter().try_for_each(|entry| self.add(root, entry));
        }
        let text = String::from_utf8(fs::read(path)?).unwrap_or_default();
        let path = path.strip_prefix(root).unwrap_or(path).to_string_lossy().replace('\\', "/");
        self.files.push(File { path, text });
        Ok(())
    }

    /// The Rust files below a folder.
    pub(super) fn rust<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a File> {
        self.files
            .iter()
            .filter(move |file| file.is_rust() && Path::new(&file.path).starts_with(folder))
    }
}

impl File {
    pub(super) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    pub(super) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.retain(|entry| !SKIPPED.contains(&name(entry).as_str()));
    entries.sort();
    Ok(entries)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tree of files with their texts.
    pub(in super::super) fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| File { path: (*path).to_owned(), text: (*text).to_owned() });
        Tree { files: files.collect(), top: Vec::new() }
    }

    #[test]
    fn builds_and_version_control_are_left_out() {
        let root = std::env::temp_dir().join(format!("tidegate-tree-{}", std::process::id()));
        for file in ["a/b.rs", "a/target/c.rs", ".git/d.rs", "e.bin"] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, if file == "e.bin" { &[0xff_u8][..] } else { b"text" }).unwrap();
        }
        let tree = Tree::read(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let files: Vec<_> =
            tree.files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
        assert_eq!(files, [("a/b.rs", "text"), ("e.bin", "")]);
        assert_eq!(tree.top, ["a", "e.bin"]);
        assert_eq!(tree.rust(Path::new("a")).count(), 1);
    }
}
