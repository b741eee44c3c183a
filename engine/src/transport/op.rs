use std::{fmt, time::Duration};

use crate::{fencing::FencingMode, key::Family};

/// What a hold allows to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldKind {
    /// One owner holds the lock, and nobody else does.
    Exclusive,
    /// The same hold on the server, and the same token, but its release publishes no notice. Callers poll.
    Spin,
    /// The same hold on the server, with a token from the lock's own counter. Renewals and releases are those of an
    /// exclusive hold.
    Fenced(FencingMode),
    /// Many owners hold a read/write lock for reading, and nobody holds it for writing.
    Read,
    /// One owner holds a read/write lock for writing, and nobody else holds it.
    Write,
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
    /// Turn the owner's write hold into a read hold and notify the watchers of the key. Never creates a hold, and lets
    /// no other writer in between. Repeating it is safe.
    Downgrade {
        /// The read hold lasts at least this long from the moment of execution.
        ttl: Duration,
    },
    /// End the owner's hold, and notify the watchers of the key if the kind [notifies](HoldKind::notifies).
    Release,
}

impl Op {
    /// The ttl that the operation asks for. A release has none.
    pub fn ttl(self) -> Option<Duration> {
        match self {
            Op::Acquire { ttl } | Op::Renew { ttl } | Op::Downgrade { ttl } => Some(ttl),
            Op::Release => None,
        }
    }

    /// Whether the server must refuse the operation after the call's `execute_by`.
    pub fn is_limited(self) -> bool {
        self.ttl().is_some()
    }
}

impl HoldKind {
    /// The family of the key of such a hold.
    pub const fn family(self) -> Family {
        match self {
            HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_) => Family::Exclusive,
            HoldKind::Read | HoldKind::Write => Family::ReadWrite,
        }
    }

    /// Whether the end of such a hold is published to the watchers of the key.
    pub const fn notifies(self) -> bool {
        !matches!(self, HoldKind::Spin)
    }
}

impl fmt::Display for HoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HoldKind::Exclusive => "exclusive",
            HoldKind::Spin => "spin",
            HoldKind::Fenced(_) => "fenced",
            HoldKind::Read => "read",
            HoldKind::Write => "write",
        })
    }
}
