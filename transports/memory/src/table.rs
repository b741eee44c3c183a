//! The table of holds. Pure: it has keys, holds and the given moment, but no lanes, locks or notices.
//!
//! It keeps these rules of the transport contract:
//! - The key of an exclusive lock has at most one hold. [`ReadWriteLocks`] keeps the holds of the other keys.
//! - An expired hold counts as absent. It is replaced or removed by the next write to its key, or by a sweep before the
//!   map would grow.
//! - No acquire and no renewal shortens a hold. Nothing is executed after its `execute_by`.
//! - Tokens rise strictly over the whole table, also within one microsecond, and when the server's clock steps
//!   back. Tokens of fenced locks come from a counter of each key instead, which is never removed.

use std::{sync::Arc, time::Duration};

use leasehold::{
    FencingMode, FencingToken,
    clock::Instant,
    key::{Family, LockKey},
    owner::Owner,
    transport::{
        Call, ErrorKind, HoldKind, Inspection, LockMode, Op, Outcome, Remaining, ServerTime, TransportError,
    },
};

use crate::{
    by_key::{ByKey, LEFTOVERS_MAX},
    fair::{Asked, FairLocks},
    hold::{Hold, PeerHold},
    read_write::{ReadWriteLocks, UNCOUNTED},
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
    holds: ByKey<Hold>,
    /// The token counters of fenced locks.
    counters: ByKey<u64>,
    last_token_micros: u64,
    /// How many holds the last sweep has left. The next sweep is due at twice as many, plus `LEFTOVERS_MAX`.
    swept: usize,
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
            (_, Op::Renew { ttl }) if is_kept(call.kind) => self.renew(call, ttl, at),
            (_, Op::Release) if is_kept(call.kind) => self.release(call, at),
            _ => call.unsupported(NAME),
        }
    }

    fn acquire(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        let answer = match self.live(&call.key, at) {
            Some(hold) if hold.is_of(call.owner) => {
                hold.extend(ttl, at);
                Ok(())
            }
            Some(hold) => Err(hold.remaining(at)),
            None => {
                self.insert(call.key.clone(), Hold::ours(call.owner, ttl, at), at);
                Ok(())
            }
        };
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
        let is_repeat = self.live_of(call, at).is_some();
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
        match self.live_of(call, at) {
            Some(hold) => Outcome::Renewed { found: hold.extend(ttl, at), at },
            None => Outcome::NotYours { at },
        }
    }

    fn release(&mut self, call: &Call, at: ServerTime) -> Outcome {
        if self.live_of(call, at).is_none() {
            return Outcome::NotYours { at };
        }
        self.holds.remove(&call.key);
        Outcome::Released { listeners: UNCOUNTED, at }
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
        match self.holds.get(key).filter(|hold| hold.lives(at)) {
            Some(hold) => Inspection::new(vec![hold.seen(LockMode::Exclusive, at)], hold.remaining(at), at),
            None => Inspection::new(vec![], Remaining::NotKnown, at),
        }
    }

    /// Ends any hold of the key. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        match key.family() {
            Family::ReadWrite => return self.read_write.force_release(key, at),
            Family::Fair => return self.fair.force_release(key, at),
            _ => {}
        }
        self.holds.remove(key).is_some_and(|hold| hold.lives(at))
    }

    /// Replaces any hold of the key with a peer's hold. On a read/write lock the peer writes.
    pub(crate) fn put_peer(&mut self, key: Arc<LockKey>, peer: PeerHold, at: ServerTime) {
        let hold = Hold::peer(peer, at);
        match key.family() {
            Family::ReadWrite => return self.read_write.put_writer(key, hold, at),
            Family::Fair => return self.fair.put_holder(key, hold, at),
            _ => {}
        }
        self.insert(key, hold, at);
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
        (self.read_write, self.fair) = (ReadWriteLocks::default(), FairLocks::default());
    }

    /// Returns the number of holds in memory, including expired ones that were not removed yet.
    pub(crate) fn stored(&self) -> usize {
        self.holds.len() + self.read_write.stored() + self.fair.stored()
    }

    fn live(&mut self, key: &Arc<LockKey>, at: ServerTime) -> Option<&mut Hold> {
        self.holds.get_mut(key).filter(|hold| hold.lives(at))
    }

    fn live_of(&mut self, call: &Call, at: ServerTime) -> Option<&mut Hold> {
        self.live(&call.key, at).filter(|hold| hold.is_of(call.owner))
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
