//! The rows of one fault.

use leasehold::margin;

use super::{size::FaultsSize, watch::Seen};
use crate::{rounds::Spread, table::Table};

/// The rows of one fault.
pub(super) struct Rows<'a> {
    pub(super) table: &'a mut Table,
    pub(super) target: &'static str,
    pub(super) what: String,
}

impl Rows<'_> {
    pub(super) fn add(&mut self, what: &str, figure: f64, unit: &'static str) {
        self.table.add(self.target, format!("{}: {what}", self.what), Spread::exactly(figure), unit);
    }

    /// There must be none.
    pub(super) fn none(&mut self, what: &str, count: usize, unit: &'static str) {
        self.add(what, count as f64, unit);
        self.table.at_most(0.0);
        assert_eq!(count, 0, "{}: {what}", self.what);
    }

    /// There must be none, if being late counts.
    pub(super) fn late(&mut self, what: &str, count: usize, unit: &'static str, size: FaultsSize) {
        match size.late_counts {
            true => self.none(what, count, unit),
            false => self.add(what, count as f64, unit),
        }
    }

    /// When losses were told: the server can give a lock away a margin after the deadline.
    pub(super) fn told(&mut self, seen: &Seen, size: FaultsSize) {
        self.add("told after the deadline by, median", seen.told_late_ms(0.5), "ms");
        self.add("told after the deadline by, 99.9 % within", seen.told_late_ms(0.999), "ms");
        self.add("told after the deadline by, the last", seen.told_late_ms(1.0), "ms");
        let after = seen.told_later_than(margin(size.ttl));
        self.late("told after the server could have given it away", after, "losses", size);
    }
}
