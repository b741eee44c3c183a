//! Words that the code had of its own, and that the field does not know.

use crate::sources;

/// Metaphors that were renamed to the field's terms; each also in its plural.
const PRIVATE: [&str; 20] = [
    "atlas",
    "belt",
    "board",
    "crowd",
    "errand",
    "grumble",
    "guest",
    "homecoming",
    "homeless",
    "patient",
    "roster",
    "seat",
    "seatbelt",
    "tenant",
    "vigil",
    "ward",
    "whereabout",
    "wish",
    "wishe",
    "pacer",
];

/// Every word of a published file, identifiers taken apart: `SlotTable::of_held` is `slot`, `table`, `of`, `held`.
fn words(line: &str) -> impl Iterator<Item = String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut before = ' ';
    for character in line.chars().chain([' ']) {
        let begins = !character.is_alphabetic() || (character.is_uppercase() && before.is_lowercase());
        if begins && !word.is_empty() {
            words.push(std::mem::take(&mut word).to_lowercase());
        }
        if character.is_alphabetic() {
            word.push(character);
        }
        before = character;
    }
    words.into_iter()
}

fn is_private(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    PRIVATE.contains(&word) || PRIVATE.contains(&singular)
}

#[test]
fn published_files_have_no_metaphor_that_the_field_does_not_know() {
    let mut found = Vec::new();
    for source in sources::all() {
        let path = source.path.strip_prefix(sources::root()).expect("in the checkout");
        let is_published =
            path.components().any(|part| part.as_os_str() == "src") && !path.starts_with("tests");
        for (number, line) in source.text.lines().enumerate().filter(|_| is_published) {
            let words: Vec<_> = words(line).filter(|word| is_private(word)).collect();
            found.extend((!words.is_empty()).then(|| format!("{path:?}:{}: {words:?}", number + 1)));
        }
    }
    assert!(found.is_empty(), "use the field's terms (CONTRIBUTING.md): {found:#?}");
}

#[test]
fn identifiers_are_taken_apart() {
    let words: Vec<_> = words("struct SlotSeats { of_ward: u8 }").collect();
    assert_eq!(words, ["struct", "slot", "seats", "of", "ward", "u"]);
    assert!(is_private("seats") && is_private("ward") && !is_private("wards_off"));
}
