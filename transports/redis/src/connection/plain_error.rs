//! Makes the details of a failed connection readable for an operator. Pure.
//!
//! The details are the `Debug` text of an error of the operating system or of TLS: fred keeps nothing else, and the table
//! of TLS errors looks there. The readable message is a part of that text.

use super::tls_errors;

/// `Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }` becomes `Connection refused`, and
/// `Custom { kind: InvalidData, error: "some text" }` becomes `some text`.
pub(super) fn plain(details: &str) -> String {
    if let Some(fact) = tls_errors::fact(details) {
        return fact;
    }
    let of_system = || details.strip_prefix("Os { code: ").and_then(|rest| rest.split_once("message: \""));
    if let Some((message, _)) = of_system().and_then(|(_, rest)| rest.rsplit_once('"')) {
        return message.to_owned();
    }
    if let Some((_, why)) =
        details.trim_end_matches("\" }").split_once("failed to lookup address information: ")
    {
        return format!("the host name is not known ({why})");
    }
    let custom = details.strip_prefix("Custom { kind: ").and_then(|rest| rest.split_once("error: "));
    custom.map_or(details, |(_, inner)| inner.trim_end_matches(" }").trim_matches('"')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_shown_in_their_plain_words() {
        for (details, expected) in [
            (
                "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
                "Connection refused",
            ),
            (
                "Custom { kind: Uncategorized, error: \"failed to lookup address information: Name or service not known\" }",
                "the host name is not known (Name or service not known)",
            ),
            (
                "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }",
                "no trusted authority has signed the server's certificate",
            ),
            ("Custom { kind: InvalidData, error: New(1) }", "the TLS library has ended the handshake"),
            ("Connection closed.", "Connection closed."),
        ] {
            assert_eq!(plain(details), expected);
        }
    }
}
