//! The texts of hosts and ports. Pure.

use std::net::Ipv6Addr;

/// Splits an address into its host, which may have brackets, and the text of its port.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        // More than one colon and no brackets: an IPv6 address without a port.
        Some((host, _)) if host.contains(':') && !host.starts_with('[') => (text, None),
        Some((_, port)) if port.ends_with(']') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

/// A port: digits and nothing else, and not 0.
pub(super) fn port_of(text: &str) -> Option<u16> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| is_digits && *port != 0)
}

/// Whether a text can be a host: a name of letters, digits, `-`, `_` and `.`, or an IP address. Other characters are those of
/// URLs and connection strings, which have passwords in them.
pub(super) fn is_host(text: &str) -> bool {
    let is_name = |text: &str| text.chars().all(|c| c.is_alphanumeric() || ['-', '_', '.'].contains(&c));
    let (ip, zone) = text.split_once('%').unwrap_or((text, ""));
    !text.is_empty() && (is_name(text) || (ip.parse::<Ipv6Addr>().is_ok() && is_name(zone)))
}
