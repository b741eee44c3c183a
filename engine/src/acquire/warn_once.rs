//! The locks whose hold without expiry was logged. Each such hold is logged once, however many callers come and go
//! meanwhile.

use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// The names of such locks. They are kept here, because the entry of a key is removed with its last caller.
#[derive(Debug, Default)]
pub(crate) struct WarnedNoExpiry {
    names: Mutex<HashSet<Box<str>>>,
    any: AtomicBool,
}

impl WarnedNoExpiry {
    /// Adds a lock that is held without expiry. Returns whether its hold was not logged yet.
    pub(crate) fn is_news(&self, name: &str) -> bool {
        let mut names = self.lock();
        if names.len() == NAMES_MAX {
            names.clear();
        }
        self.any.store(true, Ordering::Relaxed);
        names.insert(name.into())
    }

    /// The lock was granted, so the hold without expiry has ended. Another such hold is logged again.
    pub(crate) fn handle_granted(&self, name: &str) {
        if self.any.load(Ordering::Relaxed) {
            let mut names = self.lock();
            names.remove(name);
            self.any.store(!names.is_empty(), Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The maximum number of names. At this number the set is cleared, so some holds are logged twice and none is missed.
const NAMES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s9_each_is_told_once_until_the_lock_is_granted() {
        let told = WarnedNoExpiry::default();
        assert!(told.is_news("a") && told.is_news("b") && !told.is_news("a"));
        told.handle_granted("a");
        told.handle_granted("never seen");
        assert!(told.is_news("a") && !told.is_news("b"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let told = WarnedNoExpiry::default();
        for n in 0..=NAMES_MAX {
            assert!(told.is_news(&n.to_string()));
        }
        assert_eq!(told.lock().len(), 1);
    }
}
