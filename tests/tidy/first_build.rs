//! The first command of a checkout, `cargo fleet`, compiles few crates.

use std::{collections::BTreeSet, process::Command};

/// The words of the alias that choose packages and features.
fn chosen_by_cargo_fleet() -> Vec<&'static str> {
    let config = include_str!("../../.cargo/config.toml");
    let alias =
        config.lines().find_map(|line| line.strip_prefix("fleet = \"run --release --quiet ")).expect("fleet");
    let (chosen, _) = alias.split_once(" --bin").expect("a program");
    chosen.split(' ').collect()
}

#[test]
fn cargo_fleet_compiles_at_most_70_crates() {
    let arguments =
        ["tree", "--locked", "--offline", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let told = Command::new(env!("CARGO"))
        .args(arguments)
        .args(chosen_by_cargo_fleet())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let listed = String::from_utf8(told.stdout).expect("UTF-8");
    let crates: BTreeSet<&str> = listed.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    assert!(crates.len() > 20, "{crates:?} is no list of crates");
    assert!(crates.len() <= CRATES_MAX, "{} crates: {crates:?}", crates.len());
}

const CRATES_MAX: usize = 70;
