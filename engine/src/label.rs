//! The label of an engine: what an operator reads beside the client id of its owners. Pure.

use std::{error::Error, fmt};

use arrayvec::ArrayString;
use serde::{Serialize, Serializer};

/// The label of an engine, for logs, connection names and reports: `service@host` by default, the names of program and
/// host. It has 1 to [`LABEL_BYTES_MAX`] printable ASCII characters without spaces, because the name of a connection on a
/// Redis server allows no others. [`EngineConfig::label`](crate::EngineConfig::label) sets it.
///
/// # Examples
/// ```
/// use leasehold::EngineLabel;
///
/// let label = EngineLabel::new("orders@web-7").unwrap();
/// assert_eq!(label.as_str(), "orders@web-7");
/// assert!(EngineLabel::new("two words").is_err());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EngineLabel(ArrayString<LABEL_BYTES_MAX>);

/// How many bytes an [`EngineLabel`] has at most.
pub const LABEL_BYTES_MAX: usize = 128;

/// Why a text is no [`EngineLabel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelFault {
    /// The text is empty.
    Empty,
    /// The text has this number of bytes, more than [`LABEL_BYTES_MAX`].
    TooLong(usize),
    /// The text has this character, which is a space or no printable ASCII.
    Character(char),
}

impl EngineLabel {
    /// Checks a text.
    ///
    /// # Errors
    /// The text is empty, has more than [`LABEL_BYTES_MAX`] bytes, or a character that is not printable ASCII, or a space.
    pub fn new(text: &str) -> Result<Self, LabelFault> {
        if text.is_empty() {
            return Err(LabelFault::Empty);
        }
        if let Some(wrong) = text.chars().find(|letter| !letter.is_ascii_graphic()) {
            return Err(LabelFault::Character(wrong));
        }
        ArrayString::from(text).map(Self).map_err(|_| LabelFault::TooLong(text.len()))
    }

    /// The names of program and host with an `@` between, cut to what fits. Characters that a label cannot have become
    /// `-`.
    pub(crate) fn of(program: &str, host: &str) -> Self {
        let mut label = ArrayString::new();
        for letter in [program, "@", host].into_iter().flat_map(str::chars) {
            let letter = if letter.is_ascii_graphic() { letter } else { '-' };
            let _is_full = label.try_push(letter).is_err();
        }
        Self(label)
    }

    /// The text of the label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EngineLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for EngineLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineLabel({self})")
    }
}

impl fmt::Display for LabelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelFault::Empty => f.write_str("is empty; leave it out for the names of program and host"),
            LabelFault::TooLong(bytes) => write!(f, "has {bytes} bytes; write at most {LABEL_BYTES_MAX}"),
            LabelFault::Character(wrong) => {
                write!(f, "has {wrong:?}; write printable ASCII without spaces, for example orders@web-7")
            }
        }
    }
}

impl Error for LabelFault {}

impl Serialize for EngineLabel {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_name_of_a_connection_is_refused() {
        let long = "x".repeat(LABEL_BYTES_MAX + 1);
        for (text, remedy) in [
            ("", "is empty; leave it out"),
            ("two words", "has ' '; write printable ASCII without spaces"),
            ("line\n", "has '\\n'"),
            ("größe", "has 'ö'"),
            ("a\u{7f}", "printable ASCII"),
            (&long, "has 129 bytes; write at most 128"),
        ] {
            let said = EngineLabel::new(text).unwrap_err().to_string();
            assert!(said.contains(remedy), "{said}");
        }
        assert_eq!(EngineLabel::new("orders@web-7:eu/1").unwrap().to_string(), "orders@web-7:eu/1");
    }

    #[test]
    fn any_names_of_program_and_host_make_a_label() {
        assert_eq!(EngineLabel::of("my service", "höst").as_str(), "my-service@h-st");
        let cut = EngineLabel::of("p", &"h".repeat(500));
        assert!(cut.as_str().len() == LABEL_BYTES_MAX && EngineLabel::new(cut.as_str()) == Ok(cut));
    }
}
