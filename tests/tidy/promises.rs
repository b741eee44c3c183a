//! `GUARANTEES.md` links each promise to its tests: every test it names exists, every promise has one or says "not
//! yet", and every test that carries a promise's number carries a number that exists.

use std::{collections::BTreeSet, fs};

use crate::sources;

struct Promise {
    number: String,
    tests: Vec<String>,
    not_yet: bool,
}

fn promises() -> Vec<Promise> {
    let page = fs::read_to_string(sources::root().join("GUARANTEES.md")).expect("GUARANTEES.md");
    let rows = page.lines().filter(|line| line.starts_with("| **"));
    rows.map(promise).collect()
}

fn promise(row: &str) -> Promise {
    let cells: Vec<&str> = row.split(" | ").collect();
    let number = cells[0].trim_matches(['|', ' ', '*']).to_owned();
    let last = cells.last().expect("three cells");
    let tests = last.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Promise { number, tests, not_yet: last.contains("*not yet*") }
}

pub(crate) fn test_names() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for source in sources::all() {
        let words = source.text.split("fn ").skip(1);
        names.extend(
            words.map(|rest| {
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
            }),
        );
    }
    names
}

#[test]
fn every_promise_has_a_test_or_says_not_yet() {
    let promises = promises();
    assert!(promises.len() >= 18, "{} promises", promises.len());
    for promise in &promises {
        assert!(promise.not_yet || !promise.tests.is_empty(), "{} has no test", promise.number);
    }
}

#[test]
fn every_test_that_a_promise_names_exists() {
    let names = test_names();
    for promise in promises() {
        for test in promise.tests {
            assert!(names.contains(&test), "{} names `{test}`, which is nowhere", promise.number);
        }
    }
}

#[test]
fn every_number_in_a_tests_name_is_a_promise() {
    let numbers: BTreeSet<String> =
        promises().into_iter().map(|promise| promise.number.to_lowercase()).collect();
    for name in test_names() {
        let number = name.split('_').next().expect("a first part");
        let (letter, digits) = number.split_at(number.len().min(1));
        let is_number =
            ["s", "l"].contains(&letter) && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
        assert!(
            !is_number || numbers.contains(number),
            "`{name}` carries a number that GUARANTEES.md does not have"
        );
    }
}
