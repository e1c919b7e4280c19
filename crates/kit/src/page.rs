//! Pages of `docs/` that are made from the code, each held against it by a test. `UPDATE=1 cargo test --workspace --test docs` writes
//! them anew.

use std::fs;
use std::path::Path;

/// The environment variable that has pages written instead of compared.
pub const UPDATE: &str = "UPDATE";

/// Compares a page of `docs/` with what the code says, or writes it. The error says where they differ and what to do.
pub fn hold(name: &str, made: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os(UPDATE).is_some() {
        return fs::write(&path, made).map_err(|error| format!("docs/{name}: {error}"));
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let Some(line) = difference(&found, made) else { return Ok(()) };
    Err(format!(
        "docs/{name} differs from the code, first in line {line}: {UPDATE}=1 cargo test --workspace --test docs"
    ))
}

/// The number of the first line that differs.
fn difference(found: &str, made: &str) -> Option<usize> {
    let same = found.lines().zip(made.lines()).take_while(|(found, made)| found == made).count();
    (found != made).then_some(same + 1)
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(difference("", "a\n"), Some(1));
        assert_eq!(difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(difference("a", "a\n"), Some(2));
    }
}
