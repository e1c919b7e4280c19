//! The one place where environment variables are read.
#![expect(clippy::disallowed_methods, reason = "this is where the environment is read")]

use std::ffi::OsString;

/// Whether this is a run of continuous integration, in which nothing may be left out.
pub(crate) fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// The cargo that runs us.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Names of the variables with which cargo describes the program that it runs: us. A cargo that we start must not see them,
/// since build scripts that look at them would run again, and all that depends on them would be built again.
pub(crate) fn told_by_cargo() -> Vec<OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| describes_a_package(&name.to_string_lossy())).collect()
}

fn describes_a_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The folders in which programs are looked up, and those where Debian puts programs for administrators.
pub(crate) fn search_path() -> Vec<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).collect()
}

#[cfg(test)]
mod tests {
    use super::describes_a_package;

    #[test]
    fn settings_of_the_user_are_passed_on() {
        assert!(describes_a_package("CARGO_MANIFEST_DIR"));
        assert!(describes_a_package("CARGO_PKG_VERSION"));
        assert!(!describes_a_package("CARGO_TARGET_DIR"));
        assert!(!describes_a_package("CARGO_HOME"));
    }
}
