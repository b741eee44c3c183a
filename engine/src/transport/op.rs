use std::{fmt, time::Duration};

/// What a hold allows to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldKind {
    /// One owner holds the lock, and nobody else does.
    Exclusive,
}

/// What a call asks the server to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Take the lock if it can be had now. Repeating it with the same owner is safe.
    Acquire {
        /// How long the server keeps the hold unless it is renewed.
        ttl: Duration,
    },
    /// Keep the owner's hold. Never creates a hold.
    Renew {
        /// The hold lasts at least this long from the moment of execution.
        ttl: Duration,
    },
    /// End the owner's hold and notify the watchers of the key.
    Release,
}

impl Op {
    /// The ttl that the operation asks for. A release has none.
    pub fn ttl(self) -> Option<Duration> {
        match self {
            Op::Acquire { ttl } | Op::Renew { ttl } => Some(ttl),
            Op::Release => None,
        }
    }

    /// Whether the server must refuse the operation after the call's `execute_by`.
    pub fn is_limited(self) -> bool {
        self.ttl().is_some()
    }
}

impl fmt::Display for HoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HoldKind::Exclusive => "exclusive",
        })
    }
}
