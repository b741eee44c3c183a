//! What is wrong with a line that is no TOML, in words of ours. Pure.

/// What has happened, and what to write, for a message of the parser.
pub(super) fn remedy(message: &str) -> String {
    let row = TABLE.iter().find(|row| message.contains(row.0));
    let (what, how) = row.map_or(("the line cannot be read", LINE), |row| (row.1, row.2));
    format!("{what}; {how}")
}

/// Keyed by a part of the parser's message; the first match counts.
const TABLE: &[(&str, &str, &str)] = &[
    ("duplicate key", "it is there twice", "leave one of the two out"),
    ("must be quoted", "the text is not in quotes", "write key = \"text\""),
    ("invalid boolean", "the text is not in quotes", "write key = \"text\""),
    ("array", "the list is not closed, or a comma is missing in it", "write key = [\"one\", \"two\"]"),
    ("key with no value", "the key has no value", "write key = value"),
    ("unclosed table", "the name of the section is not closed", "write [section]"),
    (
        "escape",
        "the text has a \\ that stands for no letter",
        "write \\\\ for it, or put the text in 'single quotes'",
    ),
    ("string", "the text does not end with its quote", "write key = \"text\""),
];
const LINE: &str = "write key = value, a text in \"quotes\", or [section]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_line_is_told_with_what_to_write_and_no_word_of_the_parser() {
        for (text, expected) in [
            ("a = 1\na = 2", "it is there twice; leave one of the two out"),
            ("a = text", "the text is not in quotes; write key = \"text\""),
            (
                "a = [\"b\" \"c\"]",
                "the list is not closed, or a comma is missing in it; write key = [\"one\", \"two\"]",
            ),
            (
                "a = [\"b\"\nc = 1",
                "the list is not closed, or a comma is missing in it; write key = [\"one\", \"two\"]",
            ),
            ("a", "the key has no value; write key = value"),
            ("[a", "the name of the section is not closed; write [section]"),
            ("a = \"b", "the text does not end with its quote; write key = \"text\""),
            ("= 1", "the line cannot be read; write key = value, a text in \"quotes\", or [section]"),
        ] {
            let error = toml::de::DeTable::parse(text).unwrap_err();
            assert_eq!(remedy(error.message()), expected, "{text}: {}", error.message());
        }
    }
}
