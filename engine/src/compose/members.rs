//! The members of one composition, and whether enough of them are held. Pure: the lease of a member is anything that
//! can say whether it is held.
//!
//! Held at a moment ⇔ at least `needed` member leases are held at that moment. A lease never becomes held again, so
//! the number only falls, except when a member *joins*. A member joins only while enough others are held. So members of
//! which too few were held at any moment are lost for good, also if nobody looked at that moment.

use crate::lease::state::LossReason;

/// Whether a composition is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Held,
    Lost(LossReason),
    GivenBack,
}

/// The lease of a member, at the present moment.
pub(super) trait MemberHold {
    /// Never `true` again after it was `false`.
    fn is_held(&self) -> bool;

    /// Why the lease is not held.
    fn loss(&self) -> Option<LossReason>;
}

/// The members; one without a lease may join.
#[derive(Debug)]
pub(super) struct Members<L> {
    leases: Vec<Option<L>>,
    needed: usize,
    standing: Standing,
}

impl<L: MemberHold> Members<L> {
    pub(super) fn new(leases: Vec<Option<L>>, needed: usize) -> Self {
        Self { leases, needed, standing: Standing::Held }
    }

    /// Looks at the leases. Never `Held` again after the first other answer. The second value: this look found the
    /// loss, and the caller tells it.
    pub(super) fn look(&mut self) -> (Standing, bool) {
        if self.standing != Standing::Held || self.held() >= self.needed {
            return (self.standing, false);
        }
        let reason = self.leases().find_map(MemberHold::loss).unwrap_or(LossReason::Expired);
        #[cfg(leasehold_fault)]
        if crate::faults::Fault::LateJoin.is_on() {
            return (Standing::Held, false);
        }
        self.standing = Standing::Lost(reason);
        (self.standing, true)
    }

    /// Adds the lease of a member. Returns what is to be released: the lease itself if it comes too late, or the lost
    /// one that it replaces.
    pub(super) fn join(&mut self, place: usize, lease: L) -> Option<L> {
        let may_join = self.look().0 == Standing::Held;
        match self.leases.get_mut(place).filter(|_| may_join) {
            Some(member) => member.replace(lease),
            None => Some(lease),
        }
    }

    /// Takes the lost lease of one member away. Members that are lost together keep their leases: they say why.
    pub(super) fn clear(&mut self, place: usize) -> Option<L> {
        if self.look().0 != Standing::Held {
            return None;
        }
        self.leases.get_mut(place)?.take_if(|lease| !lease.is_held())
    }

    /// Ends the composition, unless it is lost, and takes all leases away.
    pub(super) fn give_back(&mut self) -> (Standing, Vec<L>) {
        let before = self.look().0;
        if before == Standing::Held {
            self.standing = Standing::GivenBack;
        }
        (before, self.take())
    }

    /// Takes all leases away.
    pub(super) fn take(&mut self) -> Vec<L> {
        self.leases.iter_mut().filter_map(Option::take).collect()
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = &L> {
        self.leases.iter().flatten()
    }

    pub(super) fn lease(&self, place: usize) -> Option<&L> {
        self.leases.get(place)?.as_ref()
    }

    /// How many members are held now.
    pub(super) fn held(&self) -> usize {
        self.leases().filter(|lease| lease.is_held()).count()
    }

    pub(super) fn needed(&self) -> usize {
        self.needed
    }

    /// How many members there are, held or not.
    pub(super) fn count(&self) -> usize {
        self.leases.len()
    }
}

#[cfg(test)]
mod model;
