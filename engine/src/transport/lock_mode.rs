use std::fmt;

use serde::Serialize;

/// How a lock is held. `Display` writes one lower-case word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LockMode {
    /// No owner holds the lock.
    Free,
    /// One owner holds the lock: an exclusive, a spin or a fenced lock.
    Exclusive,
    /// Owners hold a read/write lock for reading.
    Read,
    /// One owner holds a read/write lock for writing.
    Write,
    /// One owner holds a fair lock.
    Fair,
    /// Owners hold permits of a semaphore whose permits expire.
    Permits,
}

impl LockMode {
    /// A short fixed word, for logs and errors: `free`, `exclusive`, `read`, `write`, `fair`, `permits`.
    pub const fn as_str(self) -> &'static str {
        match self {
            LockMode::Free => "free",
            LockMode::Exclusive => "exclusive",
            LockMode::Read => "read",
            LockMode::Write => "write",
            LockMode::Fair => "fair",
            LockMode::Permits => "permits",
        }
    }
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
