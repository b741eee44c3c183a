//! An owner that holds nothing any more as far as this engine is concerned, and that no server has confirmed as gone.
//! Pure.

use super::unanswered::UnansweredSends;
use crate::{clock::Instant, owner::Owner, transport::HoldKind};

/// An owner that no lease uses any more, but one of whose sends may still be executed, or whose release has not been
/// answered.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct UnconfirmedOwner {
    pub(crate) owner: Owner,
    pub(crate) kind: HoldKind,
    pub(crate) open: UnansweredSends,
    /// Whether the server may have a hold of this owner. Then a release must be answered before the owner is closed.
    pub(crate) may_hold: bool,
    /// The moment by which the server has forgotten this owner by itself, if no send is executed late.
    pub(crate) gone_by: Instant,
}

/// When the next release of an unconfirmed owner is due, and the owner's number.
pub(crate) type ReleaseDue = (Instant, u64);
