//! One hold with its expiry. Pure.

use std::time::Duration;

use leasehold::{
    owner::Owner,
    transport::{Hold as SeenHold, LockMode, Remaining, ServerTime},
};

/// A hold. It exists while `now < expires_at`. A hold of ours always has an expiry; only a peer's hold may have none.
#[derive(Debug)]
pub(crate) enum Hold {
    Ours { owner: Owner, expires_at: u64 },
    Peer { owner: String, count: u64, expires_at: Option<u64> },
}

/// A hold by another kind of client, for [`MemoryTransport::put_peer_hold`](crate::MemoryTransport::put_peer_hold).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerHold {
    /// The owner: opaque text.
    pub owner: String,
    /// The re-entry count. A peer may count re-entries on the server; Leasehold's own count there is always 1.
    pub count: u64,
    /// The time to live from now on. `None`: no expiry.
    pub ttl: Option<Duration>,
}

impl Hold {
    /// A hold of ours that begins now.
    pub(crate) fn ours(owner: Owner, ttl: Duration, at: ServerTime) -> Self {
        Hold::Ours { owner, expires_at: expiry(at, ttl) }
    }

    /// A peer's hold that begins now.
    pub(crate) fn peer(peer: PeerHold, at: ServerTime) -> Self {
        let expires_at = peer.ttl.map(|ttl| expiry(at, ttl));
        Hold::Peer { owner: peer.owner, count: peer.count, expires_at }
    }

    /// Whether it is a hold of ours, of this owner.
    pub(crate) fn is_of(&self, asker: Owner) -> bool {
        matches!(self, Hold::Ours { owner, .. } if *owner == asker)
    }

    /// Lets the hold last at least `ttl` from now, never less than is left. Returns what was left.
    pub(crate) fn extend(&mut self, ttl: Duration, at: ServerTime) -> Duration {
        let (Hold::Ours { expires_at, .. } | Hold::Peer { expires_at: Some(expires_at), .. }) = self else {
            return Duration::MAX;
        };
        let found = left(*expires_at, at);
        *expires_at = expiry(at, ttl).max(*expires_at);
        found
    }

    pub(crate) fn lives(&self, at: ServerTime) -> bool {
        self.expires_at().is_none_or(|expires_at| at.micros < expires_at)
    }

    pub(crate) fn remaining(&self, at: ServerTime) -> Remaining {
        self.expires_at().map_or(Remaining::NoExpiry, |expires_at| Remaining::For(left(expires_at, at)))
    }

    pub(crate) fn expires_at(&self) -> Option<u64> {
        match self {
            Hold::Ours { expires_at, .. } => Some(*expires_at),
            Hold::Peer { expires_at, .. } => *expires_at,
        }
    }

    /// The hold as an inspection shows it.
    pub(crate) fn seen(&self, mode: LockMode, at: ServerTime) -> SeenHold {
        let hold = match self {
            Hold::Ours { owner, .. } => SeenHold::new(owner.to_string(), 1),
            Hold::Peer { owner, count, .. } => SeenHold::new(owner.clone(), *count),
        };
        hold.with_mode(mode).with_remaining(self.remaining(at))
    }
}

pub(crate) fn expiry(at: ServerTime, ttl: Duration) -> u64 {
    at.micros.saturating_add(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX))
}

fn left(expires_at: u64, at: ServerTime) -> Duration {
    Duration::from_micros(expires_at.saturating_sub(at.micros))
}
