//! Writes `src/discovery/generated.rs` from `proto/discovery.proto`: no protoc needed.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// The checked-in code.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/discovery/generated.rs")
}

/// What it should be.
pub(crate) fn generate() -> Result<String, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let descriptors = protox::compile([folder.join("discovery.proto")], [&folder])?;
    let out = std::env::temp_dir().join(format!("tidegate-discovery-{}", std::process::id()));
    fs::create_dir_all(&out)?;
    tonic_prost_build::configure().build_transport(false).out_dir(&out).compile_fds(descriptors)?;
    Ok(fs::read_to_string(out.join("tidegate.discovery.v1.rs"))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    fs::write(target(), generate()?)?;
    Ok(())
}
