//! The lease of this engine that holds the key: how it comes, goes, and whose turn is next.

use std::sync::Arc;

use super::{Cause, Entry, HeldGrant, Pace};
use crate::{
    acquire::{caller::ScopeId, fairness::Precedence},
    clock::Instant,
    lease::shared::LeaseCore,
};

impl<S> Entry<S> {
    /// The receiver's lease holds the key from now on. Returns the one that did so far: the server has given its lock to
    /// another owner, so it is lost.
    pub(crate) fn install(
        &mut self,
        lease: Arc<LeaseCore>,
        scope: Option<ScopeId>,
    ) -> Option<Arc<LeaseCore>> {
        let earlier = self.local.replace(HeldGrant { lease, scope })?;
        self.remember_lost(&earlier);
        Some(earlier.lease)
    }

    /// Our lease ends by a release that is about to be sent.
    pub(crate) fn handle_local_release(
        &mut self,
        lease: &Arc<LeaseCore>,
        now: Instant,
        subscribed: bool,
        pace: &Pace,
    ) {
        if !self.remove_local(lease) {
            return;
        }
        let turn = self.fairness.handle_release(now, lease.ttl(), subscribed);
        self.take_turn(turn, now, pace);
    }

    /// Our lease was lost.
    pub(crate) fn handle_local_loss(&mut self, lease: &Arc<LeaseCore>, now: Instant, pace: &Pace) {
        let Some(local) = self.local.clone().filter(|local| Arc::ptr_eq(&local.lease, lease)) else { return };
        self.remove_local(lease);
        self.remember_lost(&local);
        let turn = self.fairness.handle_loss(now, lease.ttl());
        self.take_turn(turn, now, pace);
    }

    fn take_turn(&mut self, turn: Precedence, now: Instant, pace: &Pace) {
        match turn {
            Precedence::AtOnce => self.ask_next(now, Cause::Turn),
            Precedence::StandBack => {
                self.standing_back = true;
                let pause = self.fairness.pause(pace.round_trip);
                self.ask_next(now + pause, Cause::Turn);
            }
        }
    }

    fn remember_lost(&mut self, local: &HeldGrant) {
        if local.scope.is_some() && local.lease.holds() > 0 {
            self.lost.push(local.clone());
        }
    }

    fn remove_local(&mut self, lease: &Arc<LeaseCore>) -> bool {
        let is_it = self.local.as_ref().is_some_and(|local| Arc::ptr_eq(&local.lease, lease));
        if is_it {
            self.local = None;
            (self.last_held, self.told_held) = (false, Some(self.callers.came()));
            self.follow_up = Some(Cause::Turn); // a "held" on its way may speak of this very lease
        }
        is_it
    }

    /// A hold of a lost lease was dropped: its scope may be free again.
    pub(crate) fn forget_dropped(&mut self) {
        self.lost.retain(|local| local.lease.holds() > 0);
    }

    /// The release was answered, and told how many its notice reached. `None`: not known, or it published nothing.
    /// `true`: the entry is to be looked at now. It stood back for other listeners, and there are none.
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
