//! How other threads reach the shards: a queue each, emptied once a tick.
//!
//! Each has room for `inbox_max` orders. Beyond it nothing new is begun: no lock is asked for, no renewal by hand taken.
//! What belongs to a lease that is there already is always taken in: its registering and its end.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::{manual::AnswerTo, ttl_check::TtlExpectation};
use crate::{lease::shared::LeaseCore, routing::slot::Slot};

/// What other parts of the engine tell a shard.
#[derive(Debug)]
pub(crate) enum Order {
    /// A new lease, with its baseline for the found ttl.
    Register(Arc<LeaseCore>, TtlExpectation),
    /// A holder has taken the lease, and its renewal has waited for that.
    Taken(Arc<LeaseCore>),
    /// The lease was released.
    Cancel(Arc<LeaseCore>),
    /// The holder wants at least this long from now on.
    Renew(Arc<LeaseCore>, Duration, AnswerTo),
}

impl Order {
    /// The lease that it is about.
    pub(crate) fn lease(&self) -> &Arc<LeaseCore> {
        match self {
            Order::Register(lease, _)
            | Order::Taken(lease)
            | Order::Cancel(lease)
            | Order::Renew(lease, ..) => lease,
        }
    }
}

/// The inboxes of all shards of one engine.
#[derive(Debug)]
pub(crate) struct Inboxes {
    shards: Box<[Mutex<Vec<Order>>]>,
    most: usize,
    urgent: Notify,
}

impl Inboxes {
    pub(crate) fn new(shards: usize, most: usize) -> Self {
        Self { shards: (0..shards).map(|_| Mutex::default()).collect(), most, urgent: Notify::new() }
    }

    /// Whether the shard of this slot should get nothing new to do for now.
    pub(crate) fn is_full(&self, slot: Slot) -> bool {
        self.shard(slot).len() >= self.most
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// The lease has ended: it is renewed no more.
    pub(crate) fn cancel(&self, lease: &Arc<LeaseCore>) {
        self.push(lease.key.slot(), Order::Cancel(lease.clone()));
    }

    /// Leaves an order for the shard of this slot.
    pub(crate) fn push(&self, slot: Slot, order: Order) {
        let urgent = matches!(order, Order::Taken(_) | Order::Renew(..));
        self.shard(slot).push(order);
        if urgent {
            self.urgent.notify_one();
        }
    }

    /// Swaps a shard's orders for an empty list whose room is used again.
    pub(crate) fn take(&self, shard: usize, emptied: &mut Vec<Order>) {
        std::mem::swap(&mut *self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner), emptied);
    }

    fn shard(&self, slot: Slot) -> MutexGuard<'_, Vec<Order>> {
        let shard = &self.shards[slot.share(self.shards.len())];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an order that should not wait for the next tick.
    pub(crate) async fn urgent(&self) {
        self.urgent.notified().await;
    }
}
