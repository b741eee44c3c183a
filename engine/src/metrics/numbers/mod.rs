//! The engine's own numbers: every counter and histogram of the table, in cells that many threads change without
//! meeting. Gauges are none of them: they are read from the live tables (`live.rs`).

mod cells;
mod count;
mod layout;
mod tee;

use std::sync::{Arc, OnceLock};

use super::{CLASSES_MAX, LockClass, descriptors::Descriptor};
use crate::guard;
use cells::{Cell, Cells};
use layout::CellRange;
pub(crate) use tee::Tee;

/// Hears of each value that goes into a histogram, for exporters that keep their own.
pub(crate) trait Listener: Send + Sync {
    /// `combination`: which of the values of its labels, `class` left out.
    fn heard(&self, metric: &'static Descriptor, class: Option<&LockClass>, combination: usize, value: f64);
}

/// All counters and histograms of one engine.
pub(crate) struct Numbers {
    by_class: [OnceLock<Cells<{ layout::BY_CLASS }>>; CLASSES_MAX + 1],
    of_all: Cells<{ layout::OF_ALL }>,
    listener: OnceLock<Arc<dyn Listener>>,
}

/// A histogram as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Read {
    /// In each bucket, infinity last.
    pub(crate) counts: Vec<u64>,
    pub(crate) sum: f64,
}

impl Numbers {
    pub(crate) fn new() -> Self {
        Self {
            by_class: [const { OnceLock::new() }; CLASSES_MAX + 1],
            of_all: Cells::new(),
            listener: OnceLock::new(),
        }
    }

    /// `false`: there is one already.
    #[cfg_attr(not(feature = "opentelemetry"), allow(dead_code))]
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) -> bool {
        self.listener.set(listener).is_ok()
    }

    #[inline(always)]
    fn cells(&self, class: &LockClass) -> &Cells<{ layout::BY_CLASS }> {
        let cells = &self.by_class[class.index()];
        match cells.get() {
            Some(cells) => cells,
            None => cells.get_or_init(Cells::new),
        }
    }

    fn sum(&self, class: Option<&LockClass>, cell: usize) -> u64 {
        class.map_or_else(|| self.of_all.sum(cell), |class| self.cells(class).sum(cell))
    }

    /// Where an event of this class counts.
    #[inline(always)]
    fn of<'a>(&'a self, class: &'a LockClass) -> ClassCells<'a, { layout::BY_CLASS }> {
        ClassCells { cells: self.cells(class).shard(), class: Some(class), numbers: self }
    }

    /// Where an event without class counts.
    #[inline(always)]
    fn of_all(&self) -> ClassCells<'_, { layout::OF_ALL }> {
        ClassCells { cells: self.of_all.shard(), class: None, numbers: self }
    }

    #[cold]
    fn tell(&self, place: &'static CellRange, class: Option<&LockClass>, combination: usize, value: u64) {
        if let Some(listener) = self.listener.get() {
            // The meter of an exporter is user code too.
            let _ = guard::call(|| listener.heard(place.metric, class, combination, place.unscaled(value)));
        }
    }

    /// The value of a counter.
    pub(crate) fn count(&self, metric: &Descriptor, class: Option<&LockClass>, combination: usize) -> u64 {
        let place = layout::find(metric);
        self.sum(class, place.first + combination)
    }

    /// A histogram.
    pub(crate) fn read(&self, metric: &Descriptor, class: Option<&LockClass>, combination: usize) -> Read {
        let place = layout::find(metric);
        let first = place.first + combination * place.step;
        let counts = (0..place.buckets).map(|bucket| self.sum(class, first + bucket)).collect();
        Read { counts, sum: place.unscaled(self.sum(class, first + place.buckets)) }
    }
}

/// The cells of one class, or of what has none, in the copy of this thread.
struct ClassCells<'a, const WIDTH: usize> {
    cells: &'a [Cell; WIDTH],
    class: Option<&'a LockClass>,
    numbers: &'a Numbers,
}

impl<const WIDTH: usize> ClassCells<'_, WIDTH> {
    #[inline(always)]
    fn add(&self, place: &'static CellRange, combination: usize, by: u64) {
        self.cells[place.first + combination].add(by);
    }

    /// Puts a value into a histogram; in the histogram's own scale.
    #[inline(always)]
    fn put(&self, place: &'static CellRange, combination: usize, value: u64) {
        let first = place.first + combination * place.step;
        self.cells[first + place.bucket(value)].add(1);
        self.cells[first + place.buckets].add(value);
        if self.numbers.listener.get().is_some() {
            self.numbers.tell(place, self.class, combination, value);
        }
    }
}
