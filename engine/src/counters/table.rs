//! The entries of all counters that this engine uses at the moment, by name.

use std::{
    collections::HashMap,
    hash::BuildHasherDefault,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::{entry::Entry, reply_to::ReplyTo};
use crate::{
    clock::Instant,
    key::{LockKey, PrehashedHasher},
    transport::Counter,
};

/// An entry with what wakes its driver.
pub(crate) struct Slot {
    pub(crate) entry: Entry<ReplyTo>,
    /// Whether a driver task serves the entry.
    pub(crate) driven: bool,
    pub(crate) poke: Arc<Notify>,
}

type Map = HashMap<Arc<LockKey>, Slot, BuildHasherDefault<PrehashedHasher>>;

/// All entries, in [`PARTS`] parts. Each part has a lock of its own.
#[derive(Default)]
pub(crate) struct Counters {
    parts: [Mutex<Map>; PARTS],
}

impl Counters {
    /// Runs `work` on the entry of this name, which is made if there is none. An idle entry without a driver is removed.
    ///
    /// # Errors
    /// The counter as which the name is in use, if it is another one.
    pub(crate) fn with<T>(
        &self,
        key: &Arc<LockKey>,
        counter: Counter,
        work: impl FnOnce(&mut Slot) -> T,
    ) -> Result<T, Counter> {
        let mut part = self.part(key);
        let slot = part.entry(key.clone()).or_insert_with(|| Slot::new(counter));
        if slot.entry.counter() != counter {
            return Err(slot.entry.counter());
        }
        let result = work(slot);
        if !slot.driven && slot.entry.is_idle() {
            part.remove(key);
        }
        Ok(result)
    }

    /// Runs `work` on the entry of this name, if there is one.
    pub(crate) fn with_known<T>(&self, key: &Arc<LockKey>, work: impl FnOnce(&mut Slot) -> T) -> Option<T> {
        let mut part = self.part(key);
        let slot = part.get_mut(key)?;
        let result = work(slot);
        if !slot.driven && slot.entry.is_idle() {
            part.remove(key);
        }
        Some(result)
    }

    /// Removes the entry with all its callers.
    pub(crate) fn remove(&self, key: &Arc<LockKey>) -> Option<Slot> {
        self.part(key).remove(key)
    }

    /// The names of all entries.
    pub(crate) fn keys(&self) -> Vec<Arc<LockKey>> {
        self.parts.iter().flat_map(|part| lock(part).keys().cloned().collect::<Vec<_>>()).collect()
    }

    /// When the first caller that waits has come.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let oldest = |part| lock(part).values().filter_map(|slot: &Slot| slot.entry.oldest()).min();
        self.parts.iter().filter_map(oldest).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| lock(part).len()).sum()
    }

    fn part(&self, key: &LockKey) -> MutexGuard<'_, Map> {
        // The map uses the low bits of the hash and its highest ones; these are in between.
        lock(&self.parts[(key.hash_value() >> 32) as usize % PARTS])
    }
}

impl Slot {
    fn new(counter: Counter) -> Self {
        Self { entry: Entry::new(counter), driven: false, poke: Arc::default() }
    }
}

fn lock(part: &Mutex<Map>) -> MutexGuard<'_, Map> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

const PARTS: usize = 16;
