use std::{fmt, num::NonZeroU16, time::Duration};

use super::LockMode;
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
    /// One owner holds the lock, and the callers of all processes are granted it in the order in which they came.
    Fair,
    /// The owner holds this number of permits of a semaphore whose permits expire, all granted and released together.
    Permits(NonZeroU16),
}

/// How long a place in the line of a fair lock stays valid without news of its owner. In whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlaceTerms {
    wait_ms: u32,
    beat_ms: u32,
}

impl PlaceTerms {
    /// A place that other clients keep for `wait` without news, and this engine's transport for `beat`. Both are cut to
    /// whole milliseconds, at most `u32::MAX`.
    pub fn new(wait: Duration, beat: Duration) -> Self {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self { wait_ms: millis(wait), beat_ms: millis(beat) }
    }

    /// How long clients of other kinds wait for the head of the line before they remove it.
    pub fn wait(self) -> Duration {
        Duration::from_millis(self.wait_ms.into())
    }

    /// How long a place is alive after its owner's last `Queue` or `Beat`.
    pub fn beat(self) -> Duration {
        Duration::from_millis(self.beat_ms.into())
    }
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
    /// Fair locks: take the lock if it is free and nobody waits before the owner. Otherwise keep a place for the owner,
    /// at the end of the line if it has none yet. Repeating it with the same owner is safe.
    Queue {
        /// How long the server keeps the hold unless it is renewed.
        ttl: Duration,
        /// How long the place stays valid.
        place: PlaceTerms,
    },
    /// Fair locks: the owner still wants its place in the line. Never creates a place, and never takes the lock.
    Beat {
        /// How long the place stays valid from now on.
        place: PlaceTerms,
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
    /// End the owner's hold, and notify the watchers of the key if the kind [notifies](HoldKind::notifies). On a fair
    /// lock it also ends the owner's place in the line.
    Release,
}

impl Op {
    /// The ttl that the operation asks for. A beat and a release have none.
    pub fn ttl(self) -> Option<Duration> {
        match self {
            Op::Acquire { ttl } | Op::Queue { ttl, .. } | Op::Renew { ttl } | Op::Downgrade { ttl } => {
                Some(ttl)
            }
            Op::Beat { .. } | Op::Release => None,
        }
    }

    /// Whether the server must refuse the operation after the call's `execute_by`.
    pub fn is_limited(self) -> bool {
        self != Op::Release
    }
}

impl HoldKind {
    /// The family of the key of such a hold.
    pub const fn family(self) -> Family {
        match self {
            HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_) => Family::Exclusive,
            HoldKind::Read | HoldKind::Write => Family::ReadWrite,
            HoldKind::Fair => Family::Fair,
            HoldKind::Permits(_) => Family::Permits,
        }
    }

    /// How a lock with such a hold is held.
    pub const fn mode(self) -> LockMode {
        match self {
            HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_) => LockMode::Exclusive,
            HoldKind::Read => LockMode::Read,
            HoldKind::Write => LockMode::Write,
            HoldKind::Fair => LockMode::Fair,
            HoldKind::Permits(_) => LockMode::Permits,
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
            HoldKind::Fair => "fair",
            HoldKind::Permits(_) => "permits",
        })
    }
}
