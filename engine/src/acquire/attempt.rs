//! One attempt to acquire a lock: an owner, and those of its sends that were never answered. Pure.

use std::time::Duration;

use crate::{
    clock::Instant,
    lease::{state, unanswered::UnansweredSends, unconfirmed_owner::UnconfirmedOwner},
    owner::Owner,
    transport::HoldKind,
};

/// An attempt in progress.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Attempt {
    pub(crate) owner: Owner,
    pub(crate) kind: HoldKind,
    pub(crate) ttl: Duration,
    /// How many tokens above its own the grant may give to its next holders. Every send has the same number.
    pub(crate) reserved_tokens: u16,
    pub(crate) open: UnansweredSends,
    /// The lock was to be released by force meanwhile. Its grant is handed off to no other caller.
    pub(crate) stays: bool,
    first_sent: Option<Instant>,
}

impl Attempt {
    pub(crate) fn new(owner: Owner, kind: HoldKind, ttl: Duration) -> Self {
        let open = UnansweredSends::default();
        Self { owner, kind, ttl, reserved_tokens: 0, open, stays: false, first_sent: None }
    }

    /// Replaces the owner before a resend, which a correct engine never does. A fault for tests.
    #[cfg(leasehold_fault)]
    pub(crate) fn forget_owner(&mut self, mint: &crate::owner::OwnerMint) {
        if crate::faults::Fault::NewOwner.is_on() && self.first_sent.is_some() {
            (self.owner, self.open) = (mint.mint(), UnansweredSends::default());
        }
    }

    /// Sets the kind and the ttl of the queue's present head, and how many tokens are reserved, as long as nothing was sent.
    pub(crate) fn aim(&mut self, kind: HoldKind, ttl: Duration, reserved_tokens: u16) {
        if self.first_sent.is_none() {
            (self.kind, self.ttl, self.reserved_tokens) = (kind, ttl, reserved_tokens);
        }
    }

    pub(crate) fn note_sent(&mut self, sent: Instant) {
        self.first_sent.get_or_insert(sent);
    }

    /// Whether half a ttl has passed since the first send. A grant would come too late to be of much use.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.first_sent.is_some_and(|first| now >= first + self.ttl / 2)
    }

    /// The owner to be closed, if one of its sends was never answered.
    pub(crate) fn into_closing(self) -> Option<UnconfirmedOwner> {
        let last = self.open.execute_by()?;
        Some(self.closing(last))
    }

    /// The owner to be closed, if anything was sent for it. The transport has lost the outcome of what was sent last.
    /// `latest`: until when a server may execute it.
    pub(crate) fn into_unanswered(mut self, latest: Instant) -> Option<UnconfirmedOwner> {
        self.first_sent?;
        self.open.add_lost(latest, self.ttl);
        Some(self.into_give_back(latest))
    }

    /// The owner of a grant that no caller wants.
    pub(crate) fn into_give_back(self, execute_by: Instant) -> UnconfirmedOwner {
        let last = self.open.execute_by().map_or(execute_by, |open| open.max(execute_by));
        self.closing(last)
    }

    fn closing(self, last: Instant) -> UnconfirmedOwner {
        let gone_by = last + self.ttl + state::margin(self.ttl);
        UnconfirmedOwner { owner: self.owner, kind: self.kind, open: self.open, may_hold: true, gone_by }
    }
}
