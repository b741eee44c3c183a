//! The holds of exclusive, spin and fenced locks: at most one for each key. Pure.
//!
//! An expired hold counts as absent. It is replaced or removed by the next write to its key, or by a sweep before the map
//! would grow.

use std::{sync::Arc, time::Duration};

use leasehold::{
    key::LockKey,
    transport::{Call, Inspection, LockMode, Outcome, Remaining, ServerTime},
};

use crate::{
    by_key::{ByKey, LEFTOVERS_MAX},
    hold::Hold,
    read_write::UNCOUNTED,
};

/// All exclusive, spin and fenced locks of one server.
#[derive(Debug, Default)]
pub(crate) struct ExclusiveLocks {
    holds: ByKey<Hold>,
    /// How many holds the last sweep has left. The next sweep is due at twice as many, plus `LEFTOVERS_MAX`.
    swept: usize,
}

impl ExclusiveLocks {
    /// Takes the lock. `Err`: it is held by another owner for this time.
    pub(crate) fn acquire(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Result<(), Remaining> {
        match self.live(&call.key, at) {
            Some(hold) if hold.is_of(call.owner) => {
                hold.extend(ttl, at);
            }
            Some(hold) => return Err(hold.remaining(at)),
            None => self.put_holder(call.key.clone(), Hold::ours(call.owner, ttl, at), at),
        }
        Ok(())
    }

    /// Whether the owner of the call holds the lock.
    pub(crate) fn is_held_by_owner(&mut self, call: &Call, at: ServerTime) -> bool {
        self.live_of(call, at).is_some()
    }

    pub(crate) fn renew(&mut self, call: &Call, ttl: Duration, at: ServerTime) -> Outcome {
        match self.live_of(call, at) {
            Some(hold) => Outcome::Renewed { found: hold.extend(ttl, at), at },
            None => Outcome::NotYours { at },
        }
    }

    pub(crate) fn release(&mut self, call: &Call, at: ServerTime) -> Outcome {
        if self.live_of(call, at).is_none() {
            return Outcome::NotYours { at };
        }
        self.holds.remove(&call.key);
        Outcome::Released { listeners: UNCOUNTED, at }
    }

    /// How long the lock is still held. `None`: it is not held.
    pub(crate) fn remaining(&self, key: &Arc<LockKey>, at: ServerTime) -> Option<Remaining> {
        Some(self.hold(key, at)?.remaining(at))
    }

    /// Returns the holder of the lock.
    pub(crate) fn inspect(&self, key: &Arc<LockKey>, at: ServerTime) -> Inspection {
        match self.hold(key, at) {
            Some(hold) => Inspection::new(vec![hold.seen(LockMode::Exclusive, at)], hold.remaining(at), at),
            None => Inspection::new(vec![], Remaining::NotKnown, at),
        }
    }

    /// Ends any hold of the lock. Returns `false` if there was none.
    pub(crate) fn force_release(&mut self, key: &Arc<LockKey>, at: ServerTime) -> bool {
        self.holds.remove(key).is_some_and(|hold| hold.lives(at))
    }

    /// Replaces any hold of the lock.
    pub(crate) fn put_holder(&mut self, key: Arc<LockKey>, hold: Hold, at: ServerTime) {
        if self.holds.len() >= 2 * self.swept + LEFTOVERS_MAX {
            self.sweep(at);
        }
        self.holds.insert(key, hold);
    }

    /// Whether there is no hold in memory, not even an expired one.
    pub(crate) fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// Returns the number of holds in memory, including expired ones that were not removed yet.
    pub(crate) fn stored(&self) -> usize {
        self.holds.len()
    }

    fn hold(&self, key: &Arc<LockKey>, at: ServerTime) -> Option<&Hold> {
        self.holds.get(key).filter(|hold| hold.lives(at))
    }

    fn live(&mut self, key: &Arc<LockKey>, at: ServerTime) -> Option<&mut Hold> {
        self.holds.get_mut(key).filter(|hold| hold.lives(at))
    }

    fn live_of(&mut self, call: &Call, at: ServerTime) -> Option<&mut Hold> {
        self.live(&call.key, at).filter(|hold| hold.is_of(call.owner))
    }

    // It costs as much as the map's growth to twice its size, and is as rare.
    fn sweep(&mut self, at: ServerTime) {
        self.holds.retain(|_, hold| hold.lives(at));
        self.swept = self.holds.len();
        self.holds.shrink_to(2 * self.swept + LEFTOVERS_MAX);
    }
}
