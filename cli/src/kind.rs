//! Kinds of locks, as options name them. Pure.

use clap::ValueEnum;

/// What `run` acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acquired {
    /// One holder.
    Exclusive,
    /// One holder, with tokens from a counter of the server.
    Fenced,
    /// One holder, first come, first served.
    Fair,
    /// Many readers, no writer.
    Read,
    /// One writer, no reader.
    Write,
    /// Some of a number of permits, which expire.
    #[value(alias = "semaphore")]
    Permits,
}

/// What `inspect`, `who`, `watch` and `release` look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Inspected {
    /// Found out from what the server keeps.
    #[default]
    Auto,
    /// A lock with one holder.
    Exclusive,
    /// A lock with one holder and a line.
    Fair,
    /// Readers, or one writer.
    ReadWrite,
    /// Permits that expire.
    #[value(alias = "semaphore")]
    Permits,
}

impl Acquired {
    /// The word of the option.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Fenced => "fenced",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permits => "permits",
        }
    }
}
