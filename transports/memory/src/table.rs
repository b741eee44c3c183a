//! The table of holds. Pure: it has keys, holds and the given moment, but no lanes, locks or notices.
//!
//! It keeps these rules of the transport contract:
//! - A key has at most one hold. A hold of ours always has an expiry; only a peer's hold may have none.
//! - A hold exists while `now < expires_at`. An expired hold counts as absent. It is replaced or removed by the
//!   next write to its key, or by a sweep before the map would grow.
//! - No acquire and no renewal shortens a hold. Nothing is executed after its `execute_by`.
//! - Tokens rise strictly over the whole table, also within one microsecond, and when the server's clock steps
//!   back. Tokens of fenced locks come from a counter of each key instead, which is never removed.

use std::{collections::HashMap, hash::BuildHasherDefault, sync::Arc, time::Duration};

use leasehold::{
    FencingMode, FencingToken,
    clock::Instant,
    key::{LockKey, PrehashedHasher},
    owner::Owner,
    transport::{
        Call, ErrorKind, Hold as SeenHold, HoldKind, Inspection, Op, Outcome, Remaining, ServerTime,
        TransportError,
    },
};

/// The transport's name, for metrics and errors.
pub(crate) const NAME: &str = "memory";

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
    /// The token counters of fenced locks.
    counters: ByKey<u64>,
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
    /// Executes one call, and returns its outcome.
    pub(crate) fn execute(&mut self, call: &Call, now: Moment) -> Outcome {
        let at = now.server;
        if call.op.is_limited() && now.ours > call.execute_by {
            return Outcome::TooLate { at };
        }
        match (call.kind, call.op) {
            (HoldKind::Exclusive | HoldKind::Spin, Op::Acquire { ttl }) => self.acquire(call, ttl, at),
            (HoldKind::Fenced(mode), Op::Acquire { ttl }) => self.acquire_fenced(call, mode, ttl, at),
            (_, Op::Renew { ttl }) if is_kept(call.kind) => self.renew(call, ttl, at),
            (_, Op::Release) if is_kept(call.kind) => self.release(call, at),
            _ => call.unsupported(NAME),
        }
    }

    fn acquire(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        let until = expiry(at, ttl);
        match self.live(&call.key, at) {
            Some(Hold::Ours { owner, expires_at }) if *owner == call.owner => {
                *expires_at = until.max(*expires_at);
            }
            Some(hold) => return Outcome::Busy { remaining: hold.remaining(at), at },
            None => self.insert(call.key.clone(), Hold::Ours { owner: call.owner, expires_at: until }, at),
        }
        Outcome::Granted { token: self.next_token(at), at }
    }

    // The counter moves with a grant to an owner that did not hold the lock, and only then.
    fn acquire_fenced(&mut self, call: &Call, mode: FencingMode, ttl: Duration, at: ServerTime) -> Outcome {
        let is_repeat = self.live_of(&call.key, call.owner, at).is_some();
        if is_repeat && !self.counters.contains_key(&call.key) {
            return Outcome::Failed(counter_is_gone());
        }
        let outcome = self.acquire(call, ttl, at);
        let Outcome::Granted { .. } = outcome else { return outcome };
        let counter = self.counters.entry(call.key.clone()).or_insert(0);
        if !is_repeat {
            *counter = mode.next(*counter, at.micros);
        }
        Outcome::Granted { token: FencingToken::of_counter(*counter), at }
    }

    fn renew(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        let Some(expires_at) = self.live_of(&call.key, call.owner, at) else {
            return Outcome::NotYours { at };
        };
        let found = left(*expires_at, at);
        *expires_at = expiry(at, ttl).max(*expires_at);
        Outcome::Renewed { found, at }
    }

    // The lane counts the listeners and notifies them.
    fn release(&mut self, call: &Call, at: ServerTime) -> Outcome {
        if self.live_of(&call.key, call.owner, at).is_none() {
            return Outcome::NotYours { at };
        }
        self.holds.remove(&call.key);
        Outcome::Released { listeners: None, at }
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

    /// Sets or removes the token counter of a key, as another client may do.
    pub(crate) fn put_counter(&mut self, key: Arc<LockKey>, counter: Option<u64>) {
        match counter {
            Some(counter) => self.counters.insert(key, counter),
            None => self.counters.remove(&key),
        };
    }

    /// Forgets every hold and token counter, like a server without persistence. Other tokens continue to rise.
    pub(crate) fn lose_all(&mut self) {
        (self.holds, self.counters) = (ByKey::default(), ByKey::default());
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

/// Holds of these kinds are one and the same on a server.
fn is_kept(kind: HoldKind) -> bool {
    matches!(kind, HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_))
}

fn counter_is_gone() -> TransportError {
    let detail = "the lock is held, but its token counter is gone; acquire the lock again";
    TransportError::without_effect(ErrorKind::WrongType, None, detail)
}

fn expiry(at: ServerTime, ttl: Duration) -> u64 {
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
