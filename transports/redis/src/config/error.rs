//! The error for a setting that cannot work.

use std::fmt;

/// A setting that cannot work. Its text has the setting, its value, the contradicting setting if there is one, and
/// what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub(super) field: &'static str,
    /// The index of the entry, if the setting is a list.
    pub(super) entry: Option<usize>,
    pub(super) value: String,
    pub(super) against: Option<(&'static str, String)>,
    pub(super) remedy: &'static str,
}

impl ConfigError {
    pub(super) fn new(field: &'static str, value: impl ToString, remedy: &'static str) -> Self {
        Self { field, entry: None, value: value.to_string(), against: None, remedy }
    }

    pub(super) fn against(self, field: &'static str, value: impl ToString) -> Self {
        Self { against: Some((field, value.to_string())), ..self }
    }

    /// Hides the value of a user name, because a password may have been written in its place.
    pub(super) fn without_name(self) -> Self {
        let is_name = ["username", "sentinel_username"].contains(&self.field);
        if is_name { Self { value: "***".to_owned(), ..self } } else { self }
    }

    pub(super) fn entry(self, entry: usize) -> Self {
        Self { entry: Some(entry), ..self }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}", self.field, self.value)?;
        if let Some((field, value)) = &self.against {
            write!(f, ", but `{field}` is {value}")?;
        }
        write!(f, ": {}", self.remedy)
    }
}

impl std::error::Error for ConfigError {}

/// Shown as the value of a setting that is not set.
pub(super) const NOT_SET: &str = "not set";
