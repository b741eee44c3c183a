//! Where a server listens. Pure.

use std::{fmt, str::FromStr};

use serde::Deserialize;

/// Host and port of a server. Spelled `host:port`, `host` (port 6379) or `[::1]:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Address {
    /// Its name or address; an IPv6 address stands without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Address {
    /// An address of its parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host: String = host.into();
        Self { host: host.trim_matches(['[', ']']).to_owned(), port }
    }

    /// The host as it stands before a port: an IPv6 address needs its brackets there.
    pub(crate) fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bracketed_host(), self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address; write host:port");
        let (host, port) = match text.rsplit_once(':') {
            // More than one colon and no brackets: an IPv6 address without a port.
            Some((host, _)) if host.contains(':') && !host.starts_with('[') => (text, None),
            Some((_, port)) if port.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| wrong()))?;
        let address = Address::new(host.trim(), port);
        if address.host.is_empty() || address.port == 0 { Err(wrong()) } else { Ok(address) }
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

const DEFAULT_PORT: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_spelled_with_and_without_a_port() {
        for (text, host, port) in [
            ("cache:6380", "cache", 6380),
            ("cache", "cache", 6379),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[::1]:6380", "::1", 6380),
            ("[::1]", "::1", 6379),
            ("::1", "::1", 6379),
        ] {
            assert_eq!(text.parse::<Address>(), Ok(Address::new(host, port)), "{text}");
        }
        for wrong in ["", ":6379", "cache:0", "cache:port", "cache:70000"] {
            assert!(wrong.parse::<Address>().unwrap_err().contains("host:port"), "{wrong}");
        }
        assert_eq!(Address::new("::1", 7).to_string(), "[::1]:7");
    }
}
