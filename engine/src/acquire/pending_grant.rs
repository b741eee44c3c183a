//! A lease that is on its way from the driver to its caller. If it is dropped on the way, the lease is given back, so
//! that no grant is forgotten.

use std::{fmt, sync::Arc};

use crate::{
    clock::Instant,
    core::Core,
    fencing::FencingToken,
    lease::shared::{LeaseCore, Taken},
    metrics::LabelSet,
    transport::HoldKind,
};

/// What a pending grant needs from its engine. An accepted lease is renewed; any other lease is given back.
pub(crate) trait Grants: Send + Sync {
    fn core(&self) -> &Core;

    /// A caller has accepted the lease. From now on the engine renews it.
    fn accepted(&self, lease: &Arc<LeaseCore>);

    /// No caller has accepted the lease, so the engine gives the hold back.
    fn give_back(self: Arc<Self>, lease: &Arc<LeaseCore>, side: HoldKind);

    /// The caller accepted the lease and then dropped it, so the engine releases the hold.
    fn release(self: Arc<Self>, lease: &Arc<LeaseCore>, side: HoldKind);
}

/// A hold that no caller has accepted yet.
pub(crate) struct PendingGrant {
    lease: Option<Arc<LeaseCore>>,
    /// The kind that the caller asked for.
    side: HoldKind,
    /// The labels of the caller.
    labels: LabelSet,
    engine: Arc<dyn Grants>,
    contended: bool,
}

/// A lease that a caller has accepted. Dropping it before its public handle is made releases the lease.
pub(crate) struct AcceptedLease {
    lease: Option<Arc<LeaseCore>>,
    /// The kind that the caller asked for.
    side: HoldKind,
    engine: Arc<dyn Grants>,
    /// No caller had accepted the lease before.
    pub(crate) first: bool,
    /// When the caller took the lease.
    pub(crate) at: Instant,
    /// The first ask did not get the lock.
    pub(crate) contended: bool,
}

impl PendingGrant {
    /// `side` and `labels`: those of the caller. `contended`: the first ask did not get the lock.
    pub(crate) fn new(
        lease: Arc<LeaseCore>,
        (side, labels): (HoldKind, LabelSet),
        engine: Arc<dyn Grants>,
        contended: bool,
    ) -> Self {
        Self { lease: Some(lease), side, labels, engine, contended }
    }

    /// Accepts the lease. The lease is given back instead if it has ended, if its deadline has passed (promise S7), or
    /// if the engine holds `leases_max` leases.
    pub(crate) fn take(mut self) -> Accept {
        let Some(lease) = self.lease.take() else { return Accept::TooLate };
        let counted = !lease.was_taken() && self.count();
        if !counted && !lease.was_taken() && lease.is_live() {
            self.lease = Some(lease);
            return Accept::Full;
        }
        let at = self.engine.core().clock.now();
        let taken = lease.take_as(at, self.labels);
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
        Accept::Lease(AcceptedLease {
            lease: Some(lease),
            side: self.side,
            engine,
            first,
            at,
            contended: self.contended,
        })
    }

    /// Returns the lease without accepting it. The caller of this method gives it back.
    pub(crate) fn decline(mut self) -> Option<(Arc<LeaseCore>, HoldKind)> {
        self.lease.take().map(|lease| (lease, self.side))
    }

    // Counts the lease, unless the engine holds `leases_max` leases. The limit is checked here once more, because
    // callers that were queued before the limit was reached may get their locks afterwards.
    fn count(&self) -> bool {
        self.engine.core().events.totals.held.add_one_up_to(self.engine.core().config.leases_max as u64)
    }
}

impl AcceptedLease {
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.lease.as_ref().map(|lease| lease.token)
    }

    /// Returns the lease for the handle that the caller gets, and the kind that the caller asked for. From then on the
    /// handle releases the lease.
    pub(crate) fn into_lease(mut self) -> (Arc<LeaseCore>, HoldKind) {
        (self.lease.take().expect("only this and `drop` take it, and both consume it"), self.side)
    }
}

impl Drop for AcceptedLease {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take().filter(|_| !self.engine.core().process.is_forked()) {
            self.engine.clone().release(&lease, self.side);
        }
    }
}

/// The outcome of accepting a pending grant.
pub(crate) enum Accept {
    Lease(AcceptedLease),
    /// The lease had ended, or its deadline had passed.
    TooLate,
    /// The engine holds `leases_max` leases.
    Full,
}

impl Drop for PendingGrant {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take().filter(|_| !self.engine.core().process.is_forked()) {
            self.engine.clone().give_back(&lease, self.side);
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
        calls_runtime::CallsRuntime,
        clock::Clock,
        config::EngineConfig,
        inner::Inner,
        lease::shared::{self, Terms},
        metrics::{Classes, Events},
        transport::Capabilities,
    };

    fn engine() -> Arc<Inner> {
        let capabilities = Capabilities::new("test", Duration::from_secs(86_400)).with_notices();
        let events = Events::new(None, None, Arc::new(Classes::new(&BTreeMap::new())));
        let runtime = CallsRuntime::users(tokio::runtime::Handle::current());
        Inner::new(Core::new(Clock::Tokio, EngineConfig::default(), capabilities, events, runtime))
    }

    #[tokio::test(start_paused = true)]
    async fn a_taken_lease_without_a_handle_is_given_back() {
        let inner = engine();
        let terms = Terms {
            kind: crate::transport::HoldKind::Exclusive,
            ttl: Duration::from_secs(10),
            renewed: true,
            max_hold: None,
            labels: LabelSet::DEFAULT,
        };
        let lease = shared::tests::core("a", terms, inner.clock.now());
        let Accept::Lease(taken) =
            PendingGrant::new(lease.clone(), (HoldKind::Exclusive, LabelSet::DEFAULT), inner.clone(), false)
                .take()
        else {
            panic!("it is held")
        };
        assert_eq!((inner.events.totals.held.value(), lease.is_live()), (1, true));
        drop(taken);
        assert_eq!((inner.events.totals.held.value(), lease.is_live()), (0, false));
        assert_eq!(inner.events.totals.released.value(), 1);
    }
}
