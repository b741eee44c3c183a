//! The kind of a hold in one byte: a lease is kept in memory by the hundred thousand. Pure.

use std::num::NonZeroU16;

use crate::{fencing::FencingMode, transport::HoldKind};

/// A [`HoldKind`] without the number of permits, which the rarely needed part of a lease keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredKind {
    Exclusive,
    Spin,
    FencedByCounter,
    FencedHybrid,
    Read,
    Write,
    Fair,
    Permits,
}

impl From<HoldKind> for StoredKind {
    fn from(kind: HoldKind) -> Self {
        match kind {
            HoldKind::Exclusive => Self::Exclusive,
            HoldKind::Spin => Self::Spin,
            HoldKind::Fenced(FencingMode::Counter) => Self::FencedByCounter,
            HoldKind::Fenced(FencingMode::Hybrid) => Self::FencedHybrid,
            HoldKind::Read => Self::Read,
            HoldKind::Write => Self::Write,
            HoldKind::Fair => Self::Fair,
            HoldKind::Permits(_) => Self::Permits,
        }
    }
}

impl StoredKind {
    /// The kind of the hold. `permits`: their number, which only a hold of permits has.
    pub(super) fn with(self, permits: Option<NonZeroU16>) -> HoldKind {
        match self {
            Self::Exclusive => HoldKind::Exclusive,
            Self::Spin => HoldKind::Spin,
            Self::FencedByCounter => HoldKind::Fenced(FencingMode::Counter),
            Self::FencedHybrid => HoldKind::Fenced(FencingMode::Hybrid),
            Self::Read => HoldKind::Read,
            Self::Write => HoldKind::Write,
            Self::Fair => HoldKind::Fair,
            Self::Permits => HoldKind::Permits(permits.unwrap_or(NonZeroU16::MIN)),
        }
    }
}

/// The number of permits of a hold that has any.
pub(super) fn permits_of(kind: HoldKind) -> Option<NonZeroU16> {
    match kind {
        HoldKind::Permits(permits) => Some(permits),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_kind_is_read_as_it_was() {
        let permits = NonZeroU16::new(300).unwrap();
        let kinds = [
            HoldKind::Exclusive,
            HoldKind::Spin,
            HoldKind::Fenced(FencingMode::Counter),
            HoldKind::Fenced(FencingMode::Hybrid),
            HoldKind::Read,
            HoldKind::Write,
            HoldKind::Fair,
            HoldKind::Permits(permits),
        ];
        kinds.iter().for_each(|kind| assert_eq!(StoredKind::from(*kind).with(permits_of(*kind)), *kind));
    }
}
