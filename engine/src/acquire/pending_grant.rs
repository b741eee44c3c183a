//! A lease on its way to its caller. Whoever drops it gives the lease back: nothing granted is ever forgotten.

use std::{fmt, sync::Arc};

use crate::{
    clock::Instant,
    engine::Handle,
    fencing::FencingToken,
    inner::Inner,
    lease::{
        Lease,
        shared::{LeaseCore, Taken},
    },
    release::end::{self, ReleasedBy},
    renewal::inbox::Order,
};

/// A hold that nobody has taken yet.
pub(crate) struct PendingGrant {
    lease: Option<Arc<LeaseCore>>,
    inner: Arc<Inner>,
    contended: bool,
}

/// A lease that a caller has taken. Dropped before its handle is made, it gives the lease back.
pub(crate) struct AcceptedLease {
    lease: Option<Arc<LeaseCore>>,
    inner: Arc<Inner>,
    /// Nobody had taken it before.
    pub(crate) first: bool,
    pub(crate) at: Instant,
    /// It was not to be had at the first ask.
    pub(crate) contended: bool,
}

impl PendingGrant {
    /// `contended`: the lock was not to be had at the first ask.
    pub(crate) fn new(lease: Arc<LeaseCore>, inner: Arc<Inner>, contended: bool) -> Self {
        Self { lease: Some(lease), inner, contended }
    }

    /// Takes the hold, unless it has ended or its deadline has passed (promise S7), or the engine holds as many leases as
    /// it may; then it is given back.
    pub(crate) fn take(mut self) -> Accept {
        let Some(lease) = self.lease.take() else { return Accept::TooLate };
        let counted = !lease.was_taken() && self.count();
        if !counted && !lease.was_taken() {
            self.lease = Some(lease);
            return Accept::Full;
        }
        let at = self.inner.clock.now();
        let taken = lease.take(at);
        if counted && taken != Taken::First {
            self.inner.events.totals.held.sub(1);
        }
        if taken == Taken::First && lease.is_awaited() {
            self.inner.inboxes.push(lease.key.slot(), Order::Taken(lease.clone()));
        }
        if taken == Taken::TooLate {
            self.lease = Some(lease);
            return Accept::TooLate;
        }
        let (inner, first) = (self.inner.clone(), taken == Taken::First);
        Accept::Lease(AcceptedLease { lease: Some(lease), inner, first, at, contended: self.contended })
    }

    /// The lease that nobody takes, to be given back by whoever calls this.
    pub(crate) fn decline(mut self) -> Option<Arc<LeaseCore>> {
        self.lease.take()
    }

    // Callers that came before the limit was reached may get their locks after it.
    fn count(&self) -> bool {
        self.inner.events.totals.held.add_one_up_to(self.inner.config.leases_max as u64)
    }
}

impl AcceptedLease {
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.lease.as_ref().map(|lease| lease.token)
    }

    /// The handle that its caller gets.
    pub(crate) fn into_lease(mut self, handle: Handle) -> Lease {
        let lease = self.lease.take().expect("only this and `drop` take it, and both consume it");
        Lease::new(lease, handle)
    }
}

impl Drop for AcceptedLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            drop(end::release(&self.inner, &lease, ReleasedBy::ByDrop));
        }
    }
}

/// What came of taking an offer.
pub(crate) enum Accept {
    Lease(AcceptedLease),
    TooLate,
    Full,
}

impl Drop for PendingGrant {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            end::give_back(&self.inner, &lease);
        }
    }
}

impl fmt::Debug for PendingGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingGrant({:?})", self.lease.as_ref().map(|lease| &lease.key))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;
    use crate::{
        clock::Clock,
        config::EngineConfig,
        lease::shared::{self, Terms},
        metrics::{ClassId, Classes, Events},
        transport::Capabilities,
    };

    fn inner() -> Arc<Inner> {
        let capabilities =
            Capabilities { name: "test", notices: true, uptime: false, ttl_max: Duration::from_secs(86_400) };
        let events = Events::new(None, None, Arc::new(Classes::new(&BTreeMap::new())));
        Inner::new(
            Clock::Tokio,
            EngineConfig::default(),
            capabilities,
            events,
            tokio::runtime::Handle::current(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_taken_lease_without_a_handle_is_given_back() {
        let inner = inner();
        let terms =
            Terms { ttl: Duration::from_secs(10), renewed: true, max_hold: None, class: ClassId::DEFAULT };
        let lease = shared::tests::core("a", terms, inner.clock.now());
        let Accept::Lease(taken) = PendingGrant::new(lease.clone(), inner.clone(), false).take() else {
            panic!("it is held")
        };
        assert_eq!((inner.events.totals.held.value(), lease.is_live()), (1, true));
        drop(taken);
        assert_eq!((inner.events.totals.held.value(), lease.is_live()), (0, false));
        assert_eq!(inner.events.totals.released.value(), 1);
    }
}
