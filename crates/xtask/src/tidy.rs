//! `cargo xtask tidy`: the rules of the source tree that no compiler knows. Each check is a function from plain data to a list
//! of mistakes, so that its tests can show it a bad tree.

mod dependencies;
mod files;
mod imports;
mod links;
mod tree;

use crate::workspace::Workspace;
use anyhow::Context as _;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use tree::Tree;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// The file or folder, from the top of the workspace.
    path: PathBuf,
    /// What is wrong and what to do.
    text: String,
}

impl Mistake {
    fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.text)
    }
}

/// Prints all mistakes; fails when there is one.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let workspace = Workspace::load()?;
    let tree = Tree::read(&workspace.root).context("cannot read the source tree")?;
    let mistakes = check(&tree, &workspace);
    for mistake in &mistakes {
        println!("{mistake}");
    }
    println!("tidy: {} files, {} mistakes", tree.files.len(), mistakes.len());
    Ok(if mistakes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(tree: &Tree, workspace: &Workspace) -> Vec<Mistake> {
    let members = &workspace.members;
    let mut mistakes = Vec::new();
    mistakes.extend(files::check_folders(tree));
    mistakes.extend(files::check_sizes(tree));
    mistakes.extend(files::check_words(tree));
    mistakes.extend(links::check(tree));
    mistakes.extend(imports::check(members));
    mistakes.extend(imports::check_reach(members));
    mistakes.extend(dependencies::check_required(tree, members));
    mistakes.extend(dependencies::check_unused(tree, members));
    mistakes
}
