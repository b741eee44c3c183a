//! The known keys. They are taken from the settings types, so no second list has to be kept equal. Pure.

use std::fmt;

use leasehold::EngineConfig;
use serde::{
    Deserialize,
    de::{self, Deserializer, Visitor},
};

use super::super::{RedisConfig, SentinelTlsConfig, TlsConfig};

/// Returns the keys of each section.
pub(super) fn sections() -> [(&'static str, &'static [&'static str]); 4] {
    [
        ("engine", fields_of::<EngineConfig>()),
        ("redis", fields_of::<RedisConfig>()),
        ("redis.tls", fields_of::<TlsConfig>()),
        ("redis.sentinel_tls", fields_of::<SentinelTlsConfig>()),
    ]
}

/// Whether this is a key of any section.
pub(super) fn is_known(key: &str) -> bool {
    sections().iter().any(|(section, keys)| *section == key || keys.contains(&key))
}

fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    match T::deserialize(AsksForFields) {
        Err(FieldNames(fields)) => fields,
        Ok(_) => &[],
    }
}

/// Provides no value; it only receives the field names of a struct.
struct AsksForFields;

#[derive(Debug)]
struct FieldNames(&'static [&'static str]);

impl<'de> Deserializer<'de> for AsksForFields {
    type Error = FieldNames;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, FieldNames> {
        Err(FieldNames(fields))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldNames> {
        Err(FieldNames(&[]))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl de::Error for FieldNames {
    fn custom<T: fmt::Display>(_: T) -> Self {
        FieldNames(&[])
    }
}

impl fmt::Display for FieldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields are {:?}", self.0)
    }
}

impl std::error::Error for FieldNames {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_tell_their_keys() {
        let [(_, engine), (_, redis), (_, tls), (_, sentinel_tls)] = sections();
        assert!(engine.contains(&"ttl_ms") && redis.contains(&"addresses"));
        assert_eq!(tls, ["ca", "cert", "key", "server_name"]);
        assert_eq!(sentinel_tls, ["plain", "ca", "cert", "key", "server_name"]);
        assert!(is_known("tls") && is_known("redis.tls") && !is_known("ttl"));
    }
}
