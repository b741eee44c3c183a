//! Servers that announce addresses that clients cannot reach. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::address::{Address, PORT_NOT_WRITTEN, Written};

/// Returns the address at which clients reach the server that is announced as `announced`.
pub(super) fn reachable(map: &BTreeMap<Address, Address>, announced: &Address) -> Address {
    let of_any_port = || map.get(&Address::new(&announced.host, PORT_NOT_WRITTEN));
    match map.get(announced).or_else(of_any_port) {
        Some(Address { host, port: PORT_NOT_WRITTEN }) => Address::new(host, announced.port),
        Some(reachable) => reachable.clone(),
        None => announced.clone(),
    }
}

/// Parses pairs of addresses, each with or without a port.
pub(super) fn read<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<Address, Address>, D::Error> {
    let written = BTreeMap::<Written, Written>::deserialize(input)?;
    Ok(written.into_iter().map(|(announced, reachable)| (announced.0, reachable.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::{super::RedisConfig, *};

    fn config(text: &str) -> RedisConfig {
        let text = format!(r#"{{ "topology": "cluster", "addresses": ["a"], "address_map": {text} }}"#);
        serde_json::from_str(&text).expect("a configuration")
    }

    #[test]
    fn an_announced_address_is_reached_where_the_map_says() {
        let config = config(
            r#"{ "10.0.0.1:6379": "nat:7001", "10.0.0.2": "nat-2", "10.0.0.2:1": "nat-3", "[::1]:5": "[::2]:6" }"#,
        );
        for (announced, reached) in [
            (("10.0.0.1", 6379), ("nat", 7001)),
            (("10.0.0.1", 6380), ("10.0.0.1", 6380)),
            (("10.0.0.2", 6380), ("nat-2", 6380)),
            (("10.0.0.2", 1), ("nat-3", 1)),
            (("::1", 5), ("::2", 6)),
        ] {
            let announced = Address::new(announced.0, announced.1);
            assert_eq!(config.reachable(&announced), Address::new(reached.0, reached.1), "{announced}");
        }
        assert_eq!(config.check(), Ok(()));
    }
}
