//! Cells that many threads count in: each thread in a copy of its own, as far as there are enough.

use std::{
    cell::Cell as ThreadCell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// One number in one copy.
#[derive(Debug, Default)]
pub(super) struct Cell(AtomicU64);

/// So many numbers, in all copies.
#[derive(Debug)]
pub(super) struct Cells {
    cells: Box<[Cell]>,
    step: usize,
}

impl Cell {
    pub(super) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed); // wraps, as sums of nanoseconds do after 584 years of holding
    }
}

impl Cells {
    pub(super) fn new(width: usize) -> Self {
        let step = width.next_multiple_of(CELLS_A_LINE) + CELLS_A_LINE;
        Self { cells: (0..step * COPIES).map(|_| Cell::default()).collect(), step }
    }

    /// The copy of this thread.
    #[inline]
    pub(super) fn shard(&self) -> &[Cell] {
        let first = copy() * self.step;
        &self.cells[first..first + self.step]
    }

    pub(super) fn sum(&self, number: usize) -> u64 {
        let copies = (0..COPIES).map(|copy| self.cells[copy * self.step + number].0.load(Ordering::Relaxed));
        copies.fold(0, u64::wrapping_add)
    }
}

static NEXT: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    // Known at compile time, so that reading it asks for nothing.
    static COPY: ThreadCell<usize> = const { ThreadCell::new(usize::MAX) };
}

#[inline]
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
/// Two lines of 64 bytes: processors fetch them in pairs.
const CELLS_A_LINE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_adds_up() {
        let cells = Cells::new(3);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..1_000).for_each(|_| cells.shard()[2].add(2)));
            }
        });
        assert_eq!([0, 1, 2].map(|number| cells.sum(number)), [0, 0, 40_000]);
    }
}
