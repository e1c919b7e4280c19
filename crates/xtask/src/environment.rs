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

/// The folders in which programs are looked up, and those where Debian puts programs for administrators.
pub(crate) fn search_path() -> Vec<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).collect()
}
