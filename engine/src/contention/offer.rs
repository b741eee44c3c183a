//! A lease on its way to its caller. Whoever drops it gives the lease back: nothing granted is ever forgotten.

use std::{fmt, sync::Arc};

use super::ending;
use crate::{
    clock::Instant,
    lease::shared::{LeaseCore, Taken},
    renewal::inbox::Order,
    works::Works,
};

/// A hold that nobody has taken yet.
pub(crate) struct Offer {
    lease: Option<Arc<LeaseCore>>,
    works: Arc<Works>,
    contended: bool,
}

/// A lease that a caller has taken.
pub(crate) struct TakenLease {
    pub(crate) lease: Arc<LeaseCore>,
    /// Nobody had taken it before.
    pub(crate) first: bool,
    pub(crate) at: Instant,
    /// It was not to be had at the first ask.
    pub(crate) contended: bool,
}

impl Offer {
    /// `contended`: the lock was not to be had at the first ask.
    pub(crate) fn new(lease: Arc<LeaseCore>, works: Arc<Works>, contended: bool) -> Self {
        Self { lease: Some(lease), works, contended }
    }

    /// Takes the hold, unless it has ended or its deadline has passed (promise S7), or the engine holds as many leases as
    /// it may; then it is given back.
    pub(crate) fn take(mut self) -> Took {
        let Some(lease) = self.lease.take() else { return Took::TooLate };
        let counted = !lease.was_taken() && self.count();
        if !counted && !lease.was_taken() {
            self.lease = Some(lease);
            return Took::Full;
        }
        let at = self.works.clock.now();
        let taken = lease.take(at);
        if counted && taken != Taken::First {
            self.works.events.totals.held.sub(1);
        }
        if taken == Taken::First && lease.is_awaited() {
            self.works.inboxes.push(lease.key.slot(), Order::Taken(lease.clone()));
        }
        if taken == Taken::TooLate {
            self.lease = Some(lease);
            return Took::TooLate;
        }
        Took::Lease(TakenLease { lease, first: taken == Taken::First, at, contended: self.contended })
    }

    /// The lease that nobody takes, to be given back by whoever calls this.
    pub(crate) fn decline(mut self) -> Option<Arc<LeaseCore>> {
        self.lease.take()
    }

    // Callers that came before the limit was reached may get their locks after it.
    fn count(&self) -> bool {
        self.works.events.totals.held.add_one_up_to(self.works.config.leases_max as u64)
    }
}

/// What came of taking an offer.
pub(crate) enum Took {
    Lease(TakenLease),
    TooLate,
    Full,
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            ending::give_back(&self.works, &lease);
        }
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offer({:?})", self.lease.as_ref().map(|lease| &lease.key))
    }
}
