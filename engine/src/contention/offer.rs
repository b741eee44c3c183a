//! A lease on its way to its caller. Whoever drops it gives the lease back: nothing granted is ever forgotten.

use std::{fmt, sync::Arc};

use super::ending;
use crate::{
    lease::shared::{LeaseCore, Taken},
    works::Works,
};

/// A hold that nobody has taken yet.
pub(crate) struct Offer {
    lease: Option<Arc<LeaseCore>>,
    works: Arc<Works>,
    contended: bool,
}

impl Offer {
    /// `contended`: the lock was not to be had at the first ask.
    pub(crate) fn new(lease: Arc<LeaseCore>, works: Arc<Works>, contended: bool) -> Self {
        Self { lease: Some(lease), works, contended }
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contended
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
        let taken = lease.take(self.works.clock.now());
        if counted && taken != Taken::First {
            self.works.events.totals.held.sub(1);
        }
        match taken {
            Taken::First => Took::Lease(lease, true),
            Taken::Again => Took::Lease(lease, false),
            Taken::TooLate => {
                self.lease = Some(lease);
                Took::TooLate
            }
        }
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
    /// `true`: nobody had taken the lease before.
    Lease(Arc<LeaseCore>, bool),
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
