//! The entries of all keys that somebody here wants or holds. An entry is made by its first reference and gone with
//! its last.

use std::{
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{caller::Refusal, entry::Entry, offer::Offer, seat::Seat};
use crate::key::{CarriedHash, LockKey};

/// What a queued caller is told.
#[derive(Debug)]
pub(crate) enum Answer {
    Offer(Offer),
    Refused(Refusal),
}

/// An entry and what the drivers keep beside it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) entry: Entry<Seat>,
    /// A driver task serves the entry.
    pub(crate) driven: bool,
    /// Wakes that driver where it waits.
    pub(crate) poke: Option<Arc<Notify>>,
    /// The driver's watch is in force, so our own notices reach us too.
    pub(crate) subscribed: bool,
    /// Releases of this key that are not answered yet. They keep the entry: who comes meanwhile goes behind them.
    pub(crate) releases: u32,
}

type Map = HashMap<Arc<LockKey>, Slot, BuildHasherDefault<CarriedHash>>;

/// All entries, in parts with a lock each.
#[derive(Debug)]
pub(crate) struct Table {
    parts: Box<[Mutex<Map>]>,
}

impl Slot {
    fn is_idle(&self) -> bool {
        !self.driven && self.releases == 0 && self.entry.is_idle()
    }

    /// Wakes the driver if there is one, wherever it waits.
    pub(crate) fn poke(&self) {
        if let Some(poke) = &self.poke {
            poke.notify_one();
        }
    }
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }

    /// Works on the key's slot, making it if needed. Nothing may block or wake inside: collect, return, then act.
    pub(crate) fn with<R>(&self, key: &Arc<LockKey>, work: impl FnOnce(&mut Slot) -> R) -> R {
        let mut map = self.part(key);
        if let Some(slot) = map.get_mut(key) {
            let result = work(slot);
            if slot.is_idle() {
                map.remove(key);
            }
            return result;
        }
        let mut slot = Slot::default();
        let result = work(&mut slot);
        if !slot.is_idle() {
            map.insert(key.clone(), slot);
        }
        result
    }

    /// Visits every slot, part by part; new keys may appear behind the visit.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<LockKey>, &mut Slot)) {
        for part in &self.parts {
            let mut map = lock(part);
            map.iter_mut().for_each(|(key, slot)| visit(key, slot));
            map.retain(|_, slot| !slot.is_idle());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }

    fn part(&self, key: &LockKey) -> MutexGuard<'_, Map> {
        // The map itself uses the lowest and the highest bits of the hash.
        lock(&self.parts[(key.hash_value() >> 32) as usize % PARTS])
    }
}

// An entry is whole after every method of it; a panic in between is a fault of ours that must not spread.
fn lock(part: &Mutex<Map>) -> MutexGuard<'_, Map> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enough that two threads rarely meet, few enough to visit.
const PARTS: usize = 64;
