//! Converts a byte offset in a text to line and column. Pure.

/// Returns line and column (in characters) of the byte at `offset`, both from 1.
pub(super) fn spot(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns the line that contains the byte at `offset`.
pub(super) fn line_of(text: &str, offset: usize) -> &str {
    text.lines().nth(spot(text, offset).0 - 1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_characters_are_counted_from_one() {
        let text = "ä = 1\nö = 2";
        assert_eq!(spot(text, 0), (1, 1));
        assert_eq!(spot(text, "ä".len()), (1, 2));
        assert_eq!(spot(text, "ä = 1\nö".len()), (2, 2));
        assert_eq!(spot(text, 1_000), (2, 6));
        assert_eq!((line_of(text, 0), line_of(text, 8), line_of("", 0)), ("ä = 1", "ö = 2", ""));
    }
}
