//! The table "What is shared" of `transports/redis/COMPATIBILITY.md` names tests that exist, and each row names one.

use std::fs;

use crate::{
    promises::test_names,
    sources::{all, root},
};

fn rows() -> Vec<String> {
    let page =
        fs::read_to_string(root().join("transports/redis/COMPATIBILITY.md")).expect("COMPATIBILITY.md");
    let table = page
        .split("## What is shared")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .expect("the table");
    table.lines().filter(|line| line.starts_with("| ")).skip(1).map(str::to_owned).collect()
}

#[test]
fn each_row_of_the_compatibility_table_names_tests_that_exist() {
    let (rows, tests) = (rows(), test_names());
    let files: Vec<_> = all().iter().map(|source| source.path.display().to_string()).collect();
    assert!(rows.len() > 12, "{} rows", rows.len());
    for row in rows {
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test is named in {row}");
        for name in named {
            let is_file = name.contains('/') && files.iter().any(|file| file.ends_with(name));
            assert!(is_file || tests.contains(name), "`{name}` is nowhere, named in {row}");
        }
    }
}
