//! Hosts, ports and numbers as servers write them. Pure.

use std::str::FromStr;

use crate::config::Address;

/// An address in two words. `None`: nothing can be there.
pub(super) fn place(host: &str, port: &str) -> Option<Address> {
    let port = plain(port).filter(|port| *port > 0)?;
    Some(Address::new(host, port)).filter(Address::has_a_host)
}

/// A number as servers write it: `+7` and `007` are damage.
pub(super) fn plain<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}
