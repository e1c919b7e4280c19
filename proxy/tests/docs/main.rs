//! `docs/configuration.md` and `docs/metrics.md` are made from the code, and are held against it here.
//!
//! After a change: `UPDATE=1 cargo test --workspace --test docs`, and look at the difference.
#![expect(clippy::expect_used, reason = "helpers of tests may fail loudly")]

mod configuration;
mod metrics;

/// Compares a page with what the code says, or writes it.
fn check(name: &str, made: &str) {
    kit::page::hold(name, made).expect("the page is up to date");
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
