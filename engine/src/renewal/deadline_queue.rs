//! Ready leases in the order of their deadlines. Pure.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use crate::{clock::Instant, routing::slot::Slot};

/// A lease that is due for renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) deadline: Instant,
    /// The lease's ticket.
    pub(crate) ticket: u64,
    pub(crate) slot: Slot,
    /// The queue has already reported that no connected node serves the slot.
    pub(super) is_reported: bool,
}

impl Ready {
    pub(crate) fn new(deadline: Instant, ticket: u64, slot: Slot) -> Self {
        Self { deadline, ticket, slot, is_reported: false }
    }
}

/// Ready leases, the earliest deadline last. The wheel emits leases in deadline order most of the time, and sorting a
/// nearly sorted vector costs less than a heap's sift-down for each lease.
#[derive(Debug, Default)]
pub(crate) struct DeadlineQueue {
    ready: Vec<Ready>,
    earliest: Option<Instant>,
    is_mixed: bool,
}

impl DeadlineQueue {
    pub(crate) fn push(&mut self, ready: Ready) {
        let is_first = self.earliest.is_none_or(|earliest| ready.deadline <= earliest);
        self.is_mixed |= !is_first;
        if is_first {
            self.earliest = Some(ready.deadline);
        }
        self.ready.push(ready);
    }

    /// Removes the lease with the earliest deadline.
    pub(crate) fn pop(&mut self) -> Option<Ready> {
        if std::mem::take(&mut self.is_mixed) {
            self.ready.sort_by_key(|ready| Reverse(ready.deadline));
        }
        let first = self.ready.pop();
        self.earliest = self.ready.last().map(|next| next.deadline);
        first
    }

    /// The earliest deadline in the queue.
    fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    pub(crate) fn into_ready(self) -> impl Iterator<Item = Ready> {
        self.ready.into_iter()
    }
}

/// One queue per slot, for a node that takes one call per slot. `order` lists each queue at least once under the
/// earliest deadline of its leases. `drain` skips every other item of `order`.
#[derive(Debug, Default)]
pub(crate) struct SlotQueues {
    queues: HashMap<Slot, DeadlineQueue>,
    order: BinaryHeap<Reverse<(Instant, Slot)>>,
    len: usize,
}

impl SlotQueues {
    pub(crate) fn push(&mut self, ready: Ready) {
        let queue = self.queues.entry(ready.slot).or_default();
        if queue.earliest().is_none_or(|earliest| ready.deadline < earliest) {
            self.order.push(Reverse((ready.deadline, ready.slot)));
        }
        queue.push(ready);
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Removes one lease after the other until `take` returns `false` or no lease is left. The slot with the earliest
    /// deadline comes first, with all of its leases.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Ready) -> bool) {
        while let Some(Reverse((deadline, slot))) = self.order.pop() {
            let Some(queue) = self.queues.get_mut(&slot) else { continue };
            if queue.earliest() != Some(deadline) {
                continue;
            }
            while let Some(first) = queue.pop() {
                self.len -= 1;
                if take(first) {
                    continue;
                }
                match queue.earliest() {
                    Some(next) => self.order.push(Reverse((next, slot))),
                    None => drop(self.queues.remove(&slot)),
                }
                return;
            }
            self.queues.remove(&slot);
        }
    }

    pub(crate) fn into_ready(self) -> impl Iterator<Item = Ready> {
        self.queues.into_values().flat_map(DeadlineQueue::into_ready)
    }
}
