//! Makes a server's text safe to show in an error or a log line. Pure.

/// Returns one line of at most `SHOWN_MAX` characters, without control characters, and without the arguments that a
/// server repeats.
pub(crate) fn shown(text: &str) -> String {
    let kept = without_arguments(text);
    match kept.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", escaped(&kept[..end])),
        None => escaped(kept),
    }
}

/// A server that does not know a command repeats its first arguments. For a login these contain the password.
fn without_arguments(text: &str) -> &str {
    text.find(REPEATED).map_or(text, |at| text[..at].trim_end_matches([' ', ',']))
}

fn escaped(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

const REPEATED: &str = "with args beginning with";
const SHOWN_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_control_characters_and_endless_texts_are_not_shown() {
        let unknown = "ERR unknown command 'AUTH', with args beginning with: 'app' 'hunter2' ";
        assert_eq!(shown(unknown), "ERR unknown command 'AUTH'");
        assert_eq!(shown("ERR \u{1b}[31mred\n"), "ERR \\u{1b}[31mred\\n");
        assert_eq!(shown(&"ä".repeat(1_000)).chars().count(), SHOWN_MAX + 3);
        assert_eq!(shown("NOAUTH Authentication required."), "NOAUTH Authentication required.");
    }
}
