//! The error for a configuration file.

use std::{fmt, io};

use super::super::{credentials::shown_of_other, error::ConfigError, system_error::words};

/// Why a configuration file cannot be used: file, line, column, key, value and remedy. The error never shows a
/// password or the value of a `${NAME}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFileError {
    // Boxed texts keep the error small, because it is returned through many functions.
    pub(super) file: Box<str>,
    /// Line and column, both from 1.
    pub(super) spot: Option<(usize, usize)>,
    pub(super) key: Option<Box<str>>,
    pub(super) value: Option<Box<str>>,
    pub(super) against: Option<Box<str>>,
    pub(super) remedy: Box<str>,
    pub(super) is_variable_against_url: bool,
}

impl ConfigFileError {
    pub(super) fn unreadable(name: &str, error: &io::Error) -> Self {
        let why = words(error);
        let remedy = format!("cannot be read: {why}; correct the path, its rights, or its encoding (UTF-8)");
        // A URL or a connection string may have been given in place of a path.
        let name = if name.starts_with(['/', '.']) { name.to_owned() } else { shown_of_other(name) };
        Self::without_key(name.into(), remedy.into())
    }

    pub(super) fn of_url(error: &ConfigError) -> Self {
        let file = format!("`{}` is {}", error.field, error.value).into();
        Self::without_key(file, error.remedy.into())
    }

    /// `what`: what both name.
    pub(super) fn of_variable_against_url(variable: &str, what: &str) -> Self {
        let both = format!("the URL and {variable} both name {what}");
        let remedy = format!("unset {variable}, or leave out the URL");
        Self { is_variable_against_url: true, ..Self::without_key(both.into(), remedy.into()) }
    }

    pub(super) fn without_key(file: Box<str>, remedy: Box<str>) -> Self {
        let (spot, key, value, against) = (None, None, None, None);
        Self { file, spot, key, value, against, remedy, is_variable_against_url: false }
    }

    /// Returns the line, from 1. `None`: the file could not be read, or an environment variable gives the value.
    pub fn line(&self) -> Option<usize> {
        self.spot.map(|(line, _)| line)
    }

    /// Returns the column, in characters from 1. `None`: as with [`line`](Self::line).
    pub fn column(&self) -> Option<usize> {
        self.spot.map(|(_, column)| column)
    }

    /// Returns the key with its sections, such as `redis.tls.ca`. `None`: the error belongs to no key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns what to do.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }

    /// Whether a URL and an environment variable both name servers, or the database, user or password there.
    pub fn is_variable_against_url(&self) -> bool {
        self.is_variable_against_url
    }
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((line, column)) = self.spot {
            write!(f, ":{line}:{column}")?;
        }
        match (&self.key, &self.value) {
            (Some(key), Some(value)) => write!(f, ": `{key}` is {value}")?,
            (Some(key), None) => write!(f, ": `{key}`")?,
            (None, _) => {}
        }
        if let Some(against) = &self.against {
            write!(f, ", but {against}")?;
        }
        write!(f, ": {}", self.remedy)
    }
}

impl std::error::Error for ConfigFileError {}
