//! Hands a grant off: a caller of this engine that waits gets the lock from the holder that gives it back, and no command is
//! sent. Pure.
//!
//! To the server it is one long hold of one owner. What the next holder gets is the same grant: the deadline does not
//! move, and the token is higher. Clients of other processes must not wait for long, so a grant is handed off only for a
//! short time; then it is released to the server, whose notice wakes them (Dice, Marathe and Shavit, "Lock Cohorting",
//! PPoPP 2012).
//!
//! Rules. A grant is handed off if all of this is true:
//! - It is the only one of its key, of an exclusive or a fenced lock, and no ask is in flight.
//! - Nothing was sent for it since the server granted it: no renewal, and no release by force. So its deadline is that of
//!   the grant, and no answer on its way can speak of it.
//! - No release of its lock by force is in progress.
//! - It is renewed, and the caller at the head wants a lock of the same kind and the same ttl, renewed too. A head that
//!   wants something else is not passed over.
//! - It was sent less than 100 ms ago, and has a spare token. Its deadline is at least half a ttl away.
//! - This process may have the next grant (see `fairness`): each hand-off counts as a grant.
//!
//! Spare tokens. The server's next grant must have a higher token than every holder of this one.
//! - The token of an exclusive lock is the server's time; its low bits are left for as many hand-offs as the settings allow.
//! - The token of a fenced lock is a counter on the server. So the ask says how far beyond its token a grant moves the counter,
//!   also if this process ends before it hands anything off. That is done only while further callers wait, and for at most as
//!   many tokens as half a round trip has microseconds: the server's next grant comes about a round trip later, because this
//!   grant has to arrive and its release has to go back. The round trip is a running mean over all servers, so tokens may get
//!   ahead of the server's time all the same. While the last grant had such a token, nothing is reserved. So each engine moves
//!   the counter ahead by less than 2 * 1,023 us, and tokens make up for a counter that was lost longer ago than that.
//!   In `Counter` mode no tokens are reserved: each grant has the number that follows.

use std::sync::Arc;

use super::{Entry, Grant, Pace};
use crate::{
    acquire::{caller::Caller, fairness::STREAK_TIME_MAX},
    clock::Instant,
    fencing::{FencingMode, FencingToken},
    lease::shared::{LeaseCore, Terms},
    transport::{HoldKind, ServerTime},
};

impl<S> Entry<S> {
    /// The last hold of this lease has ended. If the caller at the head may have the grant, ends the lease and returns
    /// the grant with its receivers. `most`: how often one grant may be handed off. `is_gone`: whether a caller was
    /// dropped.
    pub(crate) fn hand_off(
        &mut self,
        lease: &Arc<LeaseCore>,
        now: Instant,
        most: u16,
        is_gone: impl Fn(&S) -> bool,
    ) -> Option<Grant<S>> {
        let head = self.callers.head().filter(|head| !is_gone(&head.reply_to) && may_follow(lease, head))?.id;
        if !self.may_hand_off(lease, now, most) || !lease.hand_off() {
            return None;
        }
        let receiver = self.callers.take(head)?;
        let sharers = self.take_sharers(&receiver);
        self.grants.remove(lease);
        self.fairness.handle_grant(now);
        (self.last_held, self.held_after) = (None, Some(self.callers.came()));
        let granted = lease.grant_of_next_holder(now);
        Some(Grant { receiver, sharers, granted, open: lease.take_open(), stays: false })
    }

    /// How many tokens above its own the next grant of this kind is to reserve.
    pub(super) fn tokens_to_reserve(&self, kind: HoldKind, pace: &Pace) -> u16 {
        let is_wanted_again = self.callers.len() > 1;
        let is_hybrid = kind == HoldKind::Fenced(FencingMode::Hybrid);
        if !is_hybrid || !is_wanted_again || !self.may_reserve_tokens {
            return 0;
        }
        let half_in_micros = pace.round_trip.as_micros() / 2;
        u16::try_from(half_in_micros).unwrap_or(u16::MAX).min(pace.hand_offs_max)
    }

    /// The server has granted the lock with this token, at this time of its clock.
    pub(super) fn note_token(&mut self, token: FencingToken, at: ServerTime) {
        self.may_reserve_tokens = token <= FencingToken::of_counter(at.micros);
    }

    /// A release of the lock by force begins. Until it ends nothing is handed off.
    pub(crate) fn begin_forced_release(&mut self) {
        self.forced_releases += 1;
    }

    /// A release of the lock by force was answered. It may have deleted any hold that was asked for until now.
    pub(crate) fn end_forced_release(&mut self) {
        self.forced_releases = self.forced_releases.saturating_sub(1);
        self.forbid_hand_offs();
    }

    /// The holds of this engine, and one that may be granted now, are handed off to no other caller.
    fn forbid_hand_offs(&mut self) {
        for lease in self.leases() {
            lease.forbid_hand_off();
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.stays = true;
        }
    }

    fn may_hand_off(&self, lease: &Arc<LeaseCore>, now: Instant, most: u16) -> bool {
        let ttl = lease.ttl();
        let is_the_only_one = self.grants.only().is_some_and(|held| Arc::ptr_eq(&held.lease, lease));
        let is_early = now - lease.sent() < STREAK_TIME_MAX && lease.deadline() - now >= ttl / 2;
        is_the_only_one
            && self.attempt.is_none()
            && self.forced_releases == 0
            && is_early
            && spare_tokens(lease, most) > 0
            && self.fairness.may_go_on(now, ttl)
    }
}

/// How many tokens above its own the grant has for its next holders.
pub(super) fn spare_tokens(lease: &LeaseCore, most: u16) -> u16 {
    match lease.kind() {
        HoldKind::Exclusive => most.saturating_sub(lease.token.hand_offs()),
        HoldKind::Fenced(_) => lease.reserved_tokens(),
        _ => 0,
    }
}

// The receiver of a grant that is not renewed would get less than the ttl that it asked for.
fn may_follow<S>(lease: &LeaseCore, head: &Caller<S>) -> bool {
    let Terms { kind, ttl, renewed, .. } = head.terms;
    lease.kind() == kind && lease.ttl() == ttl && renewed && lease.is_renewed()
}
