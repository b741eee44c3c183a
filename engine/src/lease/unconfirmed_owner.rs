//! An owner that holds nothing any more as far as this engine is concerned, and that no server has confirmed as gone. Pure.

use super::unanswered::UnansweredSends;
use crate::{clock::Instant, owner::Owner};

/// An owner whose sends may yet be executed, or whose release has not been answered.
#[derive(Debug)]
pub(crate) struct UnconfirmedOwner {
    pub(crate) owner: Owner,
    pub(crate) open: UnansweredSends,
    /// Whether a hold of it may be on the server: then a release must be answered before the owner is closed.
    pub(crate) may_hold: bool,
    /// When the server has forgotten it by itself, if nothing is executed late.
    pub(crate) gone_by: Instant,
}

/// When the next release of an unconfirmed owner is due, and the owner's number.
pub(crate) type ReleaseDue = (Instant, u64);
