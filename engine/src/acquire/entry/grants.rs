//! The leases of this engine that hold one key: at most one, or several that read. Pure.
//!
//! A lease that writes, and a lease of an exclusive lock, are alone. Leases that read are beside each other when their
//! terms differ, or when one is in jeopardy and a new reader needs a grant that is not.

use std::sync::Arc;

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
    more: Vec<HeldGrant>,
}

/// Whether a hold of the kind `one` and a hold of the kind `other` may exist at the same time.
pub(super) fn are_compatible(one: HoldKind, other: HoldKind) -> bool {
    (one, other) == (HoldKind::Read, HoldKind::Read)
}

/// Whether a server that has no hold of the kind `asked` to give has none of the kind `wanted` either. Only a reader
/// may find a lock open that is closed for a writer.
pub(super) fn is_closed_for(asked: HoldKind, wanted: HoldKind) -> bool {
    (asked, wanted) != (HoldKind::Write, HoldKind::Read)
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
        Self { first: Some(grant), more: Vec::new() }
    }
}

impl Grants {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeldGrant> {
        self.first.iter().chain(&self.more)
    }

    /// The grant, if there is exactly one.
    pub(super) fn only(&self) -> Option<&HeldGrant> {
        self.first.as_ref().filter(|_| self.more.is_empty())
    }

    /// Adds a grant. Returns the grants that the server cannot have beside it: they are lost.
    pub(super) fn add(&mut self, grant: HeldGrant) -> Vec<HeldGrant> {
        let kind = grant.lease.kind();
        if self.iter().all(|held| are_compatible(held.lease.kind(), kind)) {
            match self.first {
                None => self.first = Some(grant),
                Some(_) => self.more.push(grant),
            }
            return Vec::new();
        }
        let earlier = std::mem::replace(self, grant.into());
        earlier.first.into_iter().chain(earlier.more).collect()
    }

    pub(super) fn remove(&mut self, lease: &Arc<LeaseCore>) -> Option<HeldGrant> {
        if self.first.as_ref().is_some_and(|held| Arc::ptr_eq(&held.lease, lease)) {
            let next = (!self.more.is_empty()).then(|| self.more.remove(0));
            return std::mem::replace(&mut self.first, next);
        }
        let place = self.more.iter().position(|held| Arc::ptr_eq(&held.lease, lease))?;
        Some(self.more.remove(place))
    }

    /// Whether a hold of this kind has to wait until a lease of this engine has ended.
    pub(super) fn exclude(&self, kind: HoldKind) -> bool {
        self.iter().any(|held| !are_compatible(held.lease.kind(), kind))
    }

    /// The lease that a reader with these terms may hold without a command.
    pub(super) fn joinable(&self, terms: Terms, now: Instant) -> Option<&Arc<LeaseCore>> {
        if terms.kind != HoldKind::Read || terms.max_hold.is_some() {
            return None;
        }
        self.iter().find(|held| held.may_be_joined(terms, now)).map(|held| &held.lease)
    }
}
