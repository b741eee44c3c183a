//! A problem at one place of a file. It becomes an error when the file's name and text are known. Pure.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::{error::ConfigFileError, keys, node::Node, spot::spot};

/// A problem in the file.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Unknown at first if serde's derived code finds the problem.
    subject: Option<Subject>,
    against: Option<Other>,
    what: What,
}

/// The place of a problem.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// The offset of its first byte in the file.
    pub(super) offset: usize,
    pub(super) key: Option<Box<str>>,
    pub(super) value: Option<Box<str>>,
}

/// The other setting of a contradiction. It is not in the file if it has no offset.
#[derive(Clone, Debug)]
struct Other {
    offset: Option<usize>,
    key: Box<str>,
    value: Box<str>,
}

#[derive(Clone, Debug)]
enum What {
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

    /// Adds the other key of a contradiction, with its default value.
    pub(super) fn but(self, root: &Node, other: Option<(String, String)>) -> Self {
        let against = other.map(|(key, value)| match root.find(&key) {
            Some(node) => Other { offset: Some(node.offset), key: key.into(), value: node.shown().into() },
            None => Other { offset: None, key: key.into(), value: value.into() },
        });
        Fault { against, ..self }
    }

    /// Sets the place, for a problem that was found while this value was parsed.
    pub(super) fn at(self, node: &Node) -> Self {
        match (&self.subject, &self.what) {
            (Some(_), _) => self,
            (None, What::Missing(name)) => Subject {
                offset: node.offset,
                key: Some(node.key_of(name).into()),
                value: Some("not set".into()),
            }
            .refused(how_to_add(name)),
            (None, What::Remedy(_) | What::NoSuchKey(_)) => Fault { subject: Some(node.itself()), ..self },
        }
    }

    /// Sets the place, for a problem that was found while the key of this value was parsed.
    pub(super) fn at_key(self, node: &Node) -> Self {
        let What::NoSuchKey(known) = self.what else { return self.at(node) };
        let nearest = nearest(node.name(), known);
        let value = node.shown_as(nearest.unwrap_or(node.name())).into();
        let subject = Subject { offset: node.key_offset, value: Some(value), ..node.itself() };
        subject.refused(no_such_key(node.name(), known, nearest))
    }

    pub(super) fn in_file(self, name: &str, text: &str) -> ConfigFileError {
        let nowhere = Subject { offset: 0, key: None, value: None };
        let Subject { offset, key, value } = self.subject.clone().unwrap_or(nowhere);
        let against = self.against.as_ref().map(|other| match other.offset {
            Some(offset) => format!("`{}` is {} in line {}", other.key, other.value, spot(text, offset).0),
            None => format!("`{}` is {}", other.key, other.value),
        });
        ConfigFileError {
            file: name.into(),
            spot: Some(spot(text, offset)),
            key,
            value,
            against: against.map(Into::into),
            remedy: self.to_string().into(),
        }
    }
}

fn how_to_add(name: &str) -> &'static str {
    match name {
        "redis" => "write a section [redis] with `addresses`",
        "addresses" => "add addresses = [\"host:port\"]",
        _ => "add it; leasehold.example.toml shows every key",
    }
}

fn no_such_key(name: &str, known: &[&str], nearest: Option<&'static str>) -> String {
    if let Some(nearest) = nearest {
        return format!("no such key; did you mean `{nearest}`?");
    }
    let elsewhere = keys::sections().into_iter().find(|(_, keys)| keys.contains(&name));
    match elsewhere {
        Some((section, _)) => format!("no such key here; it belongs to [{section}]"),
        None => format!("no such key; there are {}", known.join(", ")),
    }
}

/// Returns the known key that was probably meant: the nearest one, if few letters differ.
fn nearest(name: &str, known: &'static [&'static str]) -> Option<&'static str> {
    let wrong_letters = |key: &&&str| strsim::damerau_levenshtein(name, key);
    let nearest = known.iter().min_by_key(wrong_letters)?;
    (wrong_letters(&nearest) <= (nearest.len() / 3).max(1)).then_some(*nearest)
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
