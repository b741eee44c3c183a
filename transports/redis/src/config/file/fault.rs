//! A problem at one place of a file. It becomes an error when the file's name and text are known. Pure.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::{error::ConfigFileError, spot::spot};

/// A problem in the file.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Unknown at first if serde's derived code finds the problem.
    pub(super) subject: Option<Subject>,
    // Boxed, because a fault is returned through many functions.
    pub(super) against: Option<Box<Other>>,
    pub(super) what: What,
}

/// The place of a problem.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The offset of its first byte in the file.
    pub(super) offset: usize,
    /// The environment variable that gives the value, if the file does not.
    pub(super) variable: Option<Box<str>>,
    pub(super) key: Option<Box<str>>,
    pub(super) value: Option<Box<str>>,
}

/// The other setting of a contradiction. It is not in the file if it has no offset.
#[derive(Clone, Debug)]
pub(super) struct Other {
    pub(super) offset: Option<usize>,
    pub(super) variable: Option<Box<str>>,
    pub(super) key: Box<str>,
    pub(super) value: Box<str>,
}

/// What is wrong.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The remedy is the complete text.
    Remedy(Box<str>),
    /// The key is unknown. These are the known keys.
    NoSuchKey(&'static [&'static str]),
    /// This key is missing.
    Missing(&'static str),
}

impl Subject {
    pub(super) fn refused(self, remedy: impl Into<Box<str>>) -> Fault {
        Fault { subject: Some(self), ..Fault::unplaced(remedy) }
    }
}

impl Fault {
    fn unplaced(remedy: impl Into<Box<str>>) -> Self {
        Fault::of(What::Remedy(remedy.into()))
    }

    fn of(what: What) -> Self {
        Fault { subject: None, against: None, what }
    }

    pub(super) fn in_file(self, name: &str, text: &str) -> ConfigFileError {
        let nowhere = Subject { offset: 0, variable: None, key: None, value: None };
        let Subject { offset, variable, key, value } = self.subject.clone().unwrap_or(nowhere);
        let against = self.against.as_ref().map(|other| match (&other.variable, other.offset) {
            (Some(variable), _) => format!("`{}` is {} by {variable}", other.key, other.value),
            (None, Some(offset)) => {
                format!("`{}` is {} in line {}", other.key, other.value, spot(text, offset).0)
            }
            (None, None) => format!("`{}` is {}", other.key, other.value),
        });
        ConfigFileError {
            spot: variable.is_none().then(|| spot(text, offset)),
            file: variable.unwrap_or(name.into()),
            key,
            value,
            against: against.map(Into::into),
            remedy: self.to_string().into(),
            is_variable_against_url: false,
        }
    }
}

/// The constructors that serde calls for problems.
impl de::Error for Fault {
    fn custom<T: fmt::Display>(remedy: T) -> Self {
        Fault::unplaced(remedy.to_string())
    }

    // The value is left out here. It is shown later, if it may be shown.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::unplaced(format!("give {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::unplaced(format!("give {expected}"))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let all: Vec<_> = expected.iter().map(|name| format!("\"{name}\"")).collect();
        let meant = nearest(variant, expected).map(|name| format!("; did you mean \"{name}\"?"));
        Fault::unplaced(format!("write one of {}{}", all.join(", "), meant.unwrap_or_default()))
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Fault::of(What::NoSuchKey(expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Fault::of(What::Missing(field))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Remedy(remedy) => f.write_str(remedy),
            What::NoSuchKey(_) => f.write_str("no such key"),
            What::Missing(name) => write!(f, "`{name}` is missing"),
        }
    }
}

impl std::error::Error for Fault {}

/// Returns the known key that was probably meant: the one with a unit, or the nearest one, if few letters differ.
pub(super) fn nearest(name: &str, known: &'static [&'static str]) -> Option<&'static str> {
    if let Some(with_unit) = known.iter().find(|key| key.strip_suffix("_ms") == Some(name)) {
        return Some(with_unit);
    }
    // A longer name is near to none.
    if name.len() > NAME_MAX {
        return None;
    }
    let wrong_letters = |key: &&&str| strsim::damerau_levenshtein(name, key);
    let nearest = known.iter().min_by_key(wrong_letters)?;
    (wrong_letters(&nearest) <= (nearest.len() / 3).max(1)).then_some(*nearest)
}

const NAME_MAX: usize = 64;
