//! Server addresses. Pure.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, de};

use super::{
    credentials::shown,
    error::ConfigError,
    host::{is_host, port_of, split},
};

/// Host and port of a server. Written as `host:port`, `host` (port 6379) or `[::1]:port`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The host name or IP address. An IPv6 address has no brackets here.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Creates an address from its parts.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host: String = host.into();
        Self { host: host.trim_matches(['[', ']']).to_owned(), port }
    }

    /// Returns the host as it is written before a port: an IPv6 address needs brackets there.
    pub(crate) fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    /// Parses an address that may be written without a port.
    pub(super) fn read(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = split(text.trim());
        let port = match port {
            Some(port) => port_of(port)?,
            None => default_port,
        };
        Some(Address::new(host, port)).filter(Address::has_a_host)
    }

    /// Whether the host can be valid. A URL or credentials are not.
    pub(crate) fn has_a_host(&self) -> bool {
        is_host(&self.host)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_a_host() {
            write!(f, "{}:{}", self.bracketed_host(), self.port)
        } else {
            write!(f, "{}:{}", shown(&self.host), self.port)
        }
    }
}

/// Shows only the address: an invalid host may be a URL with a password in it.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({:?})", self.to_string())
    }
}

impl FromStr for Address {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::new("address", format!("{:?}", shown(text)), SPELLING);
        Address::read(text, 6379).ok_or_else(wrong)
    }
}

/// Parses the addresses of a configuration. If no port is written, the topology decides it.
pub(super) fn with_or_without_ports<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Address>, D::Error> {
    let written = Vec::<Written>::deserialize(input)?;
    Ok(written.into_iter().map(|written| written.0).collect())
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Written(pub(super) Address);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        // The error does not show the text, which may be a URL with a password in it.
        let text = String::deserialize(input)?;
        Address::read(&text, PORT_NOT_WRITTEN).map(Written).ok_or_else(|| de::Error::custom(SPELLING))
    }
}

/// The port of an [`Address`] that was written without one, until the topology is known. A user cannot write this
/// port.
pub(super) const PORT_NOT_WRITTEN: u16 = 0;
pub(super) const SPELLING: &str = "write host:port; Redis listens on 6379, sentinels on 26379";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_spelled_with_and_without_a_port() {
        for (text, host, port) in [
            ("cache:6380", "cache", 6380),
            (" cache ", "cache", 6379),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[::1]:6380", "::1", 6380),
            ("[::1]", "::1", 6379),
            ("::1", "::1", 6379),
            ("fe80::1%eth0", "fe80::1%eth0", 6379),
        ] {
            assert_eq!(text.parse::<Address>(), Ok(Address::new(host, port)), "{text}");
        }
        for wrong in [
            "",
            ":6379",
            "cache:0",
            "cache:port",
            "cache:70000",
            "a b:1",
            "a:b:c",
            "cache/0",
            "a,b",
            "a:1,b:1",
            "a=b",
            "a&b",
            "a|b",
            "a!",
            "a;b",
            "cache:+1",
            "::1%a=b",
            "a%2Cb",
        ] {
            assert!(wrong.parse::<Address>().unwrap_err().to_string().contains("host:port"), "{wrong}");
        }
        assert_eq!(Address::new("::1", 7).to_string(), "[::1]:7");
    }

    #[test]
    fn a_url_in_place_of_an_address_is_refused_without_its_password() {
        for wrong in ["redis://:hunter2@cache:6379", "app:hunter2@cache:6379", "redis://cache:6379"] {
            let shown = wrong.parse::<Address>().unwrap_err().to_string();
            assert!(shown.contains("host:port") && !shown.contains("hunter2"), "{shown}");
        }
        let address = Address::new("redis://:hunter2@cache", 6379);
        assert_eq!(
            format!("{address} {address:?}"),
            "redis://***@cache:6379 Address(\"redis://***@cache:6379\")"
        );
    }
}
