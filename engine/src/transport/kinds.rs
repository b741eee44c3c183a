//! The kinds of primitives that a transport can keep. Pure.

use std::ops::BitOr;

/// A set of the primitives that a transport can keep. A spin lock, a multi lock and a quorum need only
/// [`EXCLUSIVE`](Self::EXCLUSIVE).
///
/// # Examples
/// ```
/// use leasehold::transport::Kinds;
///
/// let kinds = Kinds::EXCLUSIVE | Kinds::SEMAPHORE;
/// assert!(kinds.contains(Kinds::SEMAPHORE) && !kinds.contains(Kinds::LATCH));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u32);

impl Kinds {
    /// No primitive.
    pub const NONE: Self = Self(0);
    /// Locks with at most one owner.
    pub const EXCLUSIVE: Self = Self(1);
    /// Exclusive locks whose fencing tokens come from a counter.
    pub const FENCED: Self = Self(1 << 1);
    /// Exclusive locks with a queue on the server.
    pub const FAIR: Self = Self(1 << 2);
    /// Locks with many readers or one writer.
    pub const READ_WRITE: Self = Self(1 << 3);
    /// Semaphores whose permits expire.
    pub const PERMITS: Self = Self(1 << 4);
    /// Semaphores: a shared number of permits without owners.
    pub const SEMAPHORE: Self = Self(1 << 5);
    /// Latches: a number that is counted down to zero.
    pub const LATCH: Self = Self(1 << 6);

    /// Both sets together.
    pub const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Whether every kind of `kinds` is in this set.
    pub const fn contains(self, kinds: Self) -> bool {
        self.0 & kinds.0 == kinds.0
    }
}

impl BitOr for Kinds {
    type Output = Self;
    fn bitor(self, more: Self) -> Self {
        self.and(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_what_was_put_in_and_nothing_else() {
        let kinds = Kinds::EXCLUSIVE | Kinds::LATCH;
        assert!(kinds.contains(Kinds::LATCH) && kinds.contains(Kinds::EXCLUSIVE) && kinds.contains(kinds));
        assert!(!kinds.contains(Kinds::SEMAPHORE) && !kinds.contains(Kinds::LATCH | Kinds::FAIR));
        assert!(kinds.contains(Kinds::NONE) && !Kinds::NONE.contains(Kinds::EXCLUSIVE));
    }
}
