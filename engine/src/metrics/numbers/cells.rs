//! Cells that many threads count in: each thread in a copy of its own, as far as there are enough.

use std::{
    cell::Cell as ThreadCell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// One number in one copy.
#[derive(Debug, Default)]
pub(super) struct Cell(AtomicU64);

/// So many numbers, in all copies. The count is known at compile time, so that no index need be checked.
#[derive(Debug)]
pub(super) struct Cells<const WIDTH: usize>(Box<[Copy<WIDTH>; COPIES]>);

/// On lines of its own: processors fetch two of 64 bytes at a time.
#[derive(Debug)]
#[repr(align(128))]
struct Copy<const WIDTH: usize>([Cell; WIDTH]);

impl Cell {
    #[inline(always)]
    pub(super) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed); // wraps, as sums of nanoseconds do after 584 years of holding
    }
}

impl<const WIDTH: usize> Cells<WIDTH> {
    pub(super) fn new() -> Self {
        let copies: Vec<_> = (0..COPIES).map(|_| Copy(std::array::from_fn(|_| Cell::default()))).collect();
        Self(copies.try_into().expect("there are COPIES of them"))
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
    // Known at compile time, so that reading it asks for nothing.
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

/// More threads than that share copies; two threads on one cost ten times as much, and still under 100 ns.
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
