//! Why a TLS handshake failed, and what to do. Pure.
//!
//! fred passes on rustls errors only as text, so they are looked up in that text. Tests against real servers keep
//! the table in step with it. A failure in the table stays until an operator changes something. A failure that is
//! not in the table is temporary, and the connection is tried again. A failed handshake is never followed by a
//! plain connection.

use leasehold::transport::ErrorKind;

use crate::wire::{error_reply::ErrorReply, shown};

/// Looks up fred's error text. `None`: the failure is not final.
pub(crate) fn refusal(details: &str) -> Option<ErrorReply> {
    let (&(code, kind, _), (_, remedy)) = row(details)?;
    Some(ErrorReply { code, kind, remedy })
}

/// Returns what has happened, in plain words, and not in those of rustls.
pub(crate) fn shown(details: &str) -> String {
    match (row(details), names(details)) {
        (Some((_, (fact, _))), Some(names)) => format!("{fact}: it names {names}"),
        (Some((_, (fact, _))), None) => fact.to_owned(),
        (None, _) => details.to_owned(),
    }
}

/// The row of the table, and its text in two: what has happened, and what to do.
fn row(details: &str) -> Option<(&'static Row, (&'static str, &'static str))> {
    let row = TABLE.iter().find(|row| details.contains(row.0))?;
    Some((row, row.2.split_once("; ").unwrap_or((row.2, ""))))
}

/// The names in a certificate that is for another name, from `presented: ["IpAddress(127.0.0.1)", "DnsName(\"a\")"]`.
fn names(details: &str) -> Option<String> {
    let (_, presented) = details.split_once("presented: [")?;
    let (presented, _) = presented.split_once(']')?;
    let name = |name: &str| Some(name.split_once('(')?.1.split_once(')')?.0.replace(['\\', '"'], ""));
    let names: Vec<_> = presented.split("\", \"").filter_map(name).collect();
    (!names.is_empty()).then(|| shown::shown(&names.join(", ")))
}

/// Returns a hint about the possible cause of a failure that proves nothing.
pub(crate) fn hint(details: &str, timed_out: bool, tls: bool) -> &'static str {
    match (tls, timed_out) {
        (true, true) => {
            ", and whether this is its port for TLS (`tls-port`): a plain one does not answer a handshake"
        }
        (false, false) if details.contains("ConnectionReset") || details.contains("UnexpectedEof") => {
            ", and whether this is a port for TLS: then write [redis.tls], or rediss://"
        }
        (_, false) if ["Connection closed", "BrokenPipe"].iter().any(|end| details.contains(end)) => {
            ", and whether this is a proxy that closes connections at commands it does not know: twemproxy cannot be \
             used, name the server behind it"
        }
        (true, false) | (false, true | false) => "",
    }
}

/// A part of the text, the kind, and what has happened; what to do.
type Row = (&'static str, ErrorKind, &'static str);

/// Keyed by a part of the text; the first match counts. `Misconfigured`: our side refuses the server. `Denied`: the
/// server refuses us.
const TABLE: &[Row] = &[
    (
        "InvalidCertificate(Expired",
        ErrorKind::Misconfigured,
        "the server's certificate has expired; renew it, or correct the clock of this machine",
    ),
    (
        "InvalidCertificate(NotValidYet",
        ErrorKind::Misconfigured,
        "the server's certificate is not valid yet; correct the clock of this machine",
    ),
    (
        "InvalidCertificate(NotValidForName",
        ErrorKind::Misconfigured,
        "the server's certificate is for another name; name it in `addresses` as its certificate does, or set `tls.server_name`",
    ),
    ("InvalidCertificate(UnknownIssuer", ErrorKind::Misconfigured, UNKNOWN_CA),
    // The authority has the name of a trusted one, but another key.
    ("InvalidCertificate(BadSignature", ErrorKind::Misconfigured, UNKNOWN_CA),
    (
        "CaUsedAsEndEntity",
        ErrorKind::Misconfigured,
        "the server shows an authority's certificate as its own; give it one that the authority has signed",
    ),
    (
        "InvalidCertificate(Revoked",
        ErrorKind::Misconfigured,
        "the server's certificate was revoked; give it another",
    ),
    (
        "InvalidCertificate(",
        ErrorKind::Misconfigured,
        "the server's certificate cannot be verified; give it one that rustls can",
    ),
    (
        "InvalidMessage(InvalidContentType",
        ErrorKind::Misconfigured,
        "the server does not speak TLS on this port; name its port for TLS (`tls-port`) in `addresses`",
    ),
    ("AlertReceived(CertificateRequired", ErrorKind::Denied, CERTIFICATE_WANTED),
    // TLS 1.2 has no separate alert for a missing certificate.
    ("AlertReceived(HandshakeFailure", ErrorKind::Denied, CERTIFICATE_WANTED),
    (
        "AlertReceived(UnknownCA",
        ErrorKind::Denied,
        "the server does not know the authority of our certificate; give one to `tls.cert` that its authority has signed",
    ),
    (
        "AlertReceived(CertificateExpired",
        ErrorKind::Denied,
        "our certificate has expired, says the server; renew the file of `tls.cert`",
    ),
    ("AlertReceived(BadCertificate", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(UnsupportedCertificate", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(CertificateRevoked", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(CertificateUnknown", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(AccessDenied", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(ProtocolVersion", ErrorKind::Misconfigured, VERSIONS),
    ("PeerIncompatible(", ErrorKind::Misconfigured, VERSIONS),
];

const UNKNOWN_CA: &str = "no trusted authority has signed the server's certificate; set `tls.ca` to the certificate of the one that has";
const CERTIFICATE_WANTED: &str =
    "the server wants a certificate of ours (tls-auth-clients); set `tls.cert` and `tls.key`";
const CERTIFICATE_REFUSED: &str = "the server refuses our certificate; give another to `tls.cert`";
const VERSIONS: &str =
    "no version or cipher in common; let the server offer TLS 1.2 or 1.3 (`tls-protocols`)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_that_stays_wrong_is_final_and_others_are_not() {
        let details = "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }";
        let refused = refusal(details).expect("in the table");
        assert!(refused.kind.is_final() && refused.remedy.contains("tls.ca"));
        assert_eq!(shown(details), "no trusted authority has signed the server's certificate");
        for (code, kind, text) in TABLE {
            assert!(kind.is_final() && text.contains("; "), "{code}");
        }
        for passing in [
            "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
            "Request timed out.",
            "closed",
        ] {
            assert_eq!(refusal(passing), None, "{passing}");
        }
        assert_eq!(shown("closed"), "closed");
    }

    #[test]
    fn a_certificate_for_another_name_is_shown_with_its_names() {
        let details = "Custom { kind: InvalidData, error: InvalidCertificate(NotValidForNameContext { expected: \
                       DnsName(\"other.example\"), presented: [\"IpAddress(127.0.0.1)\", \"IpAddress(0::1)\", \
                       \"DnsName(\\\"localhost\\\")\"] }) }";
        let expected = "the server's certificate is for another name: it names 127.0.0.1, 0::1, localhost";
        assert_eq!(shown(details), expected);
        let without = "InvalidCertificate(NotValidForName)";
        assert_eq!(shown(without), "the server's certificate is for another name");
    }

    #[test]
    fn a_port_of_the_other_kind_is_hinted_at() {
        assert!(hint("Request timed out.", true, true).contains("tls-port"));
        assert!(hint("Os { code: 104, kind: ConnectionReset }", false, false).contains("[redis.tls]"));
        assert_eq!(hint("Os { code: 111, kind: ConnectionRefused }", false, false), "");
        assert_eq!(hint("Request timed out.", true, false), "");
        assert!(hint("Connection closed.", false, false).contains("twemproxy"));
    }
}
