//! The real Kubernetes API server, built from its Go module once and kept.

use super::folder;
use crate::process;
use crate::workspace::Workspace;
use anyhow::Context as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// With a later Go the server's `OpenAPI` breaks, and with it `kubectl apply`. An older one fetches this one by itself.
const GO: &str = "go1.26";
const GO_TO_FETCH: &str = "go1.26.8";
/// The line of `go.mod` that names the release.
const MODULE: &str = "k8s.io/kubernetes ";

/// Builds `kube-apiserver` unless the one of the wanted release is there.
pub(super) fn set_up(workspace: &Workspace, may_build: bool) -> anyhow::Result<()> {
    let source = workspace.root.join("tests/kubernetes");
    let module = fs::read_to_string(source.join("go.mod")).context("cannot read go.mod")?;
    let release = release(&module).context("go.mod names no release of k8s.io/kubernetes")?;
    let server = folder(workspace).join("kube-apiserver");
    if is_current(&server, release) {
        println!("kube-apiserver: {}", server.display());
        return Ok(());
    }
    anyhow::ensure!(may_build, "{release} is not there; run without --no-install");
    anyhow::ensure!(
        process::find("go").is_some(),
        "{release} is built with {GO} (https://go.dev/dl/), and there is no go"
    );
    println!("building kube-apiserver {release}: about 5 minutes on two idle cores, once");
    process::run(&mut build(&source, &server, release)?)?;
    anyhow::ensure!(
        is_current(&server, release),
        "built, but it does not say that it is {release}"
    );
    Ok(())
}

fn build(source: &Path, server: &Path, release: &str) -> anyhow::Result<Command> {
    let found = process::output(Command::new("go").arg("version").env("GOTOOLCHAIN", "local"))?;
    let mut go = Command::new("go");
    go.current_dir(source)
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", if is_wanted_go(&found) { "local" } else { GO_TO_FETCH })
        .args(["build", "-trimpath", "-ldflags"])
        .arg(format!("-s -w -X k8s.io/component-base/version.gitVersion={release}"))
        .arg("-o")
        .arg(server)
        .arg("k8s.io/kubernetes/cmd/kube-apiserver");
    Ok(go)
}

/// From `go version go1.26.8 linux/amd64`.
fn is_wanted_go(version: &str) -> bool {
    let number = version.split_whitespace().nth(2).and_then(|number| number.strip_prefix(GO));
    number.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn is_current(server: &Path, release: &str) -> bool {
    let said = process::output(Command::new(server).arg("--version"));
    said.is_ok_and(|said| said.trim() == format!("Kubernetes {release}"))
}

fn release(module: &str) -> Option<&str> {
    let mut lines = module.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix(MODULE)?.split_whitespace().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_the_one_of_the_module() {
        let module = "tool k8s.io/kubernetes/cmd/kube-apiserver\nrequire (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)";
        assert_eq!(release(module), Some("v1.36.3"));
        assert_eq!(release("module tests"), None);
    }

    #[test]
    fn another_go_is_replaced() {
        let wanted = [
            ("go version go1.26.8 linux/amd64", true),
            ("go version go1.26 linux/arm64", true),
            ("go version go1.27.0 linux/amd64", false),
            ("go version go1.260.0 linux/amd64", false),
            ("go", false),
        ];
        for (version, expected) in wanted {
            assert_eq!(is_wanted_go(version), expected, "{version}");
        }
    }
}
