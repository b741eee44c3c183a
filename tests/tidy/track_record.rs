//! The table "Track record" of `tests/README.md` names, in its last column, tests and files that exist.

use std::{collections::BTreeSet, fs};

use crate::{
    promises::test_names,
    sources::{all, root},
};

/// Each row with the texts in backquotes of its last column.
fn named() -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(root().join("tests/README.md")).expect("tests/README.md");
    let table = page.split("## Track record").nth(1).expect("the table");
    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| (row.to_owned(), in_backquotes(last_column(row)))).collect()
}

/// Behind the last `|` that is not written `\|`.
fn last_column(row: &str) -> &str {
    row.trim_end().trim_end_matches('|').rsplit(" | ").next().expect("columns")
}

fn in_backquotes(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A test, several whose names fit around a `*`, or a file.
fn exists(name: &str, tests: &BTreeSet<String>, files: &[String]) -> bool {
    match name.split_once('*') {
        _ if name.contains('.') || name.contains('/') => files.iter().any(|file| file.ends_with(name)),
        Some((begin, end)) => tests.iter().any(|test| test.starts_with(begin) && test.ends_with(end)),
        None => tests.contains(name) || files.iter().any(|file| file.contains(&format!("/{name}/"))),
    }
}

#[test]
fn each_row_of_the_track_record_names_tests_that_exist() {
    let (rows, tests) = (named(), test_names());
    let files: Vec<_> = all().iter().map(|source| source.path.display().to_string()).collect();
    assert!(rows.len() > 50, "{} rows", rows.len());
    for (row, names) in rows {
        assert!(!names.is_empty(), "no test is named in {row}");
        for name in names {
            assert!(exists(&name, &tests, &files), "`{name}` is nowhere, named in {row}");
        }
    }
}
