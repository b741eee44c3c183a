//! Why a TLS handshake failed, and what to do. Pure.
//!
//! fred passes on rustls errors only as text, so they are looked up in that text. Tests against real servers keep
//! the table in step with it. A failure of a final kind stays until an operator changes something. After another one the
//! connection is tried again. A failed handshake is never followed by a plain connection.

use leasehold::transport::ErrorKind;

use crate::wire::{error_reply::ErrorReply, shown};

/// Looks up fred's error text. `None`: it is no error of TLS.
pub(crate) fn refusal(details: &str) -> Option<ErrorReply> {
    let (&(code, kind, _), (_, remedy)) = row(details)?;
    Some(ErrorReply { code, kind, remedy })
}

/// Returns what has happened, in plain words, and not in those of rustls. `None`: it is no error of TLS.
pub(crate) fn fact(details: &str) -> Option<String> {
    let (_, (fact, _)) = row(details)?;
    Some(names(details).map_or_else(|| fact.to_owned(), |names| format!("{fact}: it names {names}")))
}

/// The row of the table, and its text in two: what has happened, and what to do.
fn row(details: &str) -> Option<(&'static Row, (&'static str, &'static str))> {
    let known = TABLE.iter().find(|row| details.contains(row.0));
    let row = known.or_else(|| is_of_rustls(details).then_some(&OTHER))?;
    Some((row, row.2.split_once("; ").unwrap_or((row.2, ""))))
}

/// An error of rustls is inside one of the system, by the name of its variant. Other errors are there as a text in quotes.
fn is_of_rustls(details: &str) -> bool {
    let inner = details.strip_prefix("Custom { kind: InvalidData, error: ");
    inner.is_some_and(|inner| inner.starts_with(|letter: char| letter.is_ascii_uppercase()))
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
        (true, false) if details.contains("tls handshake eof") => {
            ", and whether this is its port for TLS (`tls-port`): the connection was closed in the handshake"
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
/// server refuses us. `Unreachable`: it may pass.
const TABLE: &[Row] = &[
    (
        "InvalidCertificate(ExpiredRevocationList",
        ErrorKind::Misconfigured,
        "the server's certificate cannot be verified; give it one that rustls can",
    ),
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
        "UnsupportedCertVersion",
        ErrorKind::Misconfigured,
        "the server's certificate has version 1; sign it with extensions (openssl x509 -extfile), which makes version 3",
    ),
    (
        "InvalidCertificate(InvalidPurpose",
        ErrorKind::Misconfigured,
        "the server's certificate is not made for servers; sign it with extendedKeyUsage=serverAuth",
    ),
    (
        "InvalidCertificate(UnhandledCriticalExtension",
        ErrorKind::Misconfigured,
        "the server's certificate has a critical extension that is not known here; sign it without that extension",
    ),
    (
        "InvalidCertificate(UnsupportedSignatureAlgorithm",
        ErrorKind::Misconfigured,
        "the server's certificate is signed in a way that is not supported; sign it with SHA-256 and a key of RSA (2048 bits \
         or more), P-256, P-384 or Ed25519",
    ),
    (
        "InvalidCertificate(BadEncoding",
        ErrorKind::Misconfigured,
        "the server's certificate cannot be read; make it anew",
    ),
    (
        "InvalidCertificate(",
        ErrorKind::Misconfigured,
        "the server's certificate cannot be verified; give it one that rustls can",
    ),
    (
        "NoCertificatesPresented",
        ErrorKind::Misconfigured,
        "the server shows no certificate; give it one (`tls-cert-file`)",
    ),
    ("UnsupportedNameType", ErrorKind::Misconfigured, NO_NAME),
    ("InvalidDnsName", ErrorKind::Misconfigured, NO_NAME),
    (
        "InvalidMessage(InvalidContentType",
        ErrorKind::Misconfigured,
        "the server does not speak TLS on this port; name its port for TLS (`tls-port`) in `addresses`",
    ),
    ("InvalidMessage(", ErrorKind::Unreachable, NO_TLS),
    ("InappropriateMessage", ErrorKind::Unreachable, NO_TLS),
    ("InappropriateHandshakeMessage", ErrorKind::Unreachable, NO_TLS),
    ("PeerMisbehaved(", ErrorKind::Unreachable, NO_TLS),
    ("PeerSentOversizedRecord", ErrorKind::Unreachable, NO_TLS),
    ("error: DecryptError", ErrorKind::Unreachable, CHANGED),
    ("error: NoApplicationProtocol", ErrorKind::Misconfigured, PROXY),
    (
        "FailedToGetCurrentTime",
        ErrorKind::Unreachable,
        "this machine gives no time, without which no certificate is verified; correct its clock",
    ),
    (
        "FailedToGetRandomBytes",
        ErrorKind::Unreachable,
        "this machine gives no random bytes; see that /dev/urandom or getrandom can be used",
    ),
    ("AlertReceived(CertificateRequired", ErrorKind::Denied, CERTIFICATE_WANTED),
    // TLS 1.2 has no separate alert for a missing certificate.
    (
        "AlertReceived(HandshakeFailure",
        ErrorKind::Denied,
        "the server takes none of our ciphers and key exchanges, or wants a certificate of ours; let it offer an ECDHE cipher \
         with AES-GCM or ChaCha20 (`tls-ciphers`, `tls-protocols`), or set `tls.cert` and `tls.key` (tls-auth-clients)",
    ),
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
    ("AlertReceived(BadCertificate)", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(UnsupportedCertificate", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(CertificateRevoked", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(CertificateUnknown", ErrorKind::Denied, CERTIFICATE_REFUSED),
    ("AlertReceived(NoCertificate", ErrorKind::Denied, CERTIFICATE_WANTED),
    ("AlertReceived(AccessDenied", ErrorKind::Denied, CERTIFICATE_REFUSED),
    (
        "AlertReceived(DecryptError",
        ErrorKind::Unreachable,
        "the server cannot verify our part of the handshake; see its log, and whether `tls.key` belongs to `tls.cert`",
    ),
    (
        "AlertReceived(UnrecognisedName",
        ErrorKind::Misconfigured,
        "the server knows no host of the name that we ask for; set `tls.server_name` to the name in its certificate",
    ),
    ("AlertReceived(NoApplicationProtocol", ErrorKind::Misconfigured, PROXY),
    ("AlertReceived(ProtocolVersion", ErrorKind::Misconfigured, VERSIONS),
    ("AlertReceived(InsufficientSecurity", ErrorKind::Misconfigured, VERSIONS),
    ("AlertReceived(InappropriateFallback", ErrorKind::Misconfigured, VERSIONS),
    ("PeerIncompatible(", ErrorKind::Misconfigured, VERSIONS),
    ("AlertReceived(BadRecordMac", ErrorKind::Unreachable, CHANGED),
    ("AlertReceived(RecordOverflow", ErrorKind::Unreachable, CHANGED),
    (
        "AlertReceived(InternalError",
        ErrorKind::Unreachable,
        "the server met an error of its own in the handshake; see its log",
    ),
    (
        "AlertReceived(CloseNotify",
        ErrorKind::Unreachable,
        "the server has closed the connection; see its log",
    ),
    (
        "AlertReceived(UserCanceled",
        ErrorKind::Unreachable,
        "the server has closed the connection; see its log",
    ),
    (
        "AlertReceived(",
        ErrorKind::Unreachable,
        "the server does not accept our part of the handshake; see its log, and update it",
    ),
];

/// An error of rustls that is not in the table.
const OTHER: Row = (
    "",
    ErrorKind::Unreachable,
    "the TLS library has ended the handshake; see the server's log, and try `openssl s_client` with its address",
);

const UNKNOWN_CA: &str = "no trusted authority has signed the server's certificate; set `tls.ca` to the certificate of the one that has";
const CERTIFICATE_WANTED: &str =
    "the server wants a certificate of ours (tls-auth-clients); set `tls.cert` and `tls.key`";
const CERTIFICATE_REFUSED: &str = "the server refuses our certificate; give another to `tls.cert`";
const VERSIONS: &str =
    "no version or cipher in common; let the server offer TLS 1.2 or 1.3 (`tls-protocols`, `tls-ciphers`)";
const NO_NAME: &str =
    "the host is no name that a certificate can have; set `tls.server_name` to the name in the certificate";
const NO_TLS: &str = "the server's bytes are not as TLS wants them; name its port for TLS (`tls-port`) in `addresses`, or update the server";
const CHANGED: &str =
    "bytes were changed on their way; look at what stands between this machine and the server";
const PROXY: &str =
    "the server wants another protocol than that of Redis; name a server of Redis in `addresses`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_that_stays_wrong_is_final_and_others_are_not() {
        let details = "Custom { kind: InvalidData, error: InvalidCertificate(UnknownIssuer) }";
        let refused = refusal(details).expect("in the table");
        assert!(refused.kind.is_final() && refused.remedy.contains("tls.ca"));
        assert_eq!(
            fact(details).as_deref(),
            Some("no trusted authority has signed the server's certificate")
        );
        for passing in [
            "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }",
            "Request timed out.",
            "closed",
        ] {
            assert_eq!(refusal(passing), None, "{passing}");
        }
        assert_eq!(fact("closed"), None);
    }

    #[test]
    fn every_row_is_reached_and_says_a_cause_and_a_remedy() {
        for row in TABLE.iter().chain([&OTHER]) {
            let variant = row.0.strip_prefix("error: ").unwrap_or(row.0);
            let details = format!(
                "Custom {{ kind: InvalidData, error: {}",
                if variant.is_empty() { "New" } else { variant }
            );
            let found = refusal(&details).expect("an error of TLS");
            assert_eq!((found.code, found.kind), (row.0, row.1));
            assert!(!found.remedy.is_empty() && !found.remedy.contains("::"), "{}", row.0);
            assert_eq!(fact(&details).expect("a cause"), row.2.split_once("; ").expect("a remedy").0);
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn every_alert_and_every_error_of_rustls_is_told_in_words() {
        use rustls::{AlertDescription, CertificateError, Error, OtherError};
        let alerts = (0..=255).map(|code| Error::AlertReceived(AlertDescription::from(code)));
        let others = [
            Error::NoCertificatesPresented,
            Error::UnsupportedNameType,
            Error::DecryptError,
            Error::EncryptError,
            Error::General("an inner text".to_owned()),
            Error::FailedToGetCurrentTime,
            Error::FailedToGetRandomBytes,
            Error::HandshakeNotComplete,
            Error::PeerSentOversizedRecord,
            Error::NoApplicationProtocol,
            Error::BadMaxFragmentSize,
            Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch),
            Error::InvalidMessage(rustls::InvalidMessage::MissingKeyExchange),
            Error::PeerIncompatible(rustls::PeerIncompatible::NoCipherSuitesInCommon),
            Error::PeerMisbehaved(rustls::PeerMisbehaved::TooMuchEarlyDataReceived),
            Error::InvalidCertRevocationList(rustls::CertRevocationListError::ParseError),
            Error::InvalidCertificate(CertificateError::InvalidPurpose),
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure),
            Error::InvalidEncryptedClientHello(rustls::EncryptedClientHelloError::NoCompatibleConfig),
            Error::InappropriateMessage { expect_types: vec![], got_type: rustls::ContentType::Alert },
            Error::InappropriateHandshakeMessage {
                expect_types: vec![],
                got_type: rustls::HandshakeType::Finished,
            },
            Error::Other(OtherError(std::sync::Arc::new(std::fmt::Error))),
        ];
        for error in alerts.chain(others) {
            let variant = format!("{error:?}");
            let details = format!("{:?}", std::io::Error::new(std::io::ErrorKind::InvalidData, error));
            let (fact, found) = (fact(&details).expect("a cause"), refusal(&details).expect("a remedy"));
            let text = format!("{fact}; {}", found.remedy);
            assert!(!text.contains(&variant), "{text}");
            assert!(
                !["Received", "Error", "Custom", "an inner text"].iter().any(|part| text.contains(part)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_handshake_that_fails_names_both_causes() {
        let text = refusal("AlertReceived(HandshakeFailure)").expect("in the table").remedy;
        assert!(text.contains("tls-ciphers") && text.contains("`tls.cert`"), "{text}");
        let text = refusal("AlertReceived(UnrecognisedName)").expect("in the table").remedy;
        assert!(text.contains("`tls.server_name`"), "{text}");
    }

    #[test]
    fn a_certificate_for_another_name_is_shown_with_its_names() {
        let details = "Custom { kind: InvalidData, error: InvalidCertificate(NotValidForNameContext { expected: \
                       DnsName(\"other.example\"), presented: [\"IpAddress(127.0.0.1)\", \"IpAddress(0::1)\", \
                       \"DnsName(\\\"localhost\\\")\"] }) }";
        let expected = "the server's certificate is for another name: it names 127.0.0.1, 0::1, localhost";
        assert_eq!(fact(details).as_deref(), Some(expected));
        let without = "InvalidCertificate(NotValidForName)";
        assert_eq!(fact(without).as_deref(), Some("the server's certificate is for another name"));
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
