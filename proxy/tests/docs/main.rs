//! `docs/configuration.md` and `docs/metrics.md` are made from the code, and are held against it here.
//!
//! After a change: `TIDEGATE_DOCS=write cargo test -p proxy --test docs`, and look at the difference.
#![expect(clippy::expect_used, reason = "helpers of tests may fail loudly")]

mod configuration;
mod metrics;

use std::fs;
use std::path::Path;

/// Compares a page with what the code says, or writes it.
fn check(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    #[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
    let write = std::env::var("TIDEGATE_DOCS").is_ok_and(|value| value == "write");
    if write {
        fs::write(&path, made).expect("written");
    }
    let found = fs::read_to_string(&path).expect("the page exists: run with TIDEGATE_DOCS=write");
    let line = found.lines().zip(made.lines()).position(|(found, made)| found != made);
    assert!(
        found == made,
        "docs/{name} differs from the code, first in line {line:?}: run with TIDEGATE_DOCS=write"
    );
}

/// A table of Markdown.
fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let heads = heads.map(str::to_owned);
    let rule = [const { "---" }; N].map(str::to_owned);
    let rows: String =
        rows.into_iter().map(|row| line(&row.map(|cell| cell.replace('|', "\\|")))).collect();
    line(&heads) + &line(&rule) + &rows
}
