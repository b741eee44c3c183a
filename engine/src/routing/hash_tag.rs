//! The hash tag of a key: the part between the first `{` and the first `}` after it, if that part is not empty;
//! otherwise the whole key. Source: Redis Cluster specification, "Hash tags".

/// The bytes of `key` that decide its slot.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    braced(key).unwrap_or(key)
}

fn braced(key: &[u8]) -> Option<&[u8]> {
    let behind_open = &key[position(key, b'{')? + 1..];
    let length = position(behind_open, b'}')?;
    (length > 0).then(|| &behind_open[..length])
}

fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

#[cfg(test)]
mod tests {
    use super::hash_tag;

    #[test]
    fn the_specifications_examples() {
        for (key, tag) in [
            ("{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("plain", "plain"),
            ("a{b", "a{b"),
            ("a}b{c}", "c"),
            ("{}x", "{}x"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }
}
