use std::{fmt, ops::BitOr};

use super::HoldKind;

/// The kinds of locks and counters that a transport can keep. The engine refuses any other kind at the call.
///
/// # Examples
/// ```
/// use leasehold::transport::Kinds;
///
/// let kinds = Kinds::EXCLUSIVE | Kinds::SEMAPHORE;
/// assert!(kinds.contains(Kinds::SEMAPHORE) && !kinds.contains(Kinds::LATCH));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kinds(u8);

impl Kinds {
    /// No kind at all.
    pub const NONE: Self = Self(0);
    /// Locks with one holder. Spin locks need nothing else.
    pub const EXCLUSIVE: Self = Self(1);
    /// Locks with one holder and a token counter.
    pub const FENCED: Self = Self(1 << 1);
    /// Locks that are granted in the order of arrival.
    pub const FAIR: Self = Self(1 << 2);
    /// Locks with many readers or one writer.
    pub const READ_WRITE: Self = Self(1 << 3);
    /// Semaphores whose permits have owners and expire.
    pub const PERMITS: Self = Self(1 << 4);
    /// Semaphores: a shared number of permits without owners.
    pub const SEMAPHORE: Self = Self(1 << 5);
    /// Latches: a number that is counted down to zero.
    pub const LATCH: Self = Self(1 << 6);

    /// Whether all of `kinds` are among these.
    pub const fn contains(self, kinds: Self) -> bool {
        self.0 & kinds.0 == kinds.0
    }

    /// These kinds and `others`.
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().filter(move |(kind, _)| self.contains(*kind)).map(|(_, name)| name)
    }
}

impl HoldKind {
    /// The kind that a transport must have to keep such a hold.
    pub const fn needs(self) -> Kinds {
        match self {
            HoldKind::Exclusive | HoldKind::Spin => Kinds::EXCLUSIVE,
            HoldKind::Fenced(_) => Kinds::FENCED,
            HoldKind::Read | HoldKind::Write => Kinds::READ_WRITE,
            HoldKind::Fair => Kinds::FAIR,
            HoldKind::Permits(_) => Kinds::PERMITS,
        }
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        self.with(others)
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().collect();
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kinds({self})")
    }
}

const NAMES: [(Kinds, &str); 7] = [
    (Kinds::EXCLUSIVE, "exclusive"),
    (Kinds::FENCED, "fenced"),
    (Kinds::FAIR, "fair"),
    (Kinds::READ_WRITE, "read_write"),
    (Kinds::PERMITS, "permits"),
    (Kinds::SEMAPHORE, "semaphore"),
    (Kinds::LATCH, "latch"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_kinds_names_what_it_contains() {
        assert_eq!((Kinds::NONE | Kinds::EXCLUSIVE).to_string(), "exclusive");
        assert_eq!(Kinds::NONE.to_string(), "none");
        assert!(!Kinds::NONE.contains(HoldKind::Exclusive.needs()));
        assert!(Kinds::EXCLUSIVE.contains(HoldKind::Exclusive.needs()));
        assert!(Kinds::EXCLUSIVE.contains(HoldKind::Spin.needs()));
        let fenced = HoldKind::Fenced(Default::default()).needs();
        assert!(!Kinds::EXCLUSIVE.contains(fenced) && (Kinds::EXCLUSIVE | Kinds::FENCED).contains(fenced));
        assert_eq!((Kinds::EXCLUSIVE | Kinds::FENCED).to_string(), "exclusive, fenced");
    }
}
