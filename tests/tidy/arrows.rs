//! Imports point down: no circle between the files of a crate, and pure files import nothing impure.

use crate::{imports::Crate, sources};

/// The folders of the crates' root files.
const CRATES: [&str; 6] =
    ["engine/src", "transports/memory/src", "transports/redis/src", "cli/src", "examples/fleet", "benches"];

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let circles: Vec<_> = CRATES.iter().map(|folder| (folder, Crate::read(folder).circles())).collect();
    assert!(circles.iter().all(|(_, circles)| circles.is_empty()), "{circles:#?}");
}

#[test]
fn pure_files_import_no_runtime_no_clock_no_atomics_and_no_lock() {
    let (mut pure, mut impure) = (0, Vec::new());
    for source in sources::all() {
        let head: String = source.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if !head.contains(" Pure") {
            continue;
        }
        pure += 1;
        let code = source.text.split("\n#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let word = IMPURE.iter().find(|word| line.contains(**word));
            impure.extend(word.map(|_| format!("{:?}: {line}", source.path)));
        }
    }
    assert!(pure > 30, "the pure files were not found: {pure}");
    assert!(impure.is_empty(), "these files say that they are pure: {impure:#?}");
}

const IMPURE: [&str; 9] =
    ["tokio::", "Atomic", "Mutex", "RwLock", "Clock,", "Clock}", "SystemTime", "tracing::", "Recorder"];
