//! The tables "What is shared" and "Faults that Leasehold does not have" of `transports/redis/COMPATIBILITY.md` name tests that
//! exist, and each row names one.

use std::fs;

use crate::{
    promises::test_names,
    sources::{all, root},
};

fn rows(heading: &str) -> Vec<String> {
    let page =
        fs::read_to_string(root().join("transports/redis/COMPATIBILITY.md")).expect("COMPATIBILITY.md");
    let table = page
        .split(&format!("## {heading}\n"))
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .expect("the table");
    table.lines().filter(|line| line.starts_with("| ")).skip(1).map(str::to_owned).collect()
}

#[test]
fn each_row_of_the_compatibility_table_names_tests_that_exist() {
    for heading in ["What is shared", "Faults that Leasehold does not have"] {
        check(rows(heading));
    }
}

fn check(rows: Vec<String>) {
    let tests = test_names();
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
