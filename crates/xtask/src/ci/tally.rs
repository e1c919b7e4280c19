//! What the test runner counted.

use std::fmt;

/// Tests of all programs together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Test and reason of those that were skipped.
    pub(super) skips: Vec<String>,
}

impl Tally {
    /// Counts a line of the test runner's output if it is a result.
    pub(super) fn add(&mut self, line: &str) {
        if let Some((test, reason)) = ignored(line) {
            self.skips.push(format!("{test}: {reason}"));
        }
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(count), Some(what), None) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            let Ok(count) = count.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.skipped += count,
                _ => {}
            }
        }
    }

    /// Takes tests that ended early for a reason out of those that passed.
    pub(super) fn add_skips(&mut self, lines: &[String]) {
        let mut lines = lines.to_vec();
        lines.sort();
        lines.dedup();
        let count = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.passed = self.passed.saturating_sub(count);
        self.skipped += count;
        self.skips.extend(lines);
    }

    /// Whether there were tests and none failed.
    pub(super) fn is_good(&self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

/// A test that the runner says it did not run, and why.
fn ignored(line: &str) -> Option<(&str, &str)> {
    let (test, reason) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    Some((test, reason.strip_prefix(", ").unwrap_or("no reason given")))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.add(line));
        tally
    }

    #[test]
    fn results_of_all_programs_are_summed() {
        let output = "running 3 tests\ntest a ... ok\ntest b ... ignored, too long\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s\n\
            test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s\n\
            9 passed is only text\n";
        let tally = tally(output);
        assert_eq!(tally.to_string(), "6 passed, 1 failed, 1 skipped");
        assert_eq!(tally.skips, ["b: too long"]);
        assert!(!tally.is_good());
    }

    #[test]
    fn a_run_without_tests_is_not_good() {
        assert!(!tally("").is_good());
        let some = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert!(tally(some).is_good());
    }

    #[test]
    fn what_skipped_itself_did_not_pass() {
        let mut tally = tally("test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured");
        tally.add_skips(&[
            "b: no curl".to_owned(),
            "a: no curl".to_owned(),
            "a: no curl".to_owned(),
        ]);
        assert_eq!(tally.to_string(), "3 passed, 0 failed, 3 skipped");
        assert_eq!(tally.skips, ["a: no curl", "b: no curl"]);
    }
}
