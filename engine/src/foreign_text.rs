//! Text of other clients and of servers, as a person may see it on a terminal or in a log. Pure.

use std::fmt::{self, Write};

/// A text that another client or a server has written: an owner, a place in a line, a fact of `INFO`, an error reply.
///
/// `Display` writes one line of visible characters. Everything else is escaped as Rust does it (`\u{1b}`, `\n`): control
/// characters, overrides of the writing direction, characters without width, marks that join the character before them.
/// `Debug` writes the same in quotes. The line ends with `...` where it would get longer than the precision of the format
/// (`{:.40}`), or than 300 characters. The field is the text itself, for JSON and for comparisons.
///
/// # Examples
/// ```
/// use leasehold::transport::ForeignText;
///
/// assert_eq!(ForeignText("\u{1b}[2Jx\n:1").to_string(), "\\u{1b}[2Jx\\n:1");
/// assert_eq!(format!("{:.7}", ForeignText("a long text")), "a long ...");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ForeignText<T>(pub T);

impl<T: AsRef<str>> ForeignText<T> {
    fn write(&self, f: &mut fmt::Formatter<'_>, is_quoted: bool) -> fmt::Result {
        let mut left = f.precision().unwrap_or(SHOWN_MAX);
        for letter in self.0.as_ref().chars() {
            let is_plain = matches!(letter, '"' | '\\' if !is_quoted) || letter == '\'';
            let (plain, escaped) = (is_plain.then_some(letter), (!is_plain).then(|| escaped(letter)));
            let shown = plain.into_iter().chain(escaped.into_iter().flatten());
            match left.checked_sub(shown.clone().count()) {
                Some(rest) => left = rest,
                None => return f.write_str("..."),
            }
            shown.into_iter().try_for_each(|letter| f.write_char(letter))?;
        }
        Ok(())
    }
}

/// The letters of Unicode that are blank are escaped, too: Rust takes them as printable.
fn escaped(letter: char) -> impl Iterator<Item = char> + Clone {
    let is_blank = BLANK_LETTERS.contains(&letter);
    let (blank, other) =
        (is_blank.then(|| letter.escape_unicode()), (!is_blank).then(|| letter.escape_debug()));
    blank.into_iter().flatten().chain(other.into_iter().flatten())
}

const BLANK_LETTERS: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];
const SHOWN_MAX: usize = 300;

impl<T: AsRef<str>> fmt::Display for ForeignText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

impl<T: AsRef<str>> fmt::Debug for ForeignText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        self.write(f, true)?;
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for hidden in [
            '\0',
            '\t',
            '\n',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{a0}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{ffa0}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{f8ff}',
        ] {
            let shown = ForeignText(format!("a{hidden}b")).to_string();
            assert!(shown.is_ascii() && shown.starts_with("a\\") && shown.ends_with('b'), "{shown:?}");
        }
        let plain = "it's C:\\a \"ä\" 日本 ✓ 0:1";
        assert_eq!(ForeignText(plain).to_string(), plain);
        assert_eq!(format!("{:?}", ForeignText("a\"\\\u{202e}")), "\"a\\\"\\\\\\u{202e}\"");
    }

    #[test]
    fn the_length_is_bounded_after_the_text_is_escaped() {
        for text in ["a", "ä", "\u{1b}", "\u{e0001}"] {
            let shown = ForeignText(text.repeat(1_000_000)).to_string();
            assert!(shown.chars().count() <= SHOWN_MAX + 3 && shown.ends_with("..."), "{shown}");
        }
        assert_eq!(format!("{:.7}", ForeignText("1\n345")), "1\\n345");
        assert_eq!(format!("{:.5}", ForeignText("1\n345")), "1\\n34...");
        assert_eq!(format!("{:.2}", ForeignText("1\n345")), "1...");
    }
}
