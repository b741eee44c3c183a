//! The inboxes of the scheduler: other threads put orders into the inbox of a slot's shard, and the driver empties each
//! inbox once a tick. A shard is an equal range of slots. There are several inboxes so that threads seldom wait for each
//! other.
//!
//! Each inbox has a limit of `inbox_max` orders. Beyond the limit nothing new is begun: no lock is acquired and no
//! manual renewal is accepted. Orders of an existing lease (its registration and its end) are always accepted.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use super::{manual::AnswerTo, ttl_check::TtlExpectation};
use crate::{lease::shared::LeaseCore, routing::slot::Slot};

/// An order from another part of the engine to the scheduler.
#[derive(Debug)]
pub(crate) enum Order {
    /// A new lease, with the ttl that its first renewal is expected to find.
    Register(Arc<LeaseCore>, TtlExpectation),
    /// The holder has taken the lease, whose renewal had to wait for that.
    Taken(Arc<LeaseCore>),
    /// The lease was released.
    Cancel(Arc<LeaseCore>),
    /// The write lease is a read lease from now on, which the server does not know yet.
    Downgrade(Arc<LeaseCore>),
    /// The holder requests at least this ttl from now on.
    Renew(Arc<LeaseCore>, Duration, AnswerTo),
}

/// The inboxes of one engine.
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

    /// Whether the inbox of this slot's shard has reached `inbox_max`. Callers begin nothing new then.
    pub(crate) fn is_full(&self, slot: Slot) -> bool {
        self.shard(slot).len() >= self.most
    }

    /// Whether the inbox of this slot's shard has reached half of `inbox_max`. Grants are not handed off then: each hand-off puts
    /// one or two orders in, and no command slows the callers down.
    pub(crate) fn is_half_full(&self, slot: Slot) -> bool {
        self.shard(slot).len() >= self.most / 2
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.len()
    }

    /// The lease has ended: it is no longer renewed.
    pub(crate) fn cancel(&self, lease: &Arc<LeaseCore>) {
        self.push(lease.key.slot(), Order::Cancel(lease.clone()));
    }

    /// The lease has ended. An order is put only if the scheduler has the lease already: it takes in no lease that has
    /// ended. One that it takes in meanwhile is removed when its renewal is due.
    pub(crate) fn cancel_known(&self, lease: &Arc<LeaseCore>) {
        if lease.ticket().is_some() {
            self.cancel(lease);
        }
    }

    /// Puts an order into the inbox of this slot's shard.
    pub(crate) fn push(&self, slot: Slot, order: Order) {
        let urgent = matches!(order, Order::Taken(_) | Order::Downgrade(_) | Order::Renew(..));
        self.shard(slot).push(order);
        if urgent {
            self.urgent.notify_one();
        }
    }

    /// Swaps a shard's orders for an empty list whose allocated memory is reused.
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
