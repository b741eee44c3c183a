//! The contender with faults: built once a test run, beside what is built already, by a wrapper around the compiler of
//! this workspace's crates. Their dependencies are those of the healthy build.
//!
//! `tests/run` builds it before the tests, in the profile of the others, and says where it lies.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds it if `LEASEHOLD_CONTENDER_WITH_FAULTS` does not name it, and says where it lies.
pub fn contender() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = || env::var_os("LEASEHOLD_CONTENDER_WITH_FAULTS").map_or_else(build, PathBuf::from);
    BUILT.get_or_init(built).clone()
}

fn build() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // cargo keeps this directory inside the target directory, wherever that is.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "leasehold-tests", "--bin", NAME])
        .args(["--features", "leasehold-tests/with_faults", "--target-dir"])
        .arg(target)
        .current_dir(package)
        .env("RUSTC_WORKSPACE_WRAPPER", package.join("processes/with_faults.sh"))
        .status();
    assert!(built.expect("cargo").success(), "{NAME} could not be built");
    target.join("debug").join(NAME)
}

#[test]
fn a_build_without_debug_assertions_refuses_the_faults() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src/faults.rs");
    let out = tempfile::TempDir::new().expect("a directory");
    let compile = |debug_assertions: &str| {
        Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--cfg=leasehold_fault"])
            .arg(format!("-Cdebug-assertions={debug_assertions}"))
            .args([source.as_os_str(), "--out-dir".as_ref(), out.path().as_os_str()])
            .output()
            .expect("rustc")
    };
    assert!(compile("yes").status.success());
    let refused = compile("no");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a release build must not have it"));
}

const NAME: &str = "contender_with_faults";
