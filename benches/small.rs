//! The benches run small with the tests, so that they cannot rot.

use std::process::Command;

#[test]
fn every_bench_runs() {
    let json = std::env::temp_dir().join(format!("leasehold-benches-{}.json", std::process::id()));
    let table =
        Command::new(env!("CARGO_BIN_EXE_table")).arg("--small").arg("--json").arg(&json).output().unwrap();
    assert!(table.status.success(), "{}", String::from_utf8_lossy(&table.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    std::fs::remove_file(&json).unwrap();
    let rows = figures["rows"].as_array().unwrap();
    let targets: Vec<&str> = rows.iter().map(|row| row["target"].as_str().unwrap()).collect();
    for target in [
        "P3", "P5", "P9", "P10", "P11", "P12", "P13", "P13c", "P14", "P15", "bulk", "faults", "L4", "shards",
        "links", "first", "far",
    ] {
        assert!(targets.contains(&target), "{target} is not measured");
    }
    for words in [
        "16 tasks, may sleep",
        "32 tasks, 0.5 ms away, kept awake",
        "kept awake, raw: p99",
        "ours, taken evenly",
    ] {
        let has_words = rows.iter().any(|row| row["what"].as_str().unwrap().contains(words));
        assert!(has_words, "nothing with \"{words}\" is measured");
    }
}
