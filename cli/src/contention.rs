//! Which of many locks are contended most. Pure.

/// What is known of the waiters of one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiters {
    /// Connections that listen to the lock's channel: one for each process that waits.
    pub(crate) listeners: u64,
    /// Callers in the line of a fair lock.
    pub(crate) in_line: u64,
}

impl Waiters {
    fn is_none(self) -> bool {
        self == Self::default()
    }

    /// A process in the line of a fair lock may listen as well, so the numbers are not added.
    fn most(self) -> u64 {
        self.listeners.max(self.in_line)
    }
}

/// The locks with the most waiters, and how many locks there were.
pub(crate) struct Contention<L> {
    limit: usize,
    held: u64,
    contended: u64,
    most: Vec<(Waiters, L)>,
}

impl<L> Contention<L> {
    /// Keeps `limit` locks.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, held: 0, contended: 0, most: Vec::new() }
    }

    /// Adds locks. Those without waiters are counted only.
    pub(crate) fn add(&mut self, locks: impl IntoIterator<Item = (Waiters, L)>) {
        for (waiters, lock) in locks {
            self.held += 1;
            if !waiters.is_none() {
                self.contended += 1;
                self.most.push((waiters, lock));
            }
        }
        self.most.sort_by_key(|(waiters, _)| std::cmp::Reverse(waiters.most()));
        self.most.truncate(self.limit);
    }

    /// The locks that were added.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// The locks with waiters among them.
    pub(crate) fn contended(&self) -> u64 {
        self.contended
    }

    /// The locks with the most waiters, the most first.
    pub(crate) fn most(&self) -> &[(Waiters, L)] {
        &self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str, listeners: u64, in_line: u64) -> (Waiters, &str) {
        (Waiters { listeners, in_line }, name)
    }

    #[test]
    fn the_most_waited_for_come_first_and_the_rest_is_counted() {
        let mut contention = Contention::new(3);
        contention.add([lock("idle", 0, 0), lock("one", 1, 0), lock("fair", 2, 40)]);
        contention.add([lock("three", 3, 0), lock("two", 2, 0)]);
        let names: Vec<_> = contention.most().iter().map(|(_, name)| *name).collect();
        assert_eq!(names, ["fair", "three", "two"]);
        assert_eq!((contention.held(), contention.contended()), (5, 4));
    }
}
