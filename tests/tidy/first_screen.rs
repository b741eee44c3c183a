//! What README.md says about versions and features is so, and the page of the examples has all of them.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use crate::{rust_version::metadata, sources::root};

fn page() -> String {
    fs::read_to_string(root().join("README.md")).expect("README.md")
}

/// The libraries, whose features a user chooses.
fn libraries() -> Vec<Value> {
    let all = metadata()["packages"].as_array().expect("packages").clone();
    all.into_iter().filter(|package| LIBRARIES.iter().any(|name| package["name"] == *name)).collect()
}

/// The row of each feature, as far as a machine knows it.
fn rows_of(package: &Value) -> Vec<String> {
    let features = package["features"].as_object().expect("features");
    let by_default = features.get("default").and_then(Value::as_array).cloned().unwrap_or_default();
    let row = |feature: &String| {
        let default = if by_default.iter().any(|name| name == feature) { "on" } else { "off" };
        format!("| `{feature}` | `{}` | {default} |", package["name"].as_str().expect("a name"))
    };
    features.keys().filter(|feature| *feature != "default").map(row).collect()
}

#[test]
fn the_table_of_features_has_all_of_them() {
    let page = page();
    let table = page.split("| feature |").nth(1).expect("the table").split("\n\n").next().expect("its end");
    let first_cells = |row: &str| row.split('|').take(4).collect::<Vec<_>>().join("|") + "|";
    let shown: BTreeSet<String> = table.lines().skip(2).map(first_cells).collect();
    let wanted: BTreeSet<String> = libraries().iter().flat_map(rows_of).collect();
    assert_eq!(shown, wanted, "README.md, `What it runs on`");
}

#[test]
fn the_rust_version_is_that_of_the_crates() {
    for package in libraries() {
        let version = package["rust_version"].as_str().expect("a version").to_owned();
        assert!(page().contains(&format!("| Rust | {version} or newer")), "{version}");
    }
}

#[test]
fn every_server_that_is_tested_is_named() {
    let page = page();
    let row = page.lines().find(|line| line.starts_with("| Servers |")).expect("the row of servers");
    let list = fs::read_to_string(root().join("tests/harness/servers.sh")).expect("servers.sh");
    let names = list.lines().filter_map(|line| {
        let name = line.split(' ').next()?;
        name.strip_prefix("redis-").or(name.strip_prefix("valkey-"))
    });
    let versions: Vec<_> = names.collect();
    assert!(versions.len() >= 4, "{versions:?}");
    assert!(versions.iter().all(|version| row.contains(version)), "{versions:?} in {row}");
}

#[test]
fn every_example_has_a_row_in_their_readme() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect(path);
    let (manifest, page) = (read("examples/Cargo.toml"), read("examples/README.md"));
    let programs = manifest.split("[[bin]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next());
    let programs: Vec<_> = programs.collect();
    assert!(programs.len() > 10, "{programs:?}");
    let missing: Vec<_> = programs.iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
    assert!(missing.is_empty(), "add a row to examples/README.md for {missing:?}");
}

const LIBRARIES: [&str; 3] = ["leasehold", "leasehold-memory", "leasehold-redis"];
