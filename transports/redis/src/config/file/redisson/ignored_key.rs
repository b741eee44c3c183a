//! A key of a Redisson YAML that has no effect. Pure.

use std::fmt;

/// A key of a Redisson YAML that has no effect here, and why.
/// [`ConfigFile::from_redisson_yaml`](crate::ConfigFile::from_redisson_yaml) returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredKey {
    /// The line of the key, from 1.
    pub line: usize,
    /// The key with its section, such as `singleServerConfig.connectionPoolSize`.
    pub key: String,
    /// Why the key has no effect.
    pub reason: &'static str,
}

impl fmt::Display for IgnoredKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` has no effect: {}", self.line, self.key, self.reason)
    }
}
