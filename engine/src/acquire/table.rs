//! The entries of all keys that this engine holds or has callers for. An entry is made at its first use, and removed as
//! soon as it is idle.
//!
//! Most keys of a busy engine are held, and no other caller wants them. The table keeps only the lease of such a key, a
//! tenth of the size of an entry, and makes the entry from the lease at the next use of the key.

use std::{
    collections::{
        HashMap,
        hash_map::{Entry as Place, OccupiedEntry},
    },
    hash::BuildHasherDefault,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{
    entry::{Entry, HeldGrant},
    reply_to::ReplyTo,
};
use crate::{
    key::{LockKey, PrehashedHasher},
    lease::shared::LeaseCore,
};

/// An entry, and what its driver and its releases keep with it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) entry: Entry<ReplyTo>,
    /// Whether a driver task, or an ask that is not answered, serves the entry.
    pub(crate) driven: bool,
    /// Wakes that driver while it waits.
    pub(crate) poke: Option<Arc<Notify>>,
    /// The driver's watch is in force, so the notices of this engine's own releases arrive too.
    pub(crate) subscribed: bool,
    /// The number of unanswered releases of this key. They keep the entry, so the ask of a new caller is sent behind
    /// them.
    pub(crate) releases: u32,
}

type Map = HashMap<Arc<LockKey>, Kept, BuildHasherDefault<PrehashedHasher>>;

/// What the table keeps for a key: the lease alone, or the whole slot.
#[derive(Debug)]
enum Kept {
    Held(HeldGrant),
    Busy(Box<Slot>),
}

#[derive(Debug, Default)]
struct Part {
    map: Map,
    /// A slot that no key has, equal to a new one. An acquire without contention needs a slot until it is answered, and so does
    /// a release. With a spare slot neither of them allocates one.
    spare: Option<Box<Slot>>,
}

/// All entries, in [`PARTS`] parts. Each part has a lock of its own.
#[derive(Debug)]
pub(crate) struct Table {
    parts: Box<[Mutex<Part>]>,
}

impl Slot {
    /// Makes the slot equal to a new one. It has no caller, so no task is woken.
    fn clear(&mut self) {
        let Self { entry, driven, poke, subscribed, releases } = self;
        entry.clear();
        (*driven, *poke, *subscribed, *releases) = (false, None, false, 0);
    }

    fn is_idle(&self) -> bool {
        self.is_unserved() && self.entry.is_idle()
    }

    fn as_held(&self) -> Option<&HeldGrant> {
        if self.is_unserved() && self.poke.is_none() && !self.subscribed {
            self.entry.as_held()
        } else {
            None
        }
    }

    fn is_unserved(&self) -> bool {
        !self.driven && self.releases == 0
    }

    /// Nothing is left to do for the entry's callers: nothing serves it any more.
    pub(crate) fn handle_rest(&mut self) {
        (self.driven, self.subscribed, self.poke) = (false, false, None);
    }

    /// Wakes the driver of the entry, if the driver waits.
    pub(crate) fn poke(&self) {
        if let Some(poke) = &self.poke {
            poke.notify_one();
        }
    }
}

impl Kept {
    /// The slot of the key. It is made if only a lease was kept.
    fn slot(&mut self, spare: &mut Option<Box<Slot>>) -> &mut Slot {
        if let Self::Held(held) = self {
            let mut slot = spare.take().unwrap_or_default();
            slot.entry.hold(held.clone());
            *self = Self::Busy(slot);
        }
        match self {
            Self::Busy(slot) => slot,
            Self::Held(_) => unreachable!("it was replaced by a slot"),
        }
    }

    fn for_each_lease(&self, visit: &mut impl FnMut(&Arc<LeaseCore>)) {
        match self {
            Kept::Held(held) => visit(held.lease()),
            Kept::Busy(slot) => slot.entry.leases().for_each(visit),
        }
    }

    /// Runs `visit` on a slot that is more than a lease. Returns whether anything needs to be kept.
    fn visit_busy(&mut self, visit: impl FnOnce(&mut Slot)) -> bool {
        let Self::Busy(slot) = self else { return true };
        visit(slot);
        let (is_idle, held) = (slot.is_idle(), slot.as_held().cloned());
        if let Some(held) = held {
            *self = Self::Held(held);
        }
        !is_idle
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    /// Runs `work` on the key's slot, and makes the slot if there is none. `work` runs under a lock of the table: it
    /// must not block or wake a task. So it returns what is to be done, and the caller acts afterwards. If `work` panics, the
    /// slot stays as it is until the next use of the key.
    pub(crate) fn with<R>(&self, key: &Arc<LockKey>, work: impl FnOnce(&mut Slot) -> R) -> R {
        let mut part = self.part(key);
        let Part { map, spare } = &mut *part;
        let mut place = match map.entry(key.clone()) {
            Place::Occupied(place) => place,
            Place::Vacant(place) => place.insert_entry(Kept::Busy(spare.take().unwrap_or_default())),
        };
        let result = work(place.get_mut().slot(spare));
        settle(place, spare);
        result
    }

    /// Visits every slot that is more than a lease, part by part. A slot that is added to a visited part meanwhile is
    /// not visited.
    pub(crate) fn for_each_busy(&self, mut visit: impl FnMut(&Arc<LockKey>, &mut Slot)) {
        for part in &self.parts {
            lock(part).map.retain(|key, kept| kept.visit_busy(|slot| visit(key, slot)));
        }
    }

    /// Visits every lease that holds its key, part by part. A lease that is added to a visited part meanwhile is not
    /// visited.
    pub(crate) fn for_each_lease(&self, mut visit: impl FnMut(&Arc<LeaseCore>)) {
        for part in &self.parts {
            lock(part).map.values().for_each(|kept| kept.for_each_lease(&mut visit));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).map.len()).sum()
    }

    fn part(&self, key: &LockKey) -> MutexGuard<'_, Part> {
        // The middle bits select the part: the map itself uses the lowest and the highest bits of the hash.
        lock(&self.parts[(key.hash_value() >> 32) as usize % PARTS])
    }
}

// Poison is ignored: an entry is consistent after each of its methods. A panic between two methods is a bug of this
// engine, and it must not affect other keys.
fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps what is needed of the slot: all of it, the lease alone, or nothing. A slot that is not needed is the spare one.
fn settle(mut place: OccupiedEntry<'_, Arc<LockKey>, Kept>, spare: &mut Option<Box<Slot>>) {
    let Kept::Busy(slot) = place.get() else { return };
    let replaced = if slot.is_idle() {
        place.remove()
    } else if let Some(held) = slot.as_held().cloned() {
        place.insert(Kept::Held(held))
    } else {
        return;
    };
    if let (Kept::Busy(mut slot), None) = (replaced, &spare) {
        slot.clear();
        *spare = Some(slot);
    }
}

/// Enough parts that two threads rarely want the same part at the same moment; few enough that a visit of all parts is
/// cheap.
const PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Instant,
        fencing::FencingToken,
        lease::shared::{Granted, Terms},
        owner::OwnerMint,
        routing::topology::{ClockId, NodeId},
    };

    fn lease(key: &Arc<LockKey>) -> Arc<LeaseCore> {
        let clock = ClockId { node: NodeId(0), epoch: 0 };
        let (owner, token, at) =
            (OwnerMint::new().mint(), FencingToken::at_server_micros(7), Instant::from_nanos(9));
        let granted =
            Granted { owner, token, sent: at, execute_by: at, received: at, clock, reserved_tokens: 0 };
        let terms = Terms {
            kind: crate::transport::HoldKind::Exclusive,
            ttl: std::time::Duration::from_secs(1),
            renewed: true,
            max_hold: None,
            labels: Default::default(),
        };
        Arc::new(LeaseCore::new(key.clone(), terms, granted, Default::default(), 1))
    }

    #[test]
    fn of_a_key_that_is_only_held_little_is_kept_and_nothing_forgotten() {
        let (table, key) = (Table::new(), LockKey::new("", "k").unwrap());
        let lease = lease(&key);
        table.with(&key, |slot| slot.entry.hold(HeldGrant::new(lease.clone(), None)));
        assert!(matches!(table.part(&key).map.get(&key), Some(Kept::Held(_))));
        assert!(size_of::<Kept>() <= 16, "{}", size_of::<Kept>());
        table.with(&key, |slot| {
            assert!(slot.entry.only_lease().is_some_and(|held| Arc::ptr_eq(held, &lease)));
            slot.releases += 1;
        });
        assert!(matches!(table.part(&key).map.get(&key), Some(Kept::Busy(_))));
        table.with(&key, |slot| slot.releases -= 1);
        assert!(matches!(table.part(&key).map.get(&key), Some(Kept::Held(_))));
    }

    // A slot that is used again must not know anything of the key that had it before.
    #[test]
    fn the_slot_of_a_key_is_used_again_and_as_good_as_new() {
        let (table, key) = (Table::new(), LockKey::new("", "k").unwrap());
        let place = |slot: &mut Slot| std::ptr::from_mut(slot) as usize;
        let first = table.with(&key, |slot| {
            slot.entry.hold(HeldGrant::new(lease(&key), None));
            (slot.poke, slot.subscribed) = (Some(Arc::default()), true);
            place(slot)
        });
        table.with(&key, Slot::handle_rest);
        let spare = table.part(&key).spare.take().expect("only the lease is kept");
        assert_eq!(format!("{spare:?}"), format!("{:?}", Slot::default()));
        table.part(&key).spare = Some(spare);
        assert_eq!(table.with(&key, place), first);
    }

    #[test]
    fn what_is_idle_is_gone() {
        let (table, key) = (Table::new(), LockKey::new("", "k").unwrap());
        table.with(&key, |slot| slot.releases += 1);
        assert_eq!(table.len(), 1);
        table.with(&key, |slot| slot.releases -= 1);
        assert_eq!(table.len(), 0);
    }
}
