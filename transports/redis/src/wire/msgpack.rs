//! Lists in MessagePack: one argument for a whole batch, and one reply. Every server packs and unpacks them in C,
//! without Lua code. Pure.

use rmp::{
    Marker,
    decode::{read_array_len, read_int, read_str_from_slice},
    encode::{write_array_len, write_str},
};

/// A list of texts, as an argument of a script.
#[derive(Debug)]
pub(crate) struct Pack(Vec<u8>);

impl Pack {
    /// Starts a list of exactly `len` texts, with about `text_bytes` bytes each.
    pub(crate) fn of(len: usize, text_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_MAX + len * (HEADER_MAX + text_bytes));
        write_array_len(&mut bytes, u32::try_from(len).expect("a batch is small")).expect(NEVER_FULL);
        Self(bytes)
    }

    pub(crate) fn push(&mut self, text: &str) {
        write_str(&mut self.0, text).expect(NEVER_FULL);
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// An item that a script has packed: a number, or a text for a refused member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Number(i64),
    Text(&'a str),
}

/// Parses a packed list of exactly `len` items, and passes each item to `take`. `None`: it is not such a list, or
/// `take` refuses an item.
pub(crate) fn unpack<T>(
    mut bytes: &[u8],
    len: usize,
    take: impl Fn(Item<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    if usize::try_from(read_array_len(&mut bytes).ok()?).ok()? != len {
        return None;
    }
    let mut items = Vec::with_capacity(len);
    for _ in 0..len {
        items.push(take(next(&mut bytes)?)?);
    }
    bytes.is_empty().then_some(items)
}

fn next<'a>(bytes: &mut &'a [u8]) -> Option<Item<'a>> {
    match Marker::from_u8(*bytes.first()?) {
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            let (text, rest) = read_str_from_slice(*bytes).ok()?;
            *bytes = rest;
            Some(Item::Text(text))
        }
        _ => read_int(bytes).ok().map(Item::Number),
    }
}

/// The longest header of a text or a list, in bytes.
const HEADER_MAX: usize = 5;
const NEVER_FULL: &str = "a vector takes what is written to it";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], len: usize) -> Option<Vec<String>> {
        unpack(bytes, len, |item| Some(format!("{item:?}")))
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let texts = ["", "a", &"b".repeat(31), &"c".repeat(32), &"d".repeat(300), &"e".repeat(70_000)];
        let mut pack = Pack::of(texts.len(), 1);
        texts.iter().for_each(|text| pack.push(text));
        let expected: Vec<_> = texts.iter().map(|text| format!("{:?}", Item::Text(text))).collect();
        assert_eq!(read(&pack.into_bytes(), texts.len()), Some(expected));
    }

    #[test]
    fn numbers_are_read_however_long_the_server_wrote_them() {
        let bytes = [0x94, 0x07, 0xfe, 0xcd, 0x75, 0x2f, 0xcf, 0, 0, 1, 0, 0, 0, 0, 0];
        let expected = ["Number(7)", "Number(-2)", "Number(29999)", "Number(1099511627776)"];
        assert_eq!(read(&bytes, 4), Some(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn another_shape_is_not_understood() {
        for wrong in [
            &[][..],             // nothing
            &[0x07],             // no list
            &[0x91],             // shorter than its length
            &[0x92, 7, 7],       // too many
            &[0x91, 7, 7],       // longer than its length
            &[0x91, 0xc0],       // nil
            &[0x91, 0x90],       // a list in it
            &[0x91, 0xa2, b'x'], // half a text
            &[0x91, 0xa1, 0xff], // no text
            &[0x91, 0xcd, 0x75], // half a number
        ] {
            assert_eq!(read(wrong, 1), None, "{wrong:?}");
        }
        assert_eq!(unpack(&[0x91, 7], 1, |_| None::<()>), None);
    }
}
