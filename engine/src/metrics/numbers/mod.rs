//! The engine's own numbers: every counter and histogram of the table, in cells that many threads change without
//! meeting. Gauges are none of them: they are read from the live tables (`live.rs`).

mod cells;
mod count;
mod place;
mod with_user;

use std::sync::{Arc, OnceLock};

use super::{CLASSES_MAX, LockClass, descriptors::Descriptor};
use cells::Cells;
use place::Place;
pub(crate) use with_user::WithUser;

/// Hears of each value that goes into a histogram, for exporters that keep their own.
pub(crate) trait Listener: Send + Sync {
    /// `combination`: which of the values of its labels, `class` left out.
    fn heard(&self, metric: &'static Descriptor, class: Option<&LockClass>, combination: usize, value: f64);
}

/// All counters and histograms of one engine.
pub(crate) struct Numbers {
    by_class: [OnceLock<Cells>; CLASSES_MAX + 1],
    of_all: Cells,
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
            of_all: Cells::new(place::OF_ALL),
            listener: OnceLock::new(),
        }
    }

    /// `false`: there is one already.
    #[cfg_attr(not(feature = "opentelemetry"), allow(dead_code))]
    pub(crate) fn listen(&self, listener: Arc<dyn Listener>) -> bool {
        self.listener.set(listener).is_ok()
    }

    fn cells(&self, class: Option<&LockClass>) -> &Cells {
        match class {
            Some(class) => {
                let cells = &self.by_class[class.index()];
                cells.get_or_init(|| Cells::new(place::BY_CLASS))
            }
            None => &self.of_all,
        }
    }

    fn add(&self, place: &'static Place, class: Option<&LockClass>, combination: usize, by: u64) {
        self.cells(class).shard()[place.first + combination].add(by);
    }

    /// Puts a value into a histogram; in the histogram's own scale.
    fn put(&self, place: &'static Place, class: Option<&LockClass>, combination: usize, value: u64) {
        let cells = &self.cells(class).shard()[place.first + combination * place.step..];
        cells[place.bucket(value)].add(1);
        cells[place.buckets].add(value);
        if let Some(listener) = self.listener.get() {
            listener.heard(place.metric, class, combination, place.unscaled(value));
        }
    }

    /// The value of a counter.
    pub(crate) fn count(&self, metric: &Descriptor, class: Option<&LockClass>, combination: usize) -> u64 {
        let place = place::find(metric);
        self.cells(class).sum(place.first + combination)
    }

    /// A histogram.
    pub(crate) fn read(&self, metric: &Descriptor, class: Option<&LockClass>, combination: usize) -> Read {
        let place = place::find(metric);
        let (cells, first) = (self.cells(class), place.first + combination * place.step);
        let counts = (0..place.buckets).map(|bucket| cells.sum(first + bucket)).collect();
        Read { counts, sum: place.unscaled(cells.sum(first + place.buckets)) }
    }
}
