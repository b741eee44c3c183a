//! The workspace's `rust-version` is the highest that a dependency of a published crate asks for.

use std::process::Command;

use serde_json::Value;

pub(crate) fn metadata() -> Value {
    let cargo = env!("CARGO");
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let told =
        Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    serde_json::from_slice(&told.stdout).expect("JSON")
}

/// Major, minor and patch; 0 where nothing is said.
fn version(package: &Value) -> [u64; 3] {
    let mut numbers = package["rust_version"]
        .as_str()
        .unwrap_or("0")
        .split('.')
        .map(|part| part.parse().expect("a number"));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[test]
fn it_is_the_highest_that_a_dependency_asks_for() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let is_of_benches = |package: &&Value| OF_BENCHES.iter().any(|name| package["name"] == *name);
    let packages: Vec<_> = packages.iter().filter(|package| !is_of_benches(package)).collect();
    let is_ours = |package: &&Value| package["source"].is_null();
    let ours: Vec<[u64; 3]> = packages.iter().copied().filter(is_ours).map(version).collect();
    let highest = packages
        .iter()
        .copied()
        .filter(|package| !is_ours(package))
        .map(version)
        .max()
        .expect("dependencies");
    assert!(
        ours.iter().all(|version| *version == highest.max([1, 85, 0])),
        "ours {ours:?}, asked for {highest:?}"
    );
}

/// The benches, which nobody builds to use Leasehold, and what only they need: a peer to measure.
const OF_BENCHES: [&str; 3] = ["leasehold-benches", "rslock", "redis"];
