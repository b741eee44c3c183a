//! The most contended locks by name, in bounded memory: the Space-Saving sketch (Metwally, Agrawal, El Abbadi, 2005),
//! weighted by the time that callers waited. Names may be many and private, so they are a label of one metric only, and
//! only with [`EngineConfig::hot_lock_names`](crate::EngineConfig::hot_lock_names).
//!
//! When all [`PLACES`] are taken, a new name takes over the place and the weight of the lightest name. So a weight is
//! never too small, and it is too large by at most `error`. A lock with more than 1/[`PLACES`] of all waiting time is
//! always in the sketch.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tracing::Level;

use crate::{clock::Clock, key::LockKey, log, serialized};

/// A lock that callers of this engine waited for. [`Engine::most_contended`](crate::Engine::most_contended) lists them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ContendedLock {
    /// The lock's name, without the engine's `name_prefix`.
    #[serde(serialize_with = "serialized::text")]
    pub name: Arc<str>,
    /// How long all callers together waited for the lock.
    #[serde(rename = "waited_ms", serialize_with = "serialized::millis")]
    pub waited: Duration,
    /// How much of `waited` may have been for another lock.
    #[serde(rename = "error_ms", serialize_with = "serialized::millis")]
    pub error: Duration,
    /// How many callers waited.
    pub waits: u64,
}

/// The locks that callers of one engine waited for, in this minute and in the last whole one.
#[derive(Debug, Default)]
pub(crate) struct HotLocks(Mutex<Minutes>);

#[derive(Debug, Default)]
struct Minutes {
    now: Sketch,
    last: Vec<ContendedLock>,
}

#[derive(Debug, Default)]
struct Sketch {
    locks: HashMap<Arc<str>, Weight>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Weight {
    waited: Duration,
    error: Duration,
    waits: u64,
}

impl HotLocks {
    /// A caller waited for this lock, with any outcome.
    pub(crate) fn note(&self, key: &LockKey, waited: Duration) {
        self.lock().now.add(key.name(), waited);
    }

    /// The most contended first.
    pub(crate) fn top(&self) -> Vec<ContendedLock> {
        let minutes = self.lock();
        let mut both = Sketch::default();
        minutes.last.iter().for_each(|lock| both.merge(lock));
        minutes.now.top().iter().for_each(|lock| both.merge(lock));
        drop(minutes);
        both.top()
    }

    /// At most [`HOT_LOCK_NAMES_MAX`] locks with the time that callers waited for each, the longest first. The error of
    /// the sketch is taken off, so no lock is shown with the waits of another one.
    pub(super) fn hottest(&self) -> Vec<(Arc<str>, Duration)> {
        let certain = |lock: ContendedLock| (lock.name, lock.waited.saturating_sub(lock.error));
        let mut locks: Vec<_> = self.top().into_iter().map(certain).collect();
        locks.retain(|(_, waited)| !waited.is_zero());
        locks.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        locks.truncate(HOT_LOCK_NAMES_MAX);
        locks
    }

    /// Ends the minute. Returns its locks, the most contended first.
    fn turn(&self) -> Vec<ContendedLock> {
        let mut minutes = self.lock();
        minutes.last = std::mem::take(&mut minutes.now).top();
        minutes.last.clone()
    }

    // The sketch is consistent after every statement, so a poisoned lock does no harm.
    fn lock(&self) -> MutexGuard<'_, Minutes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sketch {
    fn add(&mut self, name: &str, waited: Duration) {
        if let Some(weight) = self.locks.get_mut(name) {
            weight.add(waited, 1);
            return;
        }
        let mut weight = if self.locks.len() < PLACES { Weight::default() } else { self.evict() };
        weight.add(waited, 1);
        self.locks.insert(name.into(), weight);
    }

    fn evict(&mut self) -> Weight {
        let lightest =
            self.locks.iter().min_by_key(|(_, weight)| weight.waited).map(|(name, _)| name.clone());
        let weight = lightest.and_then(|name| self.locks.remove(&name)).unwrap_or_default();
        Weight { waited: weight.waited, error: weight.waited, waits: 0 }
    }

    fn merge(&mut self, lock: &ContendedLock) {
        let weight = self.locks.entry(lock.name.clone()).or_default();
        weight.add(lock.waited, lock.waits);
        weight.error = weight.error.saturating_add(lock.error);
    }

    fn top(&self) -> Vec<ContendedLock> {
        let of = |(name, weight): (&Arc<str>, &Weight)| {
            let Weight { waited, error, waits } = *weight;
            ContendedLock { name: name.clone(), waited, error, waits }
        };
        let mut top: Vec<_> = self.locks.iter().map(of).collect();
        top.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.name.cmp(&b.name)));
        top
    }
}

impl Weight {
    fn add(&mut self, waited: Duration, waits: u64) {
        self.waited = self.waited.saturating_add(waited);
        self.waits += waits;
    }
}

/// Names the most contended locks in the log once a minute. One task, on the calls thread.
pub(crate) async fn run(clock: Clock, hot: Arc<HotLocks>) {
    loop {
        clock.sleep_until(clock.now() + MINUTE).await;
        let top = hot.turn();
        if !top.is_empty() {
            log::line(Level::INFO, move || {
                tracing::info!(target: "leasehold::contention", locks = %Named(&top), "most contended in the last minute");
            });
        }
    }
}

struct Named<'a>(&'a [ContendedLock]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, lock) in self.0.iter().take(NAMED_MAX).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{:?} ({} waits, {:.1?} in all)", lock.name, lock.waits, lock.waited)?;
        }
        Ok(())
    }
}

/// How many locks `leasehold_hot_lock_wait_seconds` names at most, for each engine.
pub const HOT_LOCK_NAMES_MAX: usize = 10;
const PLACES: usize = 64;
const NAMED_MAX: usize = 5;
const MINUTE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Arc<LockKey> {
        LockKey::new("prefix:", name).unwrap()
    }

    #[test]
    fn a_hot_lock_stays_among_ten_thousand_others() {
        let hot = HotLocks::default();
        for number in 0..10_000 {
            hot.note(&key(&format!("cold:{number}")), Duration::from_millis(1));
            hot.note(&key("hot"), Duration::from_millis(2));
        }
        let top = hot.top();
        assert_eq!((&*top[0].name, top[0].waits, top.len()), ("hot", 10_000, PLACES));
        assert_eq!((top[0].waited, top[0].error), (Duration::from_secs(20), Duration::ZERO));
        let least = |lock: &ContendedLock| lock.waited - lock.error;
        assert!(top[1..].iter().all(|lock| least(lock) == Duration::from_millis(1)), "{top:?}");
    }

    #[test]
    fn the_hottest_are_ten_without_the_waits_of_other_locks() {
        let hot = HotLocks::default();
        for number in 0..10_000 {
            hot.note(&key(&format!("cold:{number}")), Duration::from_millis(1));
        }
        for number in 1..=9 {
            hot.note(&key(&format!("hot:{number}")), Duration::from_secs(number));
        }
        let hottest = hot.hottest();
        assert_eq!(hottest.len(), HOT_LOCK_NAMES_MAX);
        assert_eq!(hottest[0], ("hot:9".into(), Duration::from_secs(9)));
        assert_eq!(hottest[8], ("hot:1".into(), Duration::from_secs(1)));
        assert_eq!(hottest[9].1, Duration::from_millis(1), "not what it took over: {hottest:?}");
    }

    #[test]
    fn a_lock_without_a_wait_is_not_hot() {
        let hot = HotLocks::default();
        hot.note(&key("a"), Duration::ZERO);
        assert_eq!(hot.hottest(), []);
    }

    #[test]
    fn after_two_minutes_it_is_forgotten() {
        let hot = HotLocks::default();
        hot.note(&key("a"), Duration::from_secs(1));
        assert_eq!(hot.turn()[0].waited, Duration::from_secs(1));
        hot.note(&key("a"), Duration::from_secs(2));
        assert_eq!((hot.top()[0].waited, hot.top()[0].waits), (Duration::from_secs(3), 2));
        hot.turn();
        hot.turn();
        assert_eq!(hot.top(), []);
    }
}
