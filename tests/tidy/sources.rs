//! What is in the checkout's Rust files.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A Rust file and its text.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Every Rust file of the project, built ones left out.
pub(crate) fn all() -> Vec<Source> {
    let mut sources = Vec::new();
    for room in ["engine", "transports", "cli", "examples", "tests", "benches"] {
        collect(&root().join(room), &mut sources);
    }
    assert!(sources.len() > 50, "the sources were not found");
    sources
}

fn collect(folder: &Path, sources: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).expect("a folder of the checkout").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("UTF-8");
            sources.push(Source { path, text });
        }
    }
}

#[test]
fn no_source_file_is_called_what_says_nothing() {
    for source in all() {
        let name = source.path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(
            !["utils", "util", "common", "helpers", "misc", "types"].contains(&&*name),
            "{:?}",
            source.path
        );
    }
}

#[test]
fn the_engine_names_no_server() {
    for source in all().iter().filter(|source| source.path.starts_with(root().join("engine/src"))) {
        let code: String = source.text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in ["fred::", "leasehold_redis::", "EVALSHA", "redis::"] {
            assert!(!code.contains(word), "{word} in {:?}", source.path);
        }
    }
}
