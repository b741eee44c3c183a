//! The methods that a user calls in a normal week have an example that compiles.

use crate::sources;

/// What users hold.
const HANDLES: [&str; 17] = [
    "Engine",
    "EngineBuilder",
    "Lock",
    "Lease",
    "AcquireAll",
    "BulkAcquire",
    "Losses",
    "Metrics",
    "MultiLock",
    "MultiLease",
    "Quorum",
    "QuorumLock",
    "QuorumLease",
    "Job",
    "Leader",
    "LeaderWatch",
    "LeaseView",
];

/// Methods that need none: they return a fact, or are as those of another type.
const PLAIN: [&str; 21] = [
    "AcquireAll::class",
    "AcquireAll::max_hold",
    "AcquireAll::no_renewal",
    "AcquireAll::ttl",
    "BulkAcquire::left",
    "EngineBuilder::command_timeout",
    "EngineBuilder::restart_grace",
    "Lease::hold_count",
    "Lease::name",
    "LeaseView::fencing_token",
    "LeaseView::is_held",
    "LeaseView::lost",
    "LeaseView::name",
    "LeaseView::remaining",
    "LeaseView::state",
    "QuorumLease::name",
    "QuorumLock::class",
    "QuorumLock::max_hold",
    "QuorumLock::no_renewal",
    "QuorumLock::ttl",
    "QuorumLock::wait",
];

/// The type whose inherent methods begin at this line.
fn handle(line: &str) -> Option<&'static str> {
    let name = line.strip_prefix("impl ")?.strip_suffix(" {")?;
    HANDLES.into_iter().find(|handle| *handle == name)
}

/// The name of the public method that a line declares.
fn method(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("    pub ")?;
    let (_, name) = rest.strip_prefix("async ").unwrap_or(rest).split_once("fn ")?;
    name.split(['(', '<']).next()
}

fn has_example(before: &[&str]) -> bool {
    let doc = before.iter().rev().take_while(|line| line.trim_start().starts_with(['#', '/']));
    doc.into_iter().any(|line| line.trim_start().starts_with("/// ```"))
}

/// All methods of the handles, each with whether it has an example.
fn methods() -> Vec<(String, bool)> {
    let mut methods = Vec::new();
    for source in
        sources::all().iter().filter(|source| source.path.starts_with(sources::root().join("engine/src")))
    {
        let lines: Vec<&str> = source.text.lines().collect();
        let mut within = None;
        for (number, line) in lines.iter().enumerate() {
            within = if *line == "}" { None } else { handle(line).or(within) };
            if let (Some(handle), Some(name)) = (within, method(line)) {
                methods.push((format!("{handle}::{name}"), has_example(&lines[..number])));
            }
        }
    }
    assert!(methods.len() > 40, "the methods were not found: {}", methods.len());
    methods
}

#[test]
fn each_method_of_a_handle_has_an_example() {
    let without: Vec<_> = methods().into_iter().filter(|(_, shown)| !shown).map(|(name, _)| name).collect();
    let missing: Vec<_> = without.iter().filter(|name| !PLAIN.contains(&&***name)).collect();
    assert!(missing.is_empty(), "add an example of 3 to 10 lines to the documentation of {missing:?}");
    let gone: Vec<_> = PLAIN.iter().filter(|name| !without.contains(&(**name).to_owned())).collect();
    assert!(gone.is_empty(), "take them off the list, they have an example or are gone: {gone:?}");
}
