//! What is counted of compositions: multi locks and locks of a quorum. Pure.

use super::label_names::label_names;

/// A lock that is composed of other locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Composition {
    /// A [`MultiLock`](crate::MultiLock).
    Multi,
    /// A [`QuorumLock`](crate::QuorumLock).
    Quorum,
}

/// How an acquire of a composition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompositionOutcome {
    /// The caller got its lease.
    Acquired,
    /// `try_acquire` found a member held, or so many that no majority was left.
    Busy,
    /// The wait ended while the lock was known to be held.
    TimedOut,
    /// The caller was dropped while it waited.
    Cancelled,
    /// No definite answer, refused, a limit, a member that was lost, or shutdown.
    Failed,
}

impl Composition {
    /// The value of the label `composition`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Multi => "multi",
            Self::Quorum => "quorum",
        }
    }
}

impl CompositionOutcome {
    /// The value of the label `outcome`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Busy => "busy",
            Self::TimedOut => "timeout",
            Self::Cancelled => "cancelled",
            Self::Failed => "error",
        }
    }

    pub(super) const ALL: [Self; 5] =
        [Self::Acquired, Self::Busy, Self::TimedOut, Self::Cancelled, Self::Failed];

    /// All label values, in the order of the variants.
    pub(super) const NAMES: [&'static str; Self::ALL.len()] = label_names!(Self::ALL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_listed_in_their_order() {
        for (place, outcome) in CompositionOutcome::ALL.into_iter().enumerate() {
            assert_eq!((outcome as usize, CompositionOutcome::NAMES[place]), (place, outcome.as_str()));
        }
    }
}
