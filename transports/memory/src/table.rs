//! The table of holds. Pure: it has keys, holds and the given moment, but no lanes, locks or notices.
//!
//! It keeps these rules of the transport contract:
//! - The holds are those of [`ExclusiveLocks`], [`ReadWriteLocks`] and [`FairLocks`]. Locks of one name exclude each other,
//!   whichever of the three keeps them.
//! - No acquire and no renewal shortens a hold. Nothing is executed after its `execute_by`.
//! - Tokens rise strictly over the whole table, also within one microsecond, and when the server's clock steps
//!   back. Tokens of fenced locks come from a counter of each key instead, which is never removed.

use std::{sync::Arc, time::Duration};

use leasehold::{
    FencingMode, FencingToken,
    clock::Instant,
    key::{Family, LockKey},
    owner::Owner,
    transport::{Call, ErrorKind, HoldKind, Inspection, Op, Outcome, Remaining, ServerTime, TransportError},
};

use crate::{
    by_key::ByKey,
    exclusive::ExclusiveLocks,
    fair::{Asked, FairLocks},
    hold::{Hold, PeerHold},
    read_write::ReadWriteLocks,
};

/// The transport's name, for metrics and errors.
pub(crate) const NAME: &str = "memory";

/// The moment of execution, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) ours: Instant,
    pub(crate) server: ServerTime,
}

/// All holds of one server.
#[derive(Debug, Default)]
pub(crate) struct Table {
    exclusive: ExclusiveLocks,
    /// The token counters of fenced locks.
    counters: ByKey<u64>,
    last_token_micros: u64,
    read_write: ReadWriteLocks,
    fair: FairLocks,
}

impl Table {
    /// Executes one call, and returns its outcome.
    pub(crate) fn execute(&mut self, call: &Call, now: Moment) -> Outcome {
        let at = now.server;
        if call.kind.family() != call.key.family() {
            return call.unsupported(NAME);
        }
        if call.op.is_limited() && now.ours > call.execute_by {
            return Outcome::TooLate { at };
        }
        match (call.kind, call.op) {
            (HoldKind::Fair, _) => self.execute_fair(call, at),
            (HoldKind::Fenced(mode), Op::Acquire { ttl }) => self.acquire_fenced(call, mode, ttl, at),
            (HoldKind::Read | HoldKind::Write, Op::Acquire { ttl }) => self.acquire(call, ttl, at),
            (HoldKind::Read | HoldKind::Write, _) => self.read_write.execute(call, at),
            (_, Op::Acquire { ttl }) if is_exclusive(call.kind) => self.acquire(call, ttl, at),
            (_, Op::Renew { ttl }) if is_exclusive(call.kind) => self.exclusive.renew(call, ttl, at),
            (_, Op::Release) if is_exclusive(call.kind) => self.exclusive.release(call, at),
            _ => call.unsupported(NAME),
        }
    }

    fn acquire(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        let answer = match (self.other_kind_remaining(&call.key, at), call.key.family()) {
            (Some(remaining), _) => Err(remaining),
            (None, Family::ReadWrite) => self.read_write.acquire(call, ttl, at),
            (None, _) => self.exclusive.acquire(call, ttl, at),
        };
        self.granted_or_busy(answer, at)
    }

    fn execute_fair(&mut self, call: &Call, at: ServerTime) -> Outcome {
        let other_kind = match call.op {
            Op::Renew { .. } => None, // neither grants nor looks at the line
            _ => self.other_kind_remaining(&call.key, at),
        };
        match self.fair.execute(call, other_kind, at) {
            Asked::Granted => self.granted_or_busy(Ok(()), at),
            Asked::Other(outcome) => outcome,
        }
    }

    fn granted_or_busy(&mut self, answer: Result<(), Remaining>, at: ServerTime) -> Outcome {
        match answer {
            Ok(()) => Outcome::Granted { token: self.next_token(at), at },
            Err(remaining) => Outcome::Busy { remaining, at },
        }
    }

    // The counter moves with a grant to an owner that did not hold the lock, and only then.
    fn acquire_fenced(&mut self, call: &Call, mode: FencingMode, ttl: Duration, at: ServerTime) -> Outcome {
        let is_repeat = self.exclusive.is_held_by_owner(call, at);
        let reserved = u64::from(call.reserved_tokens);
        if is_repeat && self.counters.get(&call.key).is_none_or(|counter| *counter <= reserved) {
            return Outcome::Failed(counter_is_gone());
        }
        let outcome = self.acquire(call, ttl, at);
        let Outcome::Granted { .. } = outcome else { return outcome };
        let counter = self.counters.entry(call.key.clone()).or_insert(0);
        if !is_repeat {
            *counter = mode.next(*counter, at.micros).saturating_add(reserved);
        }
        Outcome::Granted { token: FencingToken::of_counter(*counter - reserved), at }
    }

    /// The owner at the head of a fair lock's line to be told that its turn has come, since this was called last.
    pub(crate) fn take_turn(&mut self) -> Option<Owner> {
        self.fair.take_turn()
    }

    /// Returns the holders of the lock, of whichever kind. The line is that of the key.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        let seen = self.inspect_kind(key, at);
        if !seen.holds.is_empty() {
            return seen;
        }
        let mut others = self.other_kinds(key).map(|other| self.inspect_kind(&other, at));
        match others.find(|other| !other.holds.is_empty()) {
            Some(other) => other.with_line(seen.line),
            None => seen,
        }
    }

    fn inspect_kind(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        match key.family() {
            Family::ReadWrite => self.read_write.inspect(key, at),
            Family::Fair => self.fair.inspect(key, at),
            _ => self.exclusive.inspect(key, at),
        }
    }

    /// Ends the holds of the lock, of whichever kind. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        // The lock is free of other kinds before the head of its own line is told.
        let others_held = self.force_release_other_kinds(key, at);
        self.force_release_kind(key, at) || others_held
    }

    // At most one kind is held, so the search ends at the first that was.
    fn force_release_other_kinds(&mut self, key: &LockKey, at: ServerTime) -> bool {
        let others: Vec<_> = self.other_kinds(key).collect();
        others.iter().any(|other| self.force_release_kind(other, at))
    }

    fn force_release_kind(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        match key.family() {
            Family::ReadWrite => self.read_write.force_release(key, at),
            Family::Fair => self.fair.force_release(key, at),
            _ => self.exclusive.force_release(key, at),
        }
    }

    /// Replaces any hold of the lock, of whichever kind, with a peer's hold. On a read/write lock the peer writes.
    pub(crate) fn put_peer(&mut self, key: Arc<LockKey>, peer: PeerHold, at: ServerTime) {
        self.force_release_other_kinds(&key, at);
        self.fair.take_turn(); // the head is not told: the peer holds the lock
        let hold = Hold::peer(peer, at);
        match key.family() {
            Family::ReadWrite => self.read_write.put_writer(key, hold, at),
            Family::Fair => self.fair.put_holder(key, hold, at),
            _ => self.exclusive.put_holder(key, hold, at),
        }
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
        (self.exclusive, self.counters) = (ExclusiveLocks::default(), ByKey::default());
        (self.read_write, self.fair) = (ReadWriteLocks::default(), FairLocks::default());
    }

    /// Returns the number of holds in memory, including expired ones that were not removed yet.
    pub(crate) fn stored(&self) -> usize {
        self.exclusive.stored() + self.read_write.stored() + self.fair.stored()
    }

    /// How long a lock of another kind with this name is still held. `None`: it is not held.
    fn other_kind_remaining(&self, key: &LockKey, at: ServerTime) -> Option<Remaining> {
        self.other_kinds(key).find_map(|other| match other.family() {
            Family::ReadWrite => self.read_write.remaining(&other, at),
            Family::Fair => self.fair.remaining(&other, at),
            _ => self.exclusive.remaining(&other, at),
        })
    }

    /// The keys of the same name in the families of which there are locks. A table with locks of one family makes no key.
    fn other_kinds(&self, key: &LockKey) -> impl Iterator<Item = Arc<LockKey>> {
        let families = [
            (Family::Exclusive, self.exclusive.is_empty()),
            (Family::ReadWrite, self.read_write.is_empty()),
            (Family::Fair, self.fair.is_empty()),
        ];
        let own = key.family();
        let others = families.into_iter().filter(move |(family, is_empty)| *family != own && !is_empty);
        // The name is that of a key, so it is valid.
        others.filter_map(|(family, _)| LockKey::with_family("", key.on_server(), family).ok())
    }

    fn next_token(&mut self, at: ServerTime) -> FencingToken {
        self.last_token_micros = at.micros.max(self.last_token_micros + 1);
        FencingToken::at_server_micros(self.last_token_micros)
    }
}

/// Holds of these kinds are one and the same on a server.
fn is_exclusive(kind: HoldKind) -> bool {
    matches!(kind, HoldKind::Exclusive | HoldKind::Spin | HoldKind::Fenced(_))
}

fn counter_is_gone() -> TransportError {
    let detail = "the lock is held, but its token counter is gone; acquire the lock again";
    TransportError::without_effect(ErrorKind::WrongType, None, detail)
}
#[cfg(test)]
#[path = "table_kinds_tests.rs"]
mod kinds_tests;
#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
