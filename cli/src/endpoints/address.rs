//! Where a process exports its metrics. Pure.

use std::{fmt, str::FromStr};

/// `http://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
    path: String,
}

impl Address {
    /// What a socket is connected to: a name or an address without brackets, and the port.
    pub(super) fn socket(&self) -> (&str, u16) {
        (self.host.trim_matches(['[', ']']), self.port)
    }

    /// The host and the port as a request names them.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The path, `/metrics` if none was given.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("https://") {
            return Err(format!("https is not supported; {FORM}"));
        }
        let rest = text.strip_prefix("http://").ok_or_else(|| format!("is no http address; {FORM}"))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(format!("a user and a password are not supported; {FORM}"));
        }
        let (host, port) = split(authority).ok_or_else(|| format!("the port is no number; {FORM}"))?;
        let is_strange = |text: &str| text.chars().any(|c| c.is_whitespace() || c.is_control());
        let is_of_host = |c: char| c.is_alphanumeric() || "-_.[]:".contains(c);
        if host.is_empty() || !host.chars().all(is_of_host) || is_strange(path) {
            return Err(format!("is no http address; {FORM}"));
        }
        let path = if path.len() > 1 { path } else { METRICS };
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }
}

/// The host and the port. The host of IP version 6 has brackets, and colons in them.
fn split(authority: &str) -> Option<(&str, u16)> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => Some((host, port.parse().ok()?)),
        _ => Some((authority, HTTP)),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

const FORM: &str = "write http://HOST:PORT/metrics, the address that Prometheus scrapes";
const METRICS: &str = "/metrics";
const HTTP: u16 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Address>().unwrap_err()
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        for (text, shown) in [
            ("http://127.0.0.1:9464/metrics", "http://127.0.0.1:9464/metrics"),
            ("http://web-7:9464", "http://web-7:9464/metrics"),
            ("http://web-7/", "http://web-7:80/metrics"),
            ("http://[::1]:9464/a?b=c", "http://[::1]:9464/a?b=c"),
            ("http://[::1]", "http://[::1]:80/metrics"),
        ] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()).as_deref(), Ok(shown));
        }
        let address: Address = "http://[::1]:9464".parse().unwrap();
        assert_eq!(address.socket(), ("::1", 9464));
    }

    #[test]
    fn other_addresses_are_refused_with_the_remedy() {
        assert!(refused("https://a:1/metrics").starts_with("https is not supported; write http://"));
        assert!(refused("http://u:hunter2@a:1").starts_with("a user and a password are not supported"));
        assert!(refused("http://a:port").starts_with("the port is no number"));
        for text in [
            "a:9464",
            "http://",
            "http://:1",
            "http://a b:1",
            "http://a:1/x y",
            "redis://a:1",
            "http://a,b=c/",
            "http://a&b",
        ] {
            assert!(refused(text).starts_with("is no http address; write"), "{text}");
        }
    }
}
