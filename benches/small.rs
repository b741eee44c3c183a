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
    let targets: Vec<&str> =
        figures["rows"].as_array().unwrap().iter().map(|row| row["target"].as_str().unwrap()).collect();
    for target in
        ["P3", "P5", "P10", "P11", "P13", "P13c", "P14", "P15", "bulk", "faults", "L4", "shards", "links"]
    {
        assert!(targets.contains(&target), "{target} is not measured");
    }
}
