//! Links between the Markdown files of the project lead somewhere.

use super::Mistake;
use super::tree::{File, Tree};
use std::path::{Component, Path, PathBuf};

/// Every relative link names a file or folder of the tree.
pub(super) fn check(tree: &Tree) -> Vec<Mistake> {
    let documents = tree.files.iter().filter(|file| file.has_extension("md"));
    documents.flat_map(|file| broken(tree, file)).collect()
}

fn broken(tree: &Tree, file: &File) -> Vec<Mistake> {
    let relative = targets(&file.text).into_iter().filter(|target| is_relative(target));
    let missing = relative.filter(|target| !exists(tree, &resolve(&file.path, target)));
    missing
        .map(|target| Mistake::new(&file.path, format!("the link to {target} leads nowhere")))
        .collect()
}

/// What `[..](HERE)` holds, outside of code blocks.
fn targets(text: &str) -> Vec<&str> {
    let mut inside_code = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside_code ^= fence;
        !fence && !inside_code
    });
    prose
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .map(|target| target.split([' ', '#']).next().unwrap_or_default())
        .filter(|target| !target.is_empty())
        .collect()
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

fn resolve(from: &str, target: &str) -> PathBuf {
    let folder = Path::new(from).parent().unwrap_or_else(|| Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

fn exists(tree: &Tree, path: &Path) -> bool {
    tree.files.iter().any(|file| Path::new(&file.path).starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;

    fn check(text: &str) -> Vec<String> {
        let files = [("docs/a.md", text), ("docs/b.md", ""), ("proxy/src/lib.rs", "")];
        super::check(&tree(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_to_files_folders_and_other_sites_are_fine() {
        let text = "[b](b.md#part) [src](../proxy/src/) [site](https://example.com) [here](#part)\n```\n[x](y)\n```";
        assert_eq!(check(text), [""; 0]);
    }

    #[test]
    fn a_link_to_nothing_is_a_mistake() {
        let mistakes = ["c.md", "../b.md", "../../b.md"];
        let expected =
            mistakes.map(|target| format!("docs/a.md: the link to {target} leads nowhere"));
        assert_eq!(check("[1](c.md) [2](../b.md), [3](../../b.md)"), expected);
    }
}
