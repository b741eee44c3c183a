//! Makes a server's text safe to show in an error or a log line. Pure.

use leasehold::transport::ForeignText;

/// Returns one bounded line of visible characters, without the arguments that a server repeats.
pub(crate) fn shown(text: &str) -> String {
    ForeignText(without_arguments(text)).to_string()
}

/// A server that does not know a command repeats its first arguments. For a login these contain the password.
fn without_arguments(text: &str) -> &str {
    text.find(REPEATED).map_or(text, |at| text[..at].trim_end_matches([' ', ',']))
}

const REPEATED: &str = "with args beginning with";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_control_characters_and_endless_texts_are_not_shown() {
        let unknown = "ERR unknown command 'AUTH', with args beginning with: 'app' 'hunter2' ";
        assert_eq!(shown(unknown), "ERR unknown command 'AUTH'");
        assert_eq!(shown("ERR \u{1b}[31mred\n"), "ERR \\u{1b}[31mred\\n");
        assert_eq!(shown(&"\u{1b}".repeat(1_000)).chars().count(), 303);
        assert_eq!(shown("NOAUTH Authentication required."), "NOAUTH Authentication required.");
    }
}
