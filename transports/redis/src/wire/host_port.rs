//! Hosts, ports and numbers, as servers write them. Pure.

use std::str::FromStr;

use crate::config::Address;

/// Parses an address. `None`: no server can have it.
pub(super) fn parse_address(host: &str, port: &str) -> Option<Address> {
    let port = parse_number(port).filter(|port| *port > 0)?;
    Some(Address::new(host, port)).filter(Address::has_a_host)
}

/// Parses a number as servers write it. `+7` and `007` are not valid.
pub(super) fn parse_number<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}
