//! The holds of read/write locks. Pure.
//!
//! A lock has one write hold, or any number of read holds, each with its own expiry. An expired hold counts as absent.
//! It is removed by the next write to its lock, or by a sweep before the map would grow.
//!
//! An answer with [`UNCOUNTED`] listeners is one that the watchers of the key must be told of. The lane counts them.

use std::{sync::Arc, time::Duration};

use leasehold::{
    key::LockKey,
    owner::Owner,
    transport::{Call, HoldKind, Inspection, LockMode, Op, Outcome, Remaining, ServerTime},
};

use crate::{
    by_key::{ByKey, LEFTOVERS_MAX},
    hold::Hold,
};

/// The watchers must be told.
pub(crate) const UNCOUNTED: Option<u32> = Some(0);
/// There is nothing to tell.
const NOBODY_TOLD: Option<u32> = None;

/// All read/write locks of one server.
#[derive(Debug, Default)]
pub(crate) struct ReadWriteLocks {
    locks: ByKey<Holds>,
    /// How many locks the last sweep has left.
    swept: usize,
}

/// The holds of one lock: never empty.
#[derive(Debug)]
enum Holds {
    Write(Hold),
    Read(Vec<Hold>),
}

impl ReadWriteLocks {
    /// Takes the lock. `Err`: it is held by others for this time.
    pub(crate) fn acquire(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Result<(), Remaining> {
        let hold = Hold::ours(call.owner, ttl, at);
        match (self.live(&call.key, at), call.kind) {
            (None, HoldKind::Read) => self.insert(call.key.clone(), Holds::Read(vec![hold]), at),
            (None, _) => self.insert(call.key.clone(), Holds::Write(hold), at),
            (Some(Holds::Read(readers)), HoldKind::Read) => match of(readers, call.owner) {
                Some(reader) => drop(reader.extend(ttl, at)),
                None => readers.push(hold),
            },
            (Some(Holds::Write(writer)), HoldKind::Write) if writer.is_of(call.owner) => {
                writer.extend(ttl, at);
            }
            (Some(holds), _) => return Err(holds.remaining(at)),
        }
        Ok(())
    }

    /// Executes an operation that is not an acquire.
    pub(crate) fn execute(&mut self, call: &Call, at: ServerTime) -> Outcome {
        let done = match call.op {
            Op::Renew { ttl } => self.renew(call, ttl, at),
            Op::Downgrade { ttl } => self.downgrade(call, ttl, at),
            Op::Release => self.release(call, at),
            _ => Some(call.unsupported("memory")),
        };
        done.unwrap_or(Outcome::NotYours { at })
    }

    fn renew(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Option<Outcome> {
        let hold = match (self.live(&call.key, at)?, call.kind) {
            (Holds::Read(readers), HoldKind::Read) => of(readers, call.owner)?,
            (Holds::Write(writer), HoldKind::Write) if writer.is_of(call.owner) => writer,
            _ => return None,
        };
        Some(Outcome::Renewed { found: hold.extend(ttl, at), at })
    }

    fn downgrade(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Option<Outcome> {
        let holds = self.live(&call.key, at)?;
        let listeners = match holds {
            Holds::Write(writer) if writer.is_of(call.owner) => {
                writer.extend(ttl, at);
                holds.let_readers_in();
                UNCOUNTED
            }
            Holds::Write(_) => return None,
            Holds::Read(readers) => {
                of(readers, call.owner)?.extend(ttl, at);
                NOBODY_TOLD
            }
        };
        Some(Outcome::Downgraded { listeners, at })
    }

    // The release of a read hold also ends the write hold of which a downgrade should have made it: that downgrade may
    // not have been executed.
    fn release(&mut self, call: &Call, at: ServerTime) -> Option<Outcome> {
        let readers_left = match (self.live(&call.key, at)?, call.kind) {
            (Holds::Write(writer), _) if writer.is_of(call.owner) => 0,
            (Holds::Read(readers), HoldKind::Read) => {
                let place = readers.iter().position(|reader| reader.is_of(call.owner))?;
                readers.swap_remove(place);
                readers.len()
            }
            _ => return None,
        };
        if readers_left > 0 {
            return Some(Outcome::Released { listeners: NOBODY_TOLD, at });
        }
        self.locks.remove(&call.key);
        Some(Outcome::Released { listeners: UNCOUNTED, at })
    }

    /// How long the lock is still held. `None`: it is not held.
    pub(crate) fn remaining(&self, key: &Arc<LockKey>, at: ServerTime) -> Option<Remaining> {
        self.locks.get(key).filter(|holds| holds.live_at(at)).map(|holds| holds.remaining(at))
    }

    /// Returns the holders of the lock.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        let holds = self.locks.get(key);
        let live = || holds.iter().flat_map(|holds| holds.all()).filter(|hold| hold.lives(at));
        let mode = holds.map_or(LockMode::Free, Holds::mode);
        Inspection::new(live().map(|hold| hold.seen(mode, at)).collect(), longest(live(), at), at)
    }

    /// Ends all holds of the lock. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        self.locks.remove(key).is_some_and(|holds| holds.live_at(at))
    }

    /// Replaces all holds of the lock with one write hold.
    pub(crate) fn put_writer(&mut self, key: Arc<LockKey>, writer: Hold, at: ServerTime) {
        self.insert(key, Holds::Write(writer), at);
    }

    /// Whether there is no lock in memory, not even an expired one.
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Returns the number of holds in memory, including expired ones that were not removed yet.
    pub(crate) fn stored(&self) -> usize {
        self.locks.values().map(|holds| holds.all().len()).sum()
    }

    fn live(&mut self, key: &Arc<LockKey>, at: ServerTime) -> Option<&mut Holds> {
        let holds = self.locks.get_mut(key)?;
        if let Holds::Read(readers) = holds {
            readers.retain(|reader| reader.lives(at));
        }
        holds.live_at(at).then_some(holds)
    }

    fn insert(&mut self, key: Arc<LockKey>, holds: Holds, at: ServerTime) {
        if self.locks.len() >= 2 * self.swept + LEFTOVERS_MAX {
            self.sweep(at);
        }
        self.locks.insert(key, holds);
    }

    fn sweep(&mut self, at: ServerTime) {
        self.locks.retain(|_, holds| holds.live_at(at));
        self.swept = self.locks.len();
        self.locks.shrink_to(2 * self.swept + LEFTOVERS_MAX);
    }
}

impl Holds {
    fn all(&self) -> &[Hold] {
        match self {
            Holds::Write(writer) => std::slice::from_ref(writer),
            Holds::Read(readers) => readers,
        }
    }

    fn mode(&self) -> LockMode {
        match self {
            Holds::Write(_) => LockMode::Write,
            Holds::Read(_) => LockMode::Read,
        }
    }

    fn live_at(&self, at: ServerTime) -> bool {
        self.all().iter().any(|hold| hold.lives(at))
    }

    fn remaining(&self, at: ServerTime) -> Remaining {
        longest(self.all().iter(), at)
    }

    fn let_readers_in(&mut self) {
        let before = std::mem::replace(self, Holds::Read(Vec::new()));
        *self = match before {
            Holds::Write(writer) => Holds::Read(vec![writer]),
            readers @ Holds::Read(_) => readers,
        };
    }
}

fn of(readers: &mut [Hold], owner: Owner) -> Option<&mut Hold> {
    readers.iter_mut().find(|reader| reader.is_of(owner))
}

/// The remaining time of the hold that stays longest. `NotKnown` without any hold.
fn longest<'a>(holds: impl Iterator<Item = &'a Hold>, at: ServerTime) -> Remaining {
    let last = holds.max_by_key(|hold| hold.expires_at().unwrap_or(u64::MAX));
    last.map_or(Remaining::NotKnown, |hold| hold.remaining(at))
}

#[cfg(test)]
#[path = "read_write_tests.rs"]
mod tests;
