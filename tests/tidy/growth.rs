//! Public types can grow without a breaking release: lists are slices, public enums and structs with public fields are
//! `#[non_exhaustive]`.

use crate::sources;

/// Types that stay as they are, and why. Each holds all that there is to say, or must be matched or filled in whole.
const COMPLETE: [(&str, &str); 14] = [
    (
        "CounterCall",
        "the engine fills it in and a transport reads it; the conformance suite must state every field",
    ),
    ("Counter", "a transport that keeps counters must decide on every kind"),
    ("CounterOp", "a transport that keeps counters must be able to do every operation"),
    ("LanePurpose", "a transport must open a lane for every purpose"),
    ("Effect", "a request had no effect, or that is unknown: there is no third"),
    ("RunError", "acquire, work, loss and release are all that `run` does, and its caller handles each"),
    ("WatchState", "a transport that counts nothing for a field would hide a missed notice"),
    ("ServerTime", "a time and its clock"),
    ("ClockId", "a node and its epoch"),
    ("SlotRange", "two ends and a node"),
    ("Address", "a host and a port"),
    ("PeerHold", "a test of a peer's hold must state every field"),
    ("ClockStep", "a clock steps forward or back"),
    ("Restart", "data are kept or lost"),
];

/// The name of the public type that a line declares, and whether users could match or build it from outside.
fn declared(lines: &[&str]) -> Option<(String, bool)> {
    let rest = lines[0].strip_prefix("pub ")?;
    let (kind, name) = rest.split_once(' ')?;
    let name: String = name.chars().take_while(|letter| letter.is_alphanumeric()).collect();
    let mut body = lines[1..].iter().take_while(|line| **line != "}");
    match kind {
        "enum" => Some((name, true)),
        "struct" if lines[0].ends_with('{') => Some((name, body.any(|line| line.starts_with("    pub ")))),
        _ => None,
    }
}

fn is_marked(before: &[&str]) -> bool {
    let attributes = before.iter().rev().take_while(|line| line.starts_with(['#', '/', ' ', ')']));
    attributes.into_iter().any(|line| *line == "#[non_exhaustive]")
}

/// Path and text of each source file of the published crates.
pub(crate) fn published() -> impl Iterator<Item = (String, String)> {
    let files = sources::all().into_iter().map(|source| {
        let path = source.path.strip_prefix(sources::root()).expect("in the checkout").to_string_lossy();
        (path.into_owned(), source.text)
    });
    files.filter(|(path, _)| path.contains("src/") && !path.starts_with("tests/"))
}

/// Public types of the published crates: path and name, and whether the type is marked.
fn open_types() -> Vec<(String, String, bool)> {
    let mut types = Vec::new();
    for (path, text) in published() {
        let lines: Vec<&str> = text.lines().collect();
        for line in 0..lines.len() {
            if let Some((name, true)) = declared(&lines[line..]) {
                types.push((path.clone(), name, is_marked(&lines[..line])));
            }
        }
    }
    assert!(types.len() > 50, "the types were not found: {}", types.len());
    types
}

fn is_complete(name: &str) -> bool {
    COMPLETE.iter().any(|(complete, _)| *complete == name)
}

#[test]
fn public_enums_and_structs_with_public_fields_can_grow() {
    let fixed = open_types().into_iter().filter(|(_, name, marked)| !marked && !is_complete(name));
    let fixed: Vec<_> = fixed.map(|(path, name, _)| format!("{path}: {name}")).collect();
    assert!(
        fixed.is_empty(),
        "add #[non_exhaustive] and a constructor, or a line with its reason to COMPLETE: {fixed:#?}"
    );
}

/// Public constants that are arrays: with one more element, the constant has another type.
fn array_constants() -> Vec<String> {
    let mut arrays = Vec::new();
    for (path, text) in published() {
        let declared = text.lines().map(str::trim_start).filter(|line| line.starts_with("pub const "));
        arrays.extend(declared.filter(|line| line.contains(": [")).map(|line| format!("{path}: {line}")));
    }
    arrays
}

#[test]
fn public_lists_are_slices_and_can_grow() {
    let arrays = array_constants();
    assert!(arrays.is_empty(), "make each a slice, `&[T]`: {arrays:#?}");
}

#[test]
fn the_list_of_complete_types_names_no_type_that_is_gone_or_marked() {
    let types = open_types();
    for (name, _) in COMPLETE {
        assert!(types.iter().any(|(_, known, marked)| known == name && !marked), "{name}");
    }
}
