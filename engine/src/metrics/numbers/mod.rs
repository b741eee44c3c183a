//! The engine's own numbers: every counter and histogram of the table, in cells that many threads change without
//! contention. Gauges are read from the live tables instead (`live.rs`).

mod cells;
mod count;
mod layout;

use std::sync::{Arc, OnceLock};

use super::{LabelSet, LockLabels, descriptors::Descriptor};
use crate::guard;
use cells::{Cell, Cells};
use layout::CellRange;

/// Receives each value that a histogram counts, for exporters that keep histograms of their own.
pub(crate) trait Listener: Send + Sync {
    /// `combination`: the values of the metric's labels, `class` and `kind` left out.
    fn heard(
        &self,
        metric: &'static Descriptor,
        lock: Option<LockLabels<'_>>,
        combination: usize,
        value: f64,
    );
}

/// All counters and histograms of one engine.
pub(crate) struct Numbers {
    /// The cells of each class and kind, made at its first event.
    of_locks: [OnceLock<Cells<{ layout::OF_LOCK }>>; LabelSet::COUNT],
    of_engine: Cells<{ layout::OF_ENGINE }>,
    listener: OnceLock<Arc<dyn Listener>>,
}

/// The values of a histogram at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Read {
    /// The count of each bucket, the one of infinity last.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: f64,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            of_locks: [const { OnceLock::new() }; LabelSet::COUNT],
            of_engine: Cells::new(),
            listener: OnceLock::new(),
        }
    }

    /// `false`: there is a listener already.
    #[cfg_attr(not(feature = "opentelemetry"), allow(dead_code))]
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) -> bool {
        self.listener.set(listener).is_ok()
    }

    #[inline(always)]
    fn cells(&self, lock: LockLabels<'_>) -> &Cells<{ layout::OF_LOCK }> {
        let cells = &self.of_locks[lock.set().index()];
        match cells.get() {
            Some(cells) => cells,
            None => cells.get_or_init(Cells::new),
        }
    }

    /// Whether an event of this class and kind was counted.
    pub(crate) fn has(&self, lock: LockLabels<'_>) -> bool {
        self.of_locks[lock.set().index()].get().is_some()
    }

    // Reading makes no cells.
    fn sum(&self, lock: Option<LockLabels<'_>>, cell: usize) -> u64 {
        match lock {
            None => self.of_engine.sum(cell),
            Some(lock) => self.of_locks[lock.set().index()].get().map_or(0, |cells| cells.sum(cell)),
        }
    }

    /// The cells for an event of a lock.
    #[inline(always)]
    fn of_lock<'a>(&'a self, lock: LockLabels<'a>) -> EventCells<'a, { layout::OF_LOCK }> {
        EventCells { cells: self.cells(lock).shard(), lock: Some(lock), numbers: self }
    }

    /// The cells for an event that belongs to no single lock.
    #[inline(always)]
    fn of_engine(&self) -> EventCells<'_, { layout::OF_ENGINE }> {
        EventCells { cells: self.of_engine.shard(), lock: None, numbers: self }
    }

    #[cold]
    fn tell(&self, place: &'static CellRange, lock: Option<LockLabels<'_>>, combination: usize, value: u64) {
        if let Some(listener) = self.listener.get() {
            // The meter of an exporter is user code too.
            let _ = guard::call(|| listener.heard(place.metric, lock, combination, place.unscaled(value)));
        }
    }

    /// The value of a counter.
    pub(crate) fn count(&self, metric: &Descriptor, lock: Option<LockLabels<'_>>, combination: usize) -> u64 {
        let place = layout::find(metric);
        self.sum(lock, place.first + combination)
    }

    /// The values of a histogram.
    pub(crate) fn read(&self, metric: &Descriptor, lock: Option<LockLabels<'_>>, combination: usize) -> Read {
        let place = layout::find(metric);
        let first = place.first + combination * place.step;
        let counts = (0..place.buckets).map(|bucket| self.sum(lock, first + bucket)).collect();
        Read { counts, sum: place.unscaled(self.sum(lock, first + place.buckets)) }
    }
}

/// The cells that one event counts in, in the copy of this thread.
struct EventCells<'a, const WIDTH: usize> {
    cells: &'a [Cell; WIDTH],
    lock: Option<LockLabels<'a>>,
    numbers: &'a Numbers,
}

impl<const WIDTH: usize> EventCells<'_, WIDTH> {
    #[inline(always)]
    fn add(&self, place: &'static CellRange, combination: usize, by: u64) {
        self.cells[place.first + combination].add(by);
    }

    /// Counts a value in a histogram. The value is in the histogram's own scale.
    #[inline(always)]
    fn put(&self, place: &'static CellRange, combination: usize, value: u64) {
        let first = place.first + combination * place.step;
        self.cells[first + place.bucket(value)].add(1);
        self.cells[first + place.buckets].add(value);
        if self.numbers.listener.get().is_some() {
            self.numbers.tell(place, self.lock, combination, value);
        }
    }
}
