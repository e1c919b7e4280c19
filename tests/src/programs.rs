//! Where programs are: ours, built on demand, and the real peers.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The data plane's program, or what `TIDEGATE_PROXY` names instead.
pub fn proxy() -> PathBuf {
    std::env::var_os("TIDEGATE_PROXY").map_or_else(|| own("tidegate-proxy"), PathBuf::from)
}

/// The demo's program.
pub fn demo() -> PathBuf {
    own("demo")
}

/// The injector's program.
pub fn injector() -> PathBuf {
    own("tidegate-injector")
}

/// The controller's program.
pub fn controller() -> PathBuf {
    own("tidegate-controller")
}

/// A program of the workspace, as fresh as the test.
fn own(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(folder).join(name)
}

/// `TIDEGATE_BIN` when `cargo xtask test` has built them there, else where they are built now: beside the test itself. Other
/// tests that do the same wait for cargo's lock.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("TIDEGATE_BIN") {
        return folder.into();
    }
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().find(|path| path.ends_with("deps")).unwrap().parent().unwrap();
    // The folder of a profile has its name, except that of `dev`.
    let profile = folder
        .file_name()
        .and_then(|name| name.to_str())
        .filter(|name| *name != "debug")
        .unwrap_or("dev");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = [
        "build",
        "--quiet",
        "--locked",
        "--bins",
        "-p",
        "proxy",
        "-p",
        "controller",
        "-p",
        "demo",
        "-p",
        "injector",
        "--profile",
        profile,
    ];
    let status = Command::new(cargo).args(build).current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(status.unwrap().success(), "the programs do not build");
    folder.to_owned()
}

/// Why a test cannot run here: a real peer is missing.
#[derive(Debug)]
pub struct Missing(String);

/// Something that is not here.
pub fn missing(what: &str) -> Missing {
    Missing(what.to_owned())
}

/// The Python that has the packages of `tests/grpc/requirements.txt`.
pub fn python() -> Result<PathBuf, Missing> {
    prepared("venv/bin/python", "Python with grpcio")
}

/// The Kubernetes API server that `tests/kubernetes/go.mod` names.
pub fn api_server() -> Result<PathBuf, Missing> {
    prepared("kube-apiserver", "the Kubernetes API server")
}

/// What no package manager of the system installs.
fn prepared(path: &str, what: &str) -> Result<PathBuf, Missing> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools");
    let tools = std::env::var_os("TIDEGATE_TOOLS").map_or_else(|| default.into(), PathBuf::from);
    let path = tools.join(path);
    if path.exists() { Ok(path) } else { Err(Missing(what.to_owned())) }
}

/// helm, kubectl, `venv/bin/hadolint` and the like: what checks the chart.
pub fn chart_tool(name: &str) -> Result<PathBuf, Missing> {
    prepared(&format!("chart/{name}"), name)
}

/// A program in the search path.
pub fn tool(name: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Missing(name.to_owned()))
}

/// A program of `PostgreSQL`'s server, which Debian keeps out of the search path.
pub fn postgresql(name: &str) -> Result<PathBuf, Missing> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found = versions.map(|version| version.path().join("bin").join(name));
    found.find(|path| path.is_file()).ok_or_else(|| Missing(format!("PostgreSQL's {name}")))
}

/// The tool, or `None` after the skip was written down where `cargo xtask test` counts it. Without such a place a missing
/// tool is a failure: a test that does nothing must not look like one that passed.
pub fn or_skip<T>(found: Result<T, Missing>) -> Option<T> {
    let missing = match found {
        Ok(found) => return Some(found),
        Err(Missing(what)) => what,
    };
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let Some(list) = std::env::var_os("TIDEGATE_SKIPS") else {
        panic!("{missing} is missing; `cargo xtask test` installs what tests need");
    };
    let mut list = File::options().append(true).open(list).unwrap();
    writeln!(list, "{test}: {missing} is missing").unwrap();
    None
}

/// A tool; leaves the test when it is missing and that is allowed.
#[macro_export]
macro_rules! need {
    ($found:expr) => {
        match $crate::programs::or_skip($found) {
            Some(found) => found,
            None => return,
        }
    };
}
