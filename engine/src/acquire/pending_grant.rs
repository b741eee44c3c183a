//! A lease on its way to its caller. Dropping it on the way gives the lease back: no grant is ever forgotten.

use std::{fmt, sync::Arc};

use crate::{
    clock::Instant,
    core::Core,
    fencing::FencingToken,
    lease::shared::{LeaseCore, Taken},
};

/// What a grant needs of its engine: to be renewed once it is accepted, and to be given back otherwise.
pub(crate) trait Grants: Send + Sync {
    fn core(&self) -> &Core;

    /// A caller has accepted the lease; from now on it is renewed.
    fn accepted(&self, lease: &Arc<LeaseCore>);

    /// No caller has accepted the lease.
    fn give_back(self: Arc<Self>, lease: &Arc<LeaseCore>);

    /// The caller that had accepted the lease dropped it.
    fn release(self: Arc<Self>, lease: &Arc<LeaseCore>);
}

/// A hold that nobody has taken yet.
pub(crate) struct PendingGrant {
    lease: Option<Arc<LeaseCore>>,
    engine: Arc<dyn Grants>,
    contended: bool,
}

/// A lease that a caller has taken. Dropped before its handle is made, it gives the lease back.
pub(crate) struct AcceptedLease {
    lease: Option<Arc<LeaseCore>>,
    engine: Arc<dyn Grants>,
    /// Nobody had taken it before.
    pub(crate) first: bool,
    pub(crate) at: Instant,
    /// It was not to be had at the first ask.
    pub(crate) contended: bool,
}

impl PendingGrant {
    /// `contended`: the lock was not to be had at the first ask.
    pub(crate) fn new(lease: Arc<LeaseCore>, engine: Arc<dyn Grants>, contended: bool) -> Self {
        Self { lease: Some(lease), engine, contended }
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
        let at = self.engine.core().clock.now();
        let taken = lease.take(at);
        if counted && taken != Taken::First {
            self.engine.core().events.totals.held.sub(1);
        }
        if taken == Taken::First && lease.is_awaited() {
            self.engine.accepted(&lease);
        }
        if taken == Taken::TooLate {
            self.lease = Some(lease);
            return Accept::TooLate;
        }
        let (engine, first) = (self.engine.clone(), taken == Taken::First);
        Accept::Lease(AcceptedLease { lease: Some(lease), engine, first, at, contended: self.contended })
    }

    /// The lease that nobody takes, to be given back by whoever calls this.
    pub(crate) fn decline(mut self) -> Option<Arc<LeaseCore>> {
        self.lease.take()
    }

    // Callers that came before the limit was reached may get their locks after it.
    fn count(&self) -> bool {
        self.engine.core().events.totals.held.add_one_up_to(self.engine.core().config.leases_max as u64)
    }
}

impl AcceptedLease {
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.lease.as_ref().map(|lease| lease.token)
    }

    /// The lease, for the handle that its caller gets.
    pub(crate) fn into_lease(mut self) -> Arc<LeaseCore> {
        self.lease.take().expect("only this and `drop` take it, and both consume it")
    }
}

impl Drop for AcceptedLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.engine.clone().release(&lease);
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
            self.engine.clone().give_back(&lease);
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
        inner::Inner,
        lease::shared::{self, Terms},
        metrics::{Classes, Events, LabelSet},
        transport::Capabilities,
    };

    fn engine() -> Arc<Inner> {
        let capabilities =
            Capabilities { name: "test", notices: true, uptime: false, ttl_max: Duration::from_secs(86_400) };
        let events = Events::new(None, None, Arc::new(Classes::new(&BTreeMap::new())));
        let runtime = tokio::runtime::Handle::current();
        Inner::new(Core::new(Clock::Tokio, EngineConfig::default(), capabilities, events, runtime))
    }

    #[tokio::test(start_paused = true)]
    async fn a_taken_lease_without_a_handle_is_given_back() {
        let inner = engine();
        let terms =
            Terms { ttl: Duration::from_secs(10), renewed: true, max_hold: None, labels: LabelSet::DEFAULT };
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
