//! The leases of this engine that hold the key: how each is installed, how it ends, and when the entry asks after its
//! end.

use std::{sync::Arc, time::Duration};

use super::{Cause, Entry, HeldGrant};
use crate::{
    acquire::{
        caller::ScopeId,
        fairness::{Precedence, takes_turns},
    },
    clock::Instant,
    lease::shared::LeaseCore,
    transport::HoldKind,
};

impl<S> Entry<S> {
    /// Installs the receiver's lease as a lease that holds the key. Returns the leases that held it before and cannot
    /// be beside it: the server has granted the lock to another owner, so they are lost.
    pub(crate) fn install(&mut self, lease: Arc<LeaseCore>, scope: Option<ScopeId>) -> Vec<HeldGrant> {
        let lost = self.grants.add(HeldGrant { lease, scope });
        lost.iter().for_each(|earlier| self.remember_lost(earlier));
        lost
    }

    /// The lease of this engine ends by a release that is about to be sent.
    pub(crate) fn handle_local_release(
        &mut self,
        lease: &Arc<LeaseCore>,
        now: Instant,
        subscribed: bool,
        round_trip: Duration,
    ) {
        if self.remove_grant(lease).is_none() {
            return;
        }
        let turn = match takes_turns(lease.kind()) {
            true => self.fairness.handle_release(now, lease.ttl(), subscribed),
            false => Precedence::AtOnce,
        };
        self.take_turn(turn, now, round_trip);
    }

    /// The lease of this engine was lost.
    pub(crate) fn handle_local_loss(&mut self, lease: &Arc<LeaseCore>, now: Instant, round_trip: Duration) {
        let Some(lost) = self.remove_grant(lease) else { return };
        self.remember_lost(&lost);
        let turn = match takes_turns(lease.kind()) {
            true => self.fairness.handle_loss(now, lease.ttl()),
            false => Precedence::AtOnce,
        };
        self.take_turn(turn, now, round_trip);
    }

    /// A write lease of this engine is a read lease from now on, so readers may be granted.
    pub(crate) fn handle_downgrade(&mut self, now: Instant) {
        (self.last_held, self.follow_up) = (None, Some(Cause::Turn));
        self.ask_next(now, Cause::Turn);
    }

    fn take_turn(&mut self, turn: Precedence, now: Instant, round_trip: Duration) {
        match turn {
            Precedence::AtOnce => self.ask_next(now, Cause::Turn),
            Precedence::StandBack => {
                self.standing_back = true;
                let pause = self.fairness.pause(round_trip);
                self.ask_next(now + pause, Cause::Turn);
            }
        }
    }

    fn remember_lost(&mut self, held: &HeldGrant) {
        if held.scope.is_some() && held.lease.holds() > 0 {
            self.lost.push(held.clone());
        }
    }

    fn remove_grant(&mut self, lease: &Arc<LeaseCore>) -> Option<HeldGrant> {
        let removed = self.grants.remove(lease)?;
        self.last_held = None;
        if !matches!(lease.kind(), HoldKind::Permits(_)) {
            self.held_after = Some(self.callers.came()); // a lease with permits leaves others for the next caller
        }
        if !matches!(lease.kind(), HoldKind::Fair) {
            self.follow_up = Some(Cause::Turn); // a "held" on its way may speak of this very lease
        }
        Some(removed)
    }

    /// A hold of a lost lease was dropped: its scope may acquire the key again once all its holds are dropped.
    pub(crate) fn forget_dropped(&mut self) {
        self.lost.retain(|held| held.lease.holds() > 0);
    }

    /// The release was answered, with the number of listeners that its notice reached. `None`: not known, or no notice
    /// was published. Returns `true` if the entry must take its next step now: it stood back for other listeners, and
    /// there are none.
    pub(crate) fn handle_release_answer(
        &mut self,
        published: bool,
        listeners: Option<u32>,
        subscribed: bool,
        now: Instant,
    ) -> bool {
        if !published {
            self.fairness.forget_own_notices();
        }
        self.fairness.handle_listeners(listeners, subscribed);
        let in_vain = self.standing_back && self.fairness.nobody_listens();
        if in_vain {
            self.standing_back = false;
            self.ask_next(now.min(self.next_ask), Cause::Turn);
        }
        in_vain
    }
}
