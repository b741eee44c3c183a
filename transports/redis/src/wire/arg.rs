//! One argument of a command. Pure.

use fred::{bytes::Bytes, bytes_utils::Str, types::Value};

/// An argument. Cloning it copies no text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arg {
    Text(Str),
    Bytes(Bytes),
    Number(i64),
}

impl Arg {
    pub(crate) const fn word(word: &'static str) -> Self {
        Self::Text(Str::from_static(word))
    }
}

impl From<Arg> for Value {
    fn from(arg: Arg) -> Self {
        match arg {
            Arg::Text(text) => Value::String(text),
            Arg::Bytes(bytes) => Value::Bytes(bytes),
            Arg::Number(number) => Value::Integer(number),
        }
    }
}
