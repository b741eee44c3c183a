//! The callers that wait for permits or for an open latch, in their order. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
};

use super::work::{Caller, CallerId, Patience, Work};
use crate::clock::Instant;

/// The waiting callers of one counter.
#[derive(Clone, Debug)]
pub(crate) struct Waiting<R> {
    callers: BTreeMap<CallerId, Caller<R>>,
    deadlines: BTreeSet<(Instant, CallerId)>,
    trying: BTreeSet<CallerId>,
}

impl<R> Default for Waiting<R> {
    fn default() -> Self {
        Self { callers: BTreeMap::new(), deadlines: BTreeSet::new(), trying: BTreeSet::new() }
    }
}

impl<R> Waiting<R> {
    pub(super) fn add(&mut self, caller: Caller<R>) {
        match caller.patience {
            Patience::Try => drop(self.trying.insert(caller.id)),
            Patience::Wait(Some(deadline)) => drop(self.deadlines.insert((deadline, caller.id))),
            Patience::Wait(None) => {}
        }
        self.callers.insert(caller.id, caller);
    }

    pub(super) fn remove(&mut self, id: CallerId) -> Option<Caller<R>> {
        let caller = self.callers.remove(&id)?;
        match caller.patience {
            Patience::Try => drop(self.trying.remove(&id)),
            Patience::Wait(Some(deadline)) => drop(self.deadlines.remove(&(deadline, id))),
            Patience::Wait(None) => {}
        }
        Some(caller)
    }

    pub(super) fn remove_all(&mut self) -> Vec<Caller<R>> {
        let callers = std::mem::take(&mut self.callers);
        (self.deadlines, self.trying) = Default::default();
        callers.into_values().collect()
    }

    /// Removes the first caller if its permits are at most this many.
    pub(super) fn take_first_within(&mut self, permits: u64) -> Option<Caller<R>> {
        let first = self.callers.values().next().filter(|caller| u64::from(wanted(caller)) <= permits)?;
        self.remove(first.id)
    }

    /// The first callers, at most `max`, and the permits that each wants.
    pub(super) fn first(&self, max: usize) -> Vec<(CallerId, NonZeroU32)> {
        let wants = self.callers.values().filter_map(|caller| match caller.work {
            Work::Take(permits) => Some((caller.id, permits)),
            _ => None,
        });
        wants.take(max).collect()
    }

    /// How many permits the first caller wants; none of a latch.
    pub(super) fn first_want(&self) -> Option<NonZeroU32> {
        match self.callers.values().next()?.work {
            Work::Take(permits) => Some(permits),
            _ => None,
        }
    }

    /// The callers that came up to this one.
    pub(super) fn up_to(&self, last: CallerId) -> Vec<CallerId> {
        self.callers.range(..=last).map(|(id, _)| *id).collect()
    }

    /// The callers that only try, and those whose deadline is not after `moment`.
    pub(super) fn impatient_at(&self, moment: Instant) -> Vec<CallerId> {
        let trying = self.trying.iter().copied().filter(|id| self.joined_by(*id, moment));
        trying.chain(self.due_by(moment)).collect()
    }

    /// The callers whose deadline is not after `moment`.
    pub(super) fn due_by(&self, moment: Instant) -> impl Iterator<Item = CallerId> + '_ {
        self.deadlines.iter().take_while(move |(deadline, _)| *deadline <= moment).map(|(_, id)| *id)
    }

    /// The callers that came by `moment`, the first first.
    pub(super) fn came_by(&self, moment: Instant) -> Vec<CallerId> {
        let callers = self.callers.values().take_while(|caller| caller.joined <= moment);
        callers.map(|caller| caller.id).collect()
    }

    pub(super) fn first_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn first_joined(&self) -> Option<Instant> {
        self.callers.values().next().map(|caller| caller.joined)
    }

    pub(super) fn last(&self) -> CallerId {
        self.callers.last_key_value().map_or(0, |(id, _)| *id)
    }

    pub(super) fn contains(&self, id: CallerId) -> bool {
        self.callers.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.callers.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    fn joined_by(&self, id: CallerId, moment: Instant) -> bool {
        self.callers.get(&id).is_some_and(|caller| caller.joined <= moment)
    }
}

/// The permits that a caller wants; none of a latch.
fn wanted<R>(caller: &Caller<R>) -> u32 {
    match caller.work {
        Work::Take(permits) => permits.get(),
        _ => u32::MAX,
    }
}
