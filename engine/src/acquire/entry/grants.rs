//! The leases of this engine that hold one key: at most one, several that read, or any number with permits. Pure.
//!
//! A lease that writes, and a lease of an exclusive lock, are alone. Leases that read are beside each other when their
//! terms differ, or when one is in jeopardy and a new reader needs a grant that is not. Each caller of a semaphore with
//! permits that expire has a lease of its own.
//!
//! All leases that are beside each other are compatible. So one of them says which kinds may join them.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    acquire::caller::ScopeId,
    clock::Instant,
    lease::shared::{LeaseCore, Terms},
    transport::HoldKind,
};

/// A lease of this engine, and the scope in which it was taken.
#[derive(Clone, Debug)]
pub(crate) struct HeldGrant {
    pub(super) lease: Arc<LeaseCore>,
    pub(super) scope: Option<ScopeId>,
}

/// The leases that hold the key, in the order of their grants.
#[derive(Debug, Default)]
pub(super) struct Grants {
    first: Option<HeldGrant>,
    /// The others, by the numbers of their owners, which rise with each attempt. A semaphore may have thousands, and each
    /// release finds its own.
    more: BTreeMap<u64, HeldGrant>,
}

/// Whether a hold of the kind `one` and a hold of the kind `other` may exist at the same time.
pub(super) fn are_compatible(one: HoldKind, other: HoldKind) -> bool {
    matches!((one, other), (HoldKind::Read, HoldKind::Read) | (HoldKind::Permits(_), HoldKind::Permits(_)))
}

/// Whether a server that has no hold of the kind `asked` to give has none of the kind `wanted` either. A reader may find
/// a lock open that is closed for a writer, and a caller that wants fewer permits may find enough.
pub(super) fn is_closed_for(asked: HoldKind, wanted: HoldKind) -> bool {
    match (asked, wanted) {
        (HoldKind::Write, HoldKind::Read) => false,
        (HoldKind::Permits(asked), HoldKind::Permits(wanted)) => asked <= wanted,
        _ => true,
    }
}

impl HeldGrant {
    #[cfg(test)]
    pub(crate) fn new(lease: Arc<LeaseCore>, scope: Option<ScopeId>) -> Self {
        Self { lease, scope }
    }

    pub(crate) fn lease(&self) -> &Arc<LeaseCore> {
        &self.lease
    }

    /// Whether a reader with these terms, outside of any scope, may hold this lease too. It must have half its ttl
    /// left, so that the reader does not begin with a lease that is about to end.
    fn may_be_joined(&self, terms: Terms, now: Instant) -> bool {
        let lease = &self.lease;
        let is_alike =
            self.scope.is_none() && lease.terms().max_hold.is_none() && lease.terms().is_like(terms);
        is_alike && lease.is_held(now) && !lease.is_in_jeopardy() && lease.deadline() - now >= lease.ttl() / 2
    }
}

impl From<HeldGrant> for Grants {
    fn from(grant: HeldGrant) -> Self {
        Self { first: Some(grant), more: BTreeMap::new() }
    }
}

impl Grants {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldGrant> {
        self.first.iter().chain(self.more.values())
    }

    /// Removes all. An empty map is not touched: to drop one costs more than all the rest of this.
    pub(super) fn clear(&mut self) {
        self.first = None;
        if !self.more.is_empty() {
            self.more.clear();
        }
    }

    /// The grant, if there is exactly one.
    pub(super) fn only(&self) -> Option<&HeldGrant> {
        self.first.as_ref().filter(|_| self.more.is_empty())
    }

    /// Adds a grant. Returns the grants that the server cannot have beside it: they are lost.
    pub(super) fn add(&mut self, grant: HeldGrant) -> Vec<HeldGrant> {
        if self.exclude(grant.lease.kind()) {
            let earlier = std::mem::replace(self, grant.into());
            return earlier.first.into_iter().chain(earlier.more.into_values()).collect();
        }
        match self.first {
            None => self.first = Some(grant),
            Some(_) => {
                self.more.insert(grant.lease.owner.number(), grant);
            }
        }
        Vec::new()
    }

    pub(super) fn remove(&mut self, lease: &Arc<LeaseCore>) -> Option<HeldGrant> {
        if self.first.as_ref().is_some_and(|held| Arc::ptr_eq(&held.lease, lease)) {
            let next = self.more.pop_first().map(|(_, next)| next);
            return std::mem::replace(&mut self.first, next);
        }
        self.more.remove(&lease.owner.number())
    }

    /// Whether a hold of this kind has to wait until a lease of this engine has ended.
    pub(super) fn exclude(&self, kind: HoldKind) -> bool {
        self.first.as_ref().is_some_and(|held| !are_compatible(held.lease.kind(), kind))
    }

    /// The lease that a reader with these terms may hold without a command.
    pub(super) fn joinable(&self, terms: Terms, now: Instant) -> Option<&Arc<LeaseCore>> {
        if terms.kind != HoldKind::Read || terms.max_hold.is_some() {
            return None;
        }
        self.iter().find(|held| held.may_be_joined(terms, now)).map(|held| &held.lease)
    }
}
