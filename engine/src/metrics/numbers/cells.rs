//! Cells that many threads count in: each thread has a copy of its own, up to `COPIES` threads.

use std::{
    cell::Cell as ThreadCell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// One number of one copy.
#[derive(Debug, Default)]
pub(super) struct Cell(AtomicU64);

/// `WIDTH` numbers, in all copies. `WIDTH` is known at compile time, so that no index is checked.
#[derive(Debug)]
pub(super) struct Cells<const WIDTH: usize>(Box<[Copy<WIDTH>; COPIES]>);

/// One thread's numbers. Aligned to 128 bytes, because processors fetch two cache lines of 64 bytes at a time.
#[derive(Debug)]
#[repr(align(128))]
struct Copy<const WIDTH: usize>([Cell; WIDTH]);

impl Cell {
    #[inline(always)]
    pub(super) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed); // a sum of nanoseconds wraps after 584 years of holding
    }
}

impl<const WIDTH: usize> Cells<WIDTH> {
    pub(super) fn new() -> Self {
        let copies: Vec<_> = (0..COPIES).map(|_| Copy(std::array::from_fn(|_| Cell::default()))).collect();
        Self(copies.try_into().expect("COPIES copies were made"))
    }

    /// The copy of this thread.
    #[inline(always)]
    pub(super) fn shard(&self) -> &[Cell; WIDTH] {
        &self.0[copy() % COPIES].0
    }

    pub(super) fn sum(&self, number: usize) -> u64 {
        let copies = self.0.iter().map(|copy| copy.0[number].0.load(Ordering::Relaxed));
        copies.fold(0, u64::wrapping_add)
    }
}

static NEXT: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    // Initialised at compile time, so that a read needs no check.
    static COPY: ThreadCell<usize> = const { ThreadCell::new(usize::MAX) };
}

#[inline(always)]
fn copy() -> usize {
    let copy = COPY.get();
    if copy == usize::MAX { take_copy() } else { copy }
}

#[cold]
fn take_copy() -> usize {
    let copy = NEXT.fetch_add(1, Ordering::Relaxed) % COPIES;
    COPY.set(copy);
    copy
}

/// The number of copies. Further threads share copies; an event of two threads on one copy costs ten times as much, and
/// still under 100 ns.
const COPIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_adds_up() {
        let cells = Cells::<3>::new();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1_000).for_each(|_| cells.shard()[2].add(2)));
            }
        });
        assert_eq!([0, 1, 2].map(|number| cells.sum(number)), [0, 0, 40_000]);
    }
}
