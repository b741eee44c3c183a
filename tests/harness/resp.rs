//! RESP values as a test reads them, and requests as a client writes them.

use std::ops::Range;

/// One reply of a server.
///
/// RESP3 kinds are folded into these five, which is enough to look at an answer: a map is an array of its keys and
/// values, a boolean an integer, a double or big number a simple string. [`crate::harness::frames`] keeps the exact bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `+OK`
    Simple(String),
    /// `-ERR why`, without the dash.
    Error(String),
    /// `:42`
    Integer(i64),
    /// A string of bytes, or nil. A nil array is nil too.
    Bulk(Option<Vec<u8>>),
    /// Several values.
    Array(Vec<Value>),
}

impl Value {
    /// The value that one complete frame spells; `None` if the bytes are no complete, well-formed frame.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let mut cursor = Cursor { bytes: frame, at: 0 };
        let value = cursor.value()?;
        (cursor.at == frame.len()).then_some(value)
    }

    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes of a string, simple or bulk.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(text) => Some(text.as_bytes()),
            Self::Bulk(bytes) => bytes.as_deref(),
            _ => None,
        }
    }

    /// The text of a string, simple or bulk; what is no UTF-8 is shown with replacement signs.
    pub fn text(&self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The message of an error.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(message) => Some(message),
            _ => None,
        }
    }

    /// The members of an array; none for anything else.
    pub fn items(&self) -> &[Value] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an array as texts; what is no string is left out.
    pub fn texts(&self) -> Vec<String> {
        self.items().iter().filter_map(Value::text).collect()
    }

    /// Whether it is nil.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Bulk(None))
    }

    /// Whether it is the simple string `OK`.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Simple(text) if text == "OK")
    }
}

/// The bytes of a request with these arguments.
pub fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The arguments of a request frame; an inline request is split at its blanks.
pub(crate) fn arguments(frame: &[u8]) -> Vec<Vec<u8>> {
    match Value::parse(frame) {
        Some(Value::Array(items)) => {
            items.iter().filter_map(|item| item.bytes().map(<[u8]>::to_vec)).collect()
        }
        _ => {
            frame.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn value(&mut self) -> Option<Value> {
        let (&kind, rest) = self.line()?.split_first()?;
        match kind {
            b'+' | b',' | b'(' => Some(Value::Simple(text(rest))),
            b'-' => Some(Value::Error(text(rest))),
            b':' => Some(Value::Integer(number(rest)?)),
            b'#' => Some(Value::Integer((rest == b"t").into())),
            b'_' => Some(Value::Bulk(None)),
            b'$' => self.bulk(rest),
            b'=' => self.verbatim(rest),
            b'!' => Some(Value::Error(self.bulk(rest)?.text()?)),
            b'*' | b'~' | b'>' => self.array(number(rest)?),
            b'%' => self.array(number(rest)?.checked_mul(2)?),
            b'|' => self.attributed(rest),
            _ => None,
        }
    }

    fn bulk(&mut self, length: &[u8]) -> Option<Value> {
        let length = number(length)?;
        if length < 0 {
            return Some(Value::Bulk(None));
        }
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        let bytes = self.take(self.at..end)?.to_vec();
        (self.take(end..end + 2)? == b"\r\n").then_some(Value::Bulk(Some(bytes)))
    }

    /// `txt:` stands before the string itself.
    fn verbatim(&mut self, length: &[u8]) -> Option<Value> {
        let value = self.bulk(length)?;
        Some(Value::Bulk(Some(value.bytes()?.get(4..)?.to_vec())))
    }

    fn array(&mut self, length: i64) -> Option<Value> {
        if length < 0 {
            return Some(Value::Bulk(None));
        }
        (0..length).map(|_| self.value()).collect::<Option<_>>().map(Value::Array)
    }

    /// An attribute is a note ahead of the value it belongs to; only the value is kept.
    fn attributed(&mut self, length: &[u8]) -> Option<Value> {
        self.array(number(length)?.checked_mul(2)?)?;
        self.value()
    }

    fn line(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes.get(self.at..)?.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &self.bytes[self.at..self.at + length];
        self.at += length + 2;
        Some(line)
    }

    fn take(&mut self, range: Range<usize>) -> Option<&'a [u8]> {
        let taken = self.bytes.get(range.clone())?;
        self.at = range.end;
        Some(taken)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The decimal number that these bytes spell.
pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(Some(text.into()))
    }

    #[test]
    fn resp2_values() {
        assert_eq!(Value::parse(b"+OK\r\n"), Some(Value::Simple("OK".into())));
        assert_eq!(Value::parse(b"-ERR no\r\n"), Some(Value::Error("ERR no".into())));
        assert_eq!(Value::parse(b":-7\r\n"), Some(Value::Integer(-7)));
        assert_eq!(Value::parse(b"$4\r\na\r\nb\r\n"), Some(bulk("a\r\nb")));
        assert_eq!(Value::parse(b"$-1\r\n"), Some(Value::Bulk(None)));
        assert_eq!(Value::parse(b"*-1\r\n"), Some(Value::Bulk(None)));
        let nested = Value::Array(vec![Value::Integer(1), Value::Array(vec![bulk("x")])]);
        assert_eq!(Value::parse(b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n"), Some(nested));
    }

    #[test]
    fn resp3_values_are_folded() {
        assert_eq!(Value::parse(b"_\r\n"), Some(Value::Bulk(None)));
        assert_eq!(Value::parse(b"#t\r\n"), Some(Value::Integer(1)));
        assert_eq!(Value::parse(b",1.5\r\n"), Some(Value::Simple("1.5".into())));
        assert_eq!(Value::parse(b"=5\r\ntxt:a\r\n"), Some(bulk("a")));
        assert_eq!(Value::parse(b"!5\r\nERR x\r\n"), Some(Value::Error("ERR x".into())));
        assert_eq!(Value::parse(b"%1\r\n+a\r\n:1\r\n").map(|map| map.items().len()), Some(2));
        assert_eq!(Value::parse(b"|1\r\n+a\r\n:1\r\n:9\r\n"), Some(Value::Integer(9)));
    }

    #[test]
    fn half_a_frame_and_a_frame_and_a_half_are_no_value() {
        assert_eq!(Value::parse(b"$4\r\nab"), None);
        assert_eq!(Value::parse(b"+OK\r\n+"), None);
        assert_eq!(Value::parse(b"$1\r\nabc"), None);
    }

    #[test]
    fn a_request_reads_back_as_its_arguments() {
        let bytes = request(&[b"SET".as_slice(), b"k\r\n", b""]);
        assert_eq!(arguments(&bytes), [b"SET".to_vec(), b"k\r\n".to_vec(), b"".to_vec()]);
        assert_eq!(arguments(b"PING  now\r\n"), [b"PING".to_vec(), b"now".to_vec()]);
    }
}
