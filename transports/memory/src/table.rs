//! The table of holds. Pure: it has keys, holds and the given moment, but no lanes, locks or notices.
//!
//! It keeps these rules of the transport contract:
//! - A key has at most one hold. A hold of ours always has an expiry; only a peer's hold may have none.
//! - A hold exists while `now < expires_at`. An expired hold counts as absent. It is replaced or removed by the
//!   next write to its key, or by a sweep before the map would grow.
//! - No acquire and no renewal shortens a hold. Nothing is executed after its `execute_by`.
//! - Tokens rise strictly over the whole table, also within one microsecond, and when the server's clock steps
//!   back.

use std::{collections::HashMap, hash::BuildHasherDefault, sync::Arc, time::Duration};

use leasehold::{
    FencingToken,
    clock::Instant,
    key::{LockKey, PrehashedHasher},
    owner::Owner,
    transport::{
        Acquire, AcquireReply, Hold as SeenHold, Inspection, Release, Remaining, Renewal, RenewalAnswer,
        ServerTime,
    },
};

/// A map by lock, which uses the hash that the key carries.
pub(crate) type ByKey<V> = HashMap<Arc<LockKey>, V, BuildHasherDefault<PrehashedHasher>>;

/// The moment of execution, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ours: Instant,
    pub(crate) server: ServerTime,
}

/// All holds of one server.
#[derive(Debug, Default)]
pub(crate) struct Table {
    holds: ByKey<Hold>,
    last_token_micros: u64,
    /// How many holds the last sweep has left. The next sweep is due at twice as many, plus `LEFTOVERS_MAX`.
    swept: usize,
}

#[derive(Debug)]
enum Hold {
    Ours { owner: Owner, expires_at: u64 },
    Peer { owner: String, count: u64, expires_at: Option<u64> },
}

impl Table {
    /// Executes an acquire, and returns the reply.
    pub(crate) fn acquire(&mut self, request: Acquire, now: Moment) -> AcquireReply {
        let at = now.server;
        if now.ours > request.execute_by {
            return AcquireReply::TooLate { at };
        }
        let until = expiry(at, request.ttl);
        match self.live(&request.key, at) {
            Some(Hold::Ours { owner, expires_at }) if *owner == request.owner => {
                *expires_at = until.max(*expires_at);
            }
            Some(hold) => return AcquireReply::Held { remaining: hold.remaining(at), at },
            None => self.insert(request.key, Hold::Ours { owner: request.owner, expires_at: until }, at),
        }
        AcquireReply::Granted { token: self.next_token(at), at }
    }

    /// Ends the owner's hold. Returns `false`, and changes nothing, if the owner has none.
    pub(crate) fn release(&mut self, request: &Release, at: ServerTime) -> bool {
        let own = self.live_of(&request.key, request.owner, at).is_some();
        if own {
            self.holds.remove(&request.key);
        }
        own
    }

    /// Executes one renewal, and returns the answer.
    pub(crate) fn renew(&mut self, member: &Renewal, now: Moment) -> RenewalAnswer {
        let at = now.server;
        if now.ours > member.execute_by {
            return RenewalAnswer::TooLate { at };
        }
        let Some(expires_at) = self.live_of(&member.key, member.owner, at) else {
            return RenewalAnswer::NotYours { at };
        };
        let found = left(*expires_at, at);
        *expires_at = expiry(at, member.ttl).max(*expires_at);
        RenewalAnswer::Renewed { found, at }
    }

    /// Returns the holder of the lock.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        match self.holds.get(key).filter(|hold| hold.lives(at)) {
            Some(hold) => Inspection::new(vec![hold.seen()], hold.remaining(at), at),
            None => Inspection::new(vec![], Remaining::NotKnown, at),
        }
    }

    /// Ends any hold of the key. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        self.holds.remove(key).is_some_and(|hold| hold.lives(at))
    }

    /// Replaces any hold of the key with a peer's hold.
    pub(crate) fn put_peer(&mut self, key: Arc<LockKey>, peer: PeerHold, at: ServerTime) {
        let expires_at = peer.ttl.map(|ttl| expiry(at, ttl));
        self.insert(key, Hold::Peer { owner: peer.owner, count: peer.count, expires_at }, at);
    }

    /// Forgets every hold, like a server without persistence. Tokens continue to rise.
    pub(crate) fn lose_all(&mut self) {
        self.holds = ByKey::default();
        self.swept = 0;
    }

    /// Returns the number of holds in memory, including expired ones that were not removed yet.
    pub(crate) fn stored(&self) -> usize {
        self.holds.len()
    }

    fn live(&mut self, key: &Arc<LockKey>, at: ServerTime) -> Option<&mut Hold> {
        self.holds.get_mut(key).filter(|hold| hold.lives(at))
    }

    fn live_of(&mut self, key: &Arc<LockKey>, asker: Owner, at: ServerTime) -> Option<&mut u64> {
        match self.live(key, at)? {
            Hold::Ours { owner, expires_at } if *owner == asker => Some(expires_at),
            Hold::Ours { .. } | Hold::Peer { .. } => None,
        }
    }

    fn insert(&mut self, key: Arc<LockKey>, hold: Hold, at: ServerTime) {
        if self.holds.len() >= 2 * self.swept + LEFTOVERS_MAX {
            self.sweep(at);
        }
        self.holds.insert(key, hold);
    }

    // It costs as much as the map's growth to twice its size, and is as rare.
    fn sweep(&mut self, at: ServerTime) {
        self.holds.retain(|_, hold| hold.lives(at));
        self.swept = self.holds.len();
        self.holds.shrink_to(2 * self.swept + LEFTOVERS_MAX);
    }

    fn next_token(&mut self, at: ServerTime) -> FencingToken {
        self.last_token_micros = at.micros.max(self.last_token_micros + 1);
        FencingToken::at_server_micros(self.last_token_micros)
    }
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
    fn lives(&self, at: ServerTime) -> bool {
        self.expires_at().is_none_or(|expires_at| at.micros < expires_at)
    }

    fn remaining(&self, at: ServerTime) -> Remaining {
        self.expires_at().map_or(Remaining::NoExpiry, |expires_at| Remaining::For(left(expires_at, at)))
    }

    fn expires_at(&self) -> Option<u64> {
        match self {
            Hold::Ours { expires_at, .. } => Some(*expires_at),
            Hold::Peer { expires_at, .. } => *expires_at,
        }
    }

    fn seen(&self) -> SeenHold {
        match self {
            Hold::Ours { owner, .. } => SeenHold::new(owner.to_string(), 1),
            Hold::Peer { owner, count, .. } => SeenHold::new(owner.clone(), *count),
        }
    }
}

pub(crate) fn expiry(at: ServerTime, ttl: Duration) -> u64 {
    at.micros.saturating_add(u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX))
}

fn left(expires_at: u64, at: ServerTime) -> Duration {
    Duration::from_micros(expires_at.saturating_sub(at.micros))
}

/// The number of expired holds, above the number of live ones, at which they are swept. It is small enough that
/// names of 8 KiB cost 8 MiB, and large enough that sweeps of few holds are rare.
const LEFTOVERS_MAX: usize = 1024;

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
