//! One place in the line of a fair lock: a caller, and the attempt that is its own.

use crate::{
    acquire::{
        attempt::Attempt,
        caller::{Caller, CallerId, Patience, ScopeId},
        caller_deadlines::Coming,
        entry::Cause,
    },
    clock::Instant,
    lease::unconfirmed_owner::UnconfirmedOwner,
    metrics::LabelSet,
    owner::{Owner, OwnerMint},
};

/// A caller's attempt and its place in the line, as far as it is known.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Place {
    pub(super) caller: CallerId,
    pub(super) scope: Option<ScopeId>,
    pub(super) labels: LabelSet,
    pub(super) joined: Instant,
    pub(super) attempt: Attempt,
    /// Whether the caller wants to wait in the line. If not, the caller only tries.
    pub(super) waits: bool,
    /// When the place is asked for next, and why.
    pub(super) next: Option<(Instant, Cause)>,
    /// The ask in flight, by the arrival number of the last caller that had joined when it was sent.
    pub(super) asking: Option<Coming>,
    /// The caller has left, and the answer to its ask is awaited.
    pub(super) deserted: bool,
    /// The moment until which the place is in the line for certain: one beat after the last confirmed command was sent.
    /// `None`: not known to be in the line.
    pub(super) in_line_until: Option<Instant>,
    /// The place has been in the line, so there is a watch of its turn.
    pub(super) was_in_line: bool,
    /// The server's last word was that it is this place's turn: the lock was free.
    pub(super) has_turn: bool,
    /// The server did not know the place any more, and nothing was asked since.
    pub(super) lost: bool,
    /// A notice came while an ask was in flight.
    pub(super) follow_up: bool,
    pub(super) noticed: Option<Instant>,
    /// The latest moment of execution of the last ask.
    pub(super) execute_by: Option<Instant>,
    /// The place has had no definite answer since then.
    pub(super) unclear_since: Option<Instant>,
}

impl Place {
    pub(super) fn new<S>(owner: Owner, caller: &Caller<S>, now: Instant) -> Self {
        Self {
            caller: caller.id,
            scope: caller.scope,
            labels: caller.terms.labels,
            joined: caller.joined,
            attempt: Attempt::new(owner, caller.terms.kind, caller.terms.ttl),
            waits: waits(caller.patience, now),
            next: None,
            asking: None,
            deserted: false,
            in_line_until: None,
            was_in_line: false,
            has_turn: false,
            lost: false,
            follow_up: false,
            noticed: None,
            execute_by: None,
            unclear_since: None,
        }
    }

    /// The caller has left, and another one of its scope takes its place. Both have the same terms.
    pub(super) fn pass_on_to<S>(&mut self, heir: &Caller<S>) {
        (self.caller, self.labels, self.joined) = (heir.id, heir.terms.labels, heir.joined);
        self.waits |= heir.patience != Patience::Try;
    }

    pub(super) fn is_in_line(&self) -> bool {
        self.in_line_until.is_some()
    }

    /// Whether the caller still wants the place, and no ask is in flight.
    pub(super) fn is_idle(&self) -> bool {
        !self.deserted && self.asking.is_none()
    }

    /// The owner to be closed, if a server may have it in the lock or in the line.
    pub(super) fn into_closing(self) -> Option<UnconfirmedOwner> {
        match self.execute_by {
            // A lost place may be in the line again: the beat that did not find it may be older than the last ask.
            Some(execute_by) if self.is_in_line() || self.asking.is_some() || self.lost => {
                // Beats have kept the place, however long ago the last ask was.
                let last = self.in_line_until.map_or(execute_by, |until| until.max(execute_by));
                Some(self.attempt.into_give_back(last))
            }
            _ => self.attempt.into_closing(),
        }
    }

    /// Goes on with another owner, as a correct engine never does. A fault for tests.
    pub(super) fn forget_owner(&mut self, mint: &OwnerMint) {
        self.attempt = Attempt::new(mint.mint(), self.attempt.kind, self.attempt.ttl);
    }
}

fn waits(patience: Patience, now: Instant) -> bool {
    match patience {
        Patience::Try => false,
        Patience::Wait(until) => until.is_none_or(|until| now < until),
    }
}
