//! The waits of many processes, added up by the name of the lock. Pure.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use super::Address;

/// What processes have told.
#[derive(Default)]
pub(crate) struct Hottest {
    read: usize,
    locks: BTreeMap<String, Waited>,
    not_read: Vec<(Address, String)>,
}

/// The waits for one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    /// How long the callers of all processes waited together.
    pub(crate) time: Duration,
    /// In how many processes callers waited.
    pub(crate) processes: usize,
}

impl Hottest {
    /// Adds the locks of one process. Several engines of it may name the same lock.
    pub(super) fn add(&mut self, locks: impl IntoIterator<Item = (String, Duration)>) {
        let mut of_process = BTreeMap::<String, Duration>::new();
        for (name, time) in locks {
            let sum = of_process.entry(name).or_default();
            *sum = sum.saturating_add(time);
        }
        for (name, time) in of_process {
            let waited = self.locks.entry(name).or_default();
            (waited.time, waited.processes) = (waited.time.saturating_add(time), waited.processes + 1);
        }
        self.read += 1;
    }

    /// A process could not be read.
    pub(super) fn fail(&mut self, address: &Address, error: String) {
        self.not_read.push((address.clone(), error));
    }

    /// How many processes were read.
    pub(crate) fn read(&self) -> usize {
        self.read
    }

    /// How many locks they named.
    pub(crate) fn named(&self) -> usize {
        self.locks.len()
    }

    /// The processes that could not be read, and why.
    pub(crate) fn not_read(&self) -> &[(Address, String)] {
        &self.not_read
    }

    /// The locks with the longest waits, the longest first.
    pub(crate) fn most(&self, limit: usize) -> Vec<(&str, Waited)> {
        let mut most: Vec<_> = self.locks.iter().map(|(name, waited)| (&**name, *waited)).collect();
        most.sort_by_key(|(_, waited)| Reverse(waited.time));
        most.truncate(limit);
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(locks: &[(&str, u64)]) -> Vec<(String, Duration)> {
        locks.iter().map(|(name, seconds)| ((*name).to_owned(), Duration::from_secs(*seconds))).collect()
    }

    #[test]
    fn the_waits_of_all_processes_are_added_by_name() {
        let mut hottest = Hottest::default();
        hottest.add(locks(&[("a", 3), ("b", 4)]));
        hottest.add(locks(&[("a", 1), ("a", 2), ("c", 1)]));
        let waited = |seconds, processes| Waited { time: Duration::from_secs(seconds), processes };
        assert_eq!(hottest.most(2), [("a", waited(6, 2)), ("b", waited(4, 1))]);
        assert_eq!((hottest.read(), hottest.named()), (2, 3));
    }
}
