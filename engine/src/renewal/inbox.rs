//! How other threads reach the shards: a queue each, emptied once a tick.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::{found_ttl::Baseline, wishes::AnswerTo};
use crate::{lease::shared::LeaseCore, routing::slot::Slot};

/// What other parts of the engine tell a shard.
#[derive(Debug)]
pub(crate) enum Order {
    /// A new lease, with its baseline for the found ttl.
    Register(Arc<LeaseCore>, Baseline),
    /// The lease was released.
    Cancel(Arc<LeaseCore>),
    /// The holder wants at least this long from now on.
    Renew(Arc<LeaseCore>, Duration, AnswerTo),
}

/// The inboxes of all shards of one engine.
#[derive(Debug)]
pub(crate) struct Inboxes {
    shards: Box<[Mutex<Vec<Order>>]>,
    urgent: Notify,
}

impl Inboxes {
    pub(crate) fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Mutex::default()).collect(), urgent: Notify::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// Leaves an order for the shard of this slot.
    pub(crate) fn push(&self, slot: Slot, order: Order) {
        let urgent = matches!(order, Order::Renew(..));
        let shard = &self.shards[slot.share(self.shards.len())];
        shard.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        if urgent {
            self.urgent.notify_one();
        }
    }

    /// Swaps a shard's orders for an empty list whose room is used again.
    pub(crate) fn take(&self, shard: usize, emptied: &mut Vec<Order>) {
        std::mem::swap(&mut *self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner), emptied);
    }

    /// Waits for an order that should not wait for the next tick.
    pub(crate) async fn urgent(&self) {
        self.urgent.notified().await;
    }
}
