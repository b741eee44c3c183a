//! Counts the outcomes of the members of answered batches. Pure.

use crate::{
    metrics::{LabelSet, RenewalOutcome},
    transport::TransportError,
};

/// The outcomes of the members of one answered batch.
#[derive(Debug, Default)]
pub(crate) struct BatchOutcomes {
    pub(crate) renewed: u64,
    pub(crate) not_yours: u64,
    pub(crate) too_late: u64,
    pub(crate) failed: u64,
    /// The same outcomes by labels. Consecutive equal outcomes with the same labels share one item.
    pub(crate) outcomes: Vec<(LabelSet, RenewalOutcome, u64)>,
    /// For each confirmed renewal: the share of the lease's ttl that was left.
    pub(crate) margins: Vec<(LabelSet, f64)>,
    /// The first error of a member that was not answered.
    pub(crate) last_error: Option<TransportError>,
    labels: LabelSet,
}

impl BatchOutcomes {
    /// Clears every count and keeps the allocated memory.
    pub(crate) fn clear(&mut self) {
        let Self { mut outcomes, mut margins, .. } = std::mem::take(self);
        outcomes.clear();
        margins.clear();
        *self = Self { outcomes, margins, ..Self::default() };
    }

    /// The number of members that were answered.
    pub(crate) fn answered(&self) -> u64 {
        self.renewed + self.not_yours + self.too_late
    }

    /// Sets the labels of the following counts. `None` means that the lease of the member has ended; it counts under
    /// the default labels.
    pub(crate) fn turn_to(&mut self, labels: Option<LabelSet>) {
        self.labels = labels.unwrap_or_default();
    }

    pub(crate) fn count_renewed(&mut self) {
        self.renewed += 1;
        self.count(RenewalOutcome::Renewed);
    }

    pub(crate) fn count_not_ours(&mut self) {
        self.not_yours += 1;
        self.count(RenewalOutcome::NotOurs);
    }

    pub(crate) fn count_too_late(&mut self) {
        self.too_late += 1;
        self.count(RenewalOutcome::TooLate);
    }

    pub(crate) fn count_failed(&mut self, last_error: &TransportError) {
        self.failed += 1;
        self.count(RenewalOutcome::Failed(last_error.kind));
        self.last_error.get_or_insert_with(|| last_error.clone());
    }

    pub(crate) fn note_margin(&mut self, share: f64) {
        self.margins.push((self.labels, share));
    }

    fn count(&mut self, outcome: RenewalOutcome) {
        match self.outcomes.last_mut() {
            Some((labels, last, count)) if (*labels, *last) == (self.labels, outcome) => *count += 1,
            _ => self.outcomes.push((self.labels, outcome, 1)),
        }
    }
}
