//! Fair locks: a hold and a line of owners that wait. Pure.
//!
//! - Only the head of the line takes a free lock, or any owner if the line is empty.
//! - A lock is not free while a lock of another kind with its name is held. Each operation but a renewal is told for how
//!   long that is.
//! - Each operation but a renewal first judges the silent places of the line. If the lock is free afterwards and the head
//!   is not the asker, the head is told that it is its turn.
//! - A release takes its owner out of the lock and out of the line.

use std::{sync::Arc, time::Duration};

use leasehold::{
    key::LockKey,
    owner::Owner,
    transport::{Call, Inspection, LockMode, Op, Outcome, PlaceTerms, Remaining, ServerTime},
};

use crate::{
    by_key::{ByKey, LEFTOVERS_MAX},
    hold::Hold,
    line::Line,
    read_write::UNCOUNTED,
};

/// All fair locks of one server.
#[derive(Debug, Default)]
pub(crate) struct FairLocks {
    locks: ByKey<FairLock>,
    /// How many locks the last sweep has left.
    swept: usize,
    /// The head whose turn it is since the last operation, and was not told yet.
    turn: Option<Owner>,
}

#[derive(Debug, Default)]
struct FairLock {
    hold: Option<Hold>,
    line: Line,
}

/// What the table makes of an answer: a grant needs a token.
pub(crate) enum Asked {
    Granted,
    Other(Outcome),
}

impl FairLocks {
    /// Executes a call on a fair lock. `other_kind`: for how long a lock of another kind with this name is held, if it is.
    pub(crate) fn execute(&mut self, call: &Call, other_kind: Option<Remaining>, at: ServerTime) -> Asked {
        match call.op {
            Op::Acquire { ttl } => self.acquire(call, ttl, None, other_kind, at),
            Op::Queue { ttl, place } => self.acquire(call, ttl, Some(place), other_kind, at),
            Op::Beat { place } => Asked::Other(self.beat(call, place, other_kind, at)),
            Op::Renew { ttl } => Asked::Other(self.renew(call, ttl, at)),
            Op::Release => Asked::Other(self.release(call, other_kind, at)),
            _ => Asked::Other(call.unsupported("memory")),
        }
    }

    /// The owner to be told that its turn has come, since this was called last.
    pub(crate) fn take_turn(&mut self) -> Option<Owner> {
        self.turn.take()
    }

    fn acquire(
        &mut self,
        call: &Call,
        ttl: Duration,
        joins: Option<PlaceTerms>,
        other_kind: Option<Remaining>,
        at: ServerTime,
    ) -> Asked {
        let owner = call.owner;
        let lock = self.judged(&call.key, at);
        if let Some(hold) = lock.hold.as_mut().filter(|hold| hold.is_of(owner)) {
            hold.extend(ttl, at);
            return Asked::Granted;
        }
        if lock.is_free(other_kind) && lock.line.head().is_none_or(|head| head == owner) {
            lock.line.leave(owner);
            lock.hold = Some(Hold::ours(owner, ttl, at));
            return Asked::Granted;
        }
        let turn = lock.turn(other_kind);
        joins.into_iter().for_each(|place| lock.line.join(owner, place, at));
        let (remaining, ahead) = (lock.remaining(other_kind, at), lock.line.ahead_of(owner));
        self.turn = turn;
        Asked::Other(match ahead.filter(|_| joins.is_some()) {
            Some(ahead) => Outcome::Queued { remaining, ahead, at },
            None => {
                self.forget_idle(&call.key);
                Outcome::Busy { remaining, at }
            }
        })
    }

    fn beat(
        &mut self,
        call: &Call,
        place: PlaceTerms,
        other_kind: Option<Remaining>,
        at: ServerTime,
    ) -> Outcome {
        let lock = self.judged(&call.key, at);
        let is_there = lock.line.beat(call.owner, place, at);
        let (turn, remaining) = (lock.turn(other_kind), lock.remaining(other_kind, at));
        let outcome = match lock.line.ahead_of(call.owner).filter(|_| is_there) {
            None => Outcome::NotYours { at },
            Some(0) if turn.is_some() => return Outcome::Turn { at },
            Some(ahead) => Outcome::Queued { remaining, ahead, at },
        };
        self.turn = turn;
        self.forget_idle(&call.key);
        outcome
    }

    fn renew(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        let hold = self.locks.get_mut(&call.key).and_then(|lock| lock.hold.as_mut());
        match hold.filter(|hold| hold.lives(at) && hold.is_of(call.owner)) {
            Some(hold) => Outcome::Renewed { found: hold.extend(ttl, at), at },
            None => Outcome::NotYours { at },
        }
    }

    fn release(&mut self, call: &Call, other_kind: Option<Remaining>, at: ServerTime) -> Outcome {
        let lock = self.locks.entry(call.key.clone()).or_default();
        let held = lock.hold.take_if(|hold| !hold.lives(at) || hold.is_of(call.owner));
        let is_done = held.is_some_and(|hold| hold.lives(at)) || lock.line.leave(call.owner);
        lock.line.judge(at);
        let turn = lock.turn(other_kind);
        self.turn = turn;
        self.forget_idle(&call.key);
        match is_done {
            true => Outcome::Released { listeners: turn.and(UNCOUNTED), at },
            false => Outcome::NotYours { at },
        }
    }

    /// How long the lock is still held. `None`: it is not held, even if callers wait in its line.
    pub(crate) fn remaining(&self, key: &Arc<LockKey>, at: ServerTime) -> Option<Remaining> {
        let hold = self.locks.get(key)?.hold.as_ref().filter(|hold| hold.lives(at))?;
        Some(hold.remaining(at))
    }

    /// Returns the holder of the lock, and those who wait.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        let lock = self.locks.get(key);
        let line =
            lock.map_or(Vec::new(), |lock| lock.line.owners().map(|owner| owner.to_string()).collect());
        let hold = lock.and_then(|lock| lock.hold.as_ref()).filter(|hold| hold.lives(at));
        let seen = match hold {
            Some(hold) => Inspection::new(vec![hold.seen(LockMode::Fair, at)], hold.remaining(at), at),
            None => Inspection::new(vec![], Remaining::NotKnown, at),
        };
        seen.with_line(line)
    }

    /// Ends any hold of the lock, which no other kind holds. Returns `false` if there was none. The line stays.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        let lock = self.judged(key, at);
        let was_held = lock.hold.take().is_some();
        let turn = lock.turn(None);
        self.turn = turn;
        self.forget_idle(key);
        was_held
    }

    /// Replaces any hold of the lock with a peer's hold. The line stays.
    pub(crate) fn put_holder(&mut self, key: Arc<LockKey>, hold: Hold, at: ServerTime) {
        self.judged(&key, at).hold = Some(hold);
    }

    /// Whether there is no lock in memory, neither held nor waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// The number of holds and places in memory, including expired ones that were not removed yet.
    pub(crate) fn stored(&self) -> usize {
        self.locks.values().map(|lock| usize::from(lock.hold.is_some()) + lock.line.len()).sum()
    }

    /// The lock, without an expired hold and without places that are silent for too long.
    fn judged(&mut self, key: &Arc<LockKey>, at: ServerTime) -> &mut FairLock {
        if !self.locks.contains_key(key) && self.locks.len() >= 2 * self.swept + LEFTOVERS_MAX {
            self.sweep(at);
        }
        let lock = self.locks.entry(key.clone()).or_default();
        lock.hold.take_if(|hold| !hold.lives(at));
        lock.line.judge(at);
        lock
    }

    fn forget_idle(&mut self, key: &Arc<LockKey>) {
        if self.locks.get(key).is_some_and(|lock| lock.hold.is_none() && lock.line.len() == 0) {
            self.locks.remove(key);
        }
    }

    fn sweep(&mut self, at: ServerTime) {
        let lives = |lock: &FairLock| {
            lock.hold.as_ref().is_some_and(|hold| hold.lives(at)) || !lock.line.is_forgotten(at)
        };
        self.locks.retain(|_, lock| lives(lock));
        self.swept = self.locks.len();
        self.locks.shrink_to(2 * self.swept + LEFTOVERS_MAX);
    }
}

impl FairLock {
    fn is_free(&self, other_kind: Option<Remaining>) -> bool {
        self.hold.is_none() && other_kind.is_none()
    }

    /// The head, if the lock is free for it.
    fn turn(&self, other_kind: Option<Remaining>) -> Option<Owner> {
        self.line.head().filter(|_| self.is_free(other_kind))
    }

    fn remaining(&self, other_kind: Option<Remaining>, at: ServerTime) -> Remaining {
        let held = self.hold.as_ref().map(|hold| hold.remaining(at)).or(other_kind);
        held.unwrap_or_else(|| Remaining::For(self.line.head_is_kept_for(at)))
    }
}

#[cfg(test)]
#[path = "fair_tests.rs"]
mod tests;
