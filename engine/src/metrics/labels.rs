//! The labels of a lock's metrics: its class and its kind. Pure.

use super::{CLASSES_MAX, ClassId, Classes, LockClass, label_names::label_names};
use crate::transport::HoldKind;

/// The kind of a lock: the label `kind` of every metric that belongs to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// At most one owner holds the lock.
    Exclusive,
    /// An exclusive lock with a token from a counter of its own.
    Fenced,
    /// An exclusive lock whose callers poll.
    Spin,
    /// The read side of a read/write lock.
    Read,
    /// The write side of a read/write lock.
    Write,
    /// A lock that is granted in the order of arrival.
    Fair,
    /// Permits of a semaphore whose permits expire.
    Permits,
}

/// The class and the kind of one lock, as an event tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockLabels<'a> {
    /// The class of the lock: given by the caller, or by a prefix rule.
    pub class: &'a LockClass,
    /// The kind of the lock.
    pub kind: LockKind,
}

/// The class and the kind of one lock, as terms and leases keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LabelSet {
    pub(crate) class: ClassId,
    pub(crate) kind: LockKind,
}

impl LockKind {
    /// All kinds, in the order of the label's values.
    pub const ALL: &[Self] =
        &[Self::Exclusive, Self::Fenced, Self::Spin, Self::Read, Self::Write, Self::Fair, Self::Permits];

    pub(super) const NAMES: [&'static str; Self::ALL.len()] = label_names!(Self::ALL);

    /// The value of the label `kind`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Fenced => "fenced",
            Self::Spin => "spin",
            Self::Read => "read",
            Self::Write => "write",
            Self::Fair => "fair",
            Self::Permits => "permits",
        }
    }
}

impl LabelSet {
    /// How many combinations of class and kind one engine can have, class `_other` included.
    pub(super) const COUNT: usize = (CLASSES_MAX + 1) * LockKind::ALL.len();

    /// The labels of an exclusive lock without a class of its own.
    pub(crate) const DEFAULT: Self = Self::exclusive(ClassId::DEFAULT);

    /// The labels of an exclusive lock of this class.
    pub(crate) const fn exclusive(class: ClassId) -> Self {
        Self::of(HoldKind::Exclusive, class)
    }

    /// The labels of a lock of this class that is held in this way.
    pub(crate) const fn of(kind: HoldKind, class: ClassId) -> Self {
        let kind = match kind {
            HoldKind::Exclusive => LockKind::Exclusive,
            HoldKind::Fenced(_) => LockKind::Fenced,
            HoldKind::Spin => LockKind::Spin,
            HoldKind::Read => LockKind::Read,
            HoldKind::Write => LockKind::Write,
            HoldKind::Fair => LockKind::Fair,
            HoldKind::Permits(_) => LockKind::Permits,
        };
        Self { class, kind }
    }

    /// The number of this combination, below [`COUNT`](Self::COUNT).
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.class.index() * LockKind::ALL.len() + self.kind as usize
    }

    /// The combination with this number.
    pub(crate) fn of_index(index: usize) -> Self {
        let kinds = LockKind::ALL;
        let kind = kinds.get(index % kinds.len()).copied().unwrap_or(LockKind::Exclusive);
        Self { class: ClassId::of_index(index / kinds.len()), kind }
    }
}

/// A lease keeps the number in nine bits.
const _: () = assert!(LabelSet::COUNT <= 1 << 9);

impl Default for LabelSet {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl LockLabels<'_> {
    #[inline(always)]
    pub(super) fn set(self) -> LabelSet {
        LabelSet { class: self.class.id(), kind: self.kind }
    }
}

impl Classes {
    /// The classes and kinds that events name.
    pub(crate) fn labels(&self, labels: LabelSet) -> LockLabels<'_> {
        LockLabels { class: self.class(labels.class), kind: labels.kind }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_combination_has_a_number_of_its_own() {
        let class = |number| ClassId::of_index(number);
        let sets = (0..=CLASSES_MAX).flat_map(|number| {
            LockKind::ALL.iter().map(move |kind| LabelSet { class: class(number), kind: *kind }.index())
        });
        assert_eq!(sets.collect::<BTreeSet<_>>(), (0..LabelSet::COUNT).collect());
        assert!((0..LabelSet::COUNT).all(|number| LabelSet::of_index(number).index() == number));
    }

    #[test]
    fn names_are_in_the_order_of_the_kinds() {
        let names: Vec<_> = LockKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(LockKind::NAMES.to_vec(), names);
        LockKind::ALL.iter().enumerate().for_each(|(number, kind)| assert_eq!(*kind as usize, number));
    }
}
