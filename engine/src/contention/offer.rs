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

    /// Takes the hold, unless it has ended or its deadline has passed (promise S7); then it is given back. `true`: nobody
    /// had taken the lease before.
    pub(crate) fn take(mut self) -> Option<(Arc<LeaseCore>, bool)> {
        let lease = self.lease.take()?;
        let taken = lease.take(self.works.clock.now());
        match taken {
            Taken::First => self.works.events.totals.held.add(1),
            Taken::Again => {}
            Taken::TooLate => {
                self.lease = Some(lease);
                return None;
            }
        }
        Some((lease, taken == Taken::First))
    }
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
