//! The table of holds. Pure: it has keys, holds and the given moment, but no lanes, locks or notices.
//!
//! It keeps these rules of the transport contract:
//! - The holds are those of [`ExclusiveLocks`], [`ReadWriteLocks`] and [`FairLocks`].
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
            (HoldKind::Exclusive | HoldKind::Spin, Op::Acquire { ttl }) => self.acquire(call, ttl, at),
            (HoldKind::Fenced(mode), Op::Acquire { ttl }) => self.acquire_fenced(call, mode, ttl, at),
            (HoldKind::Read | HoldKind::Write, Op::Acquire { ttl }) => {
                let answer = self.read_write.acquire(call, ttl, at);
                self.granted_or_busy(answer, at)
            }
            (HoldKind::Read | HoldKind::Write, _) => self.read_write.execute(call, at),
            (HoldKind::Fair, _) => match self.fair.execute(call, at) {
                Asked::Granted => self.granted_or_busy(Ok(()), at),
                Asked::Other(outcome) => outcome,
            },
            (_, Op::Renew { ttl }) if is_kept(call.kind) => self.exclusive.renew(call, ttl, at),
            (_, Op::Release) if is_kept(call.kind) => self.exclusive.release(call, at),
            _ => call.unsupported(NAME),
        }
    }

    fn acquire(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        let answer = self.exclusive.acquire(call, ttl, at);
        self.granted_or_busy(answer, at)
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

    /// The owner at the head of a fair lock's line to be told that its turn has come, since this was called last.
    pub(crate) fn take_turn(&mut self) -> Option<Owner> {
        self.fair.take_turn()
    }

    /// Returns the holders of the lock.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        match key.family() {
            Family::ReadWrite => return self.read_write.inspect(key, at),
            Family::Fair => return self.fair.inspect(key, at),
            _ => {}
        }
        self.exclusive.inspect(key, at)
    }

    /// Ends any hold of the key. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        match key.family() {
            Family::ReadWrite => return self.read_write.force_release(key, at),
            Family::Fair => return self.fair.force_release(key, at),
            _ => {}
        }
        self.exclusive.force_release(key, at)
    }

    /// Replaces any hold of the key with a peer's hold. On a read/write lock the peer writes.
    pub(crate) fn put_peer(&mut self, key: Arc<LockKey>, peer: PeerHold, at: ServerTime) {
        let hold = Hold::peer(peer, at);
        match key.family() {
            Family::ReadWrite => return self.read_write.put_writer(key, hold, at),
            Family::Fair => return self.fair.put_holder(key, hold, at),
            _ => {}
        }
        self.exclusive.put_holder(key, hold, at);
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

    fn next_token(&mut self, at: ServerTime) -> FencingToken {
        self.last_token_micros = at.micros.max(self.last_token_micros + 1);
        FencingToken::at_server_micros(self.last_token_micros)
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
#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
