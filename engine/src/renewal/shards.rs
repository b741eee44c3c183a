//! All renewal shards of an engine, and their shared queue of ready leases. Pure, like a shard.
//!
//! A batch is filled from the queue of its node. So the lease with the earliest deadline is sent first, whichever shard
//! keeps it, and a batch is sent full whenever enough leases are ready for its node.

use std::time::Duration;

use super::{
    batch::{Batch, ReadyQueue},
    batch_outcomes::BatchOutcomes,
    deadline_queue::Ready,
    inbox::Order,
    shard::{Event, Shard},
};
use crate::{
    clock::Instant,
    lease::shared::LeaseCore,
    routing::{
        moves::{Move, Moves},
        slot::Slot,
        topology::{Node, NodeId, Topology},
    },
    transport::{Call, ErrorKind, TransportError},
};

/// The shards, each with an equal range of slots.
#[derive(Debug)]
pub(crate) struct Shards {
    shards: Box<[Shard]>,
    ready: ReadyQueue,
    command_timeout: Duration,
    lateness: Vec<Duration>,
}

impl Shards {
    pub(crate) fn new(count: usize, now: Instant, command_timeout: Duration) -> Self {
        Self {
            shards: (0..count).map(|_| Shard::new(now)).collect(),
            ready: ReadyQueue::default(),
            command_timeout,
            lateness: Vec::new(),
        }
    }

    /// The number of leases in all shards.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    #[cfg(test)]
    pub(crate) fn first(&self) -> &Shard {
        &self.shards[0]
    }

    fn of(&mut self, slot: Slot) -> &mut Shard {
        &mut self.shards[slot.share(self.shards.len())]
    }

    pub(crate) fn handle_order(&mut self, order: Order, now: Instant, topology: &Topology) {
        self.of(order.lease().key.slot()).handle_order(order, now, topology);
    }

    /// Makes a lease due at once whose grant came from a server that is not the present server.
    pub(crate) fn doubt(&mut self, lease: &LeaseCore) {
        self.of(lease.key.slot()).doubt(lease);
    }

    /// Moves the wheels to `now`. A lease whose deadline has come is lost; a lease that is due becomes ready.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.shards.iter_mut().for_each(|shard| shard.advance(now));
    }

    /// Makes every lease due at once whose slot has moved, after a change of the topology. A shard without such a slot
    /// is not visited.
    pub(crate) fn handle_moves(&mut self, moves: &Moves) {
        self.ready.forget_grouping();
        let count = self.shards.len();
        for (number, shard) in self.shards.iter_mut().enumerate() {
            if moves.touch(number, count) {
                shard.expedite(|lease| moves.of(lease.key.slot()));
            }
        }
    }

    /// Makes every lease due at once for which `moved` returns a move: its server is not the server that the engine
    /// knew, or its server's clock stepped.
    pub(crate) fn expedite(&mut self, moved: impl Fn(&LeaseCore) -> Option<Move>) {
        self.shards.iter_mut().for_each(|shard| shard.expedite(&moved));
    }

    /// The batches of ready leases to be sent at `now`: the earliest deadline first, at most `free(node)` batches per
    /// node. A lease that is not sent stays ready, and its deadline stays in the wheel. A lease that no connected node
    /// serves is in jeopardy, and counts as one failed renewal each time it becomes due.
    pub(crate) fn take_batches(
        &mut self,
        now: Instant,
        topology: &Topology,
        free: impl Fn(NodeId) -> usize,
        counts: &mut BatchOutcomes,
    ) -> Vec<Batch> {
        self.regroup(now, topology, counts);
        self.place_readied(now, topology, counts);
        let mut batches = Vec::new();
        for node in topology.nodes().iter().filter(|node| node.connected) {
            let full = std::iter::repeat_with(|| self.take_batch(now, node)).take(free(node.id));
            batches.extend(full.take_while(|batch| !batch.members.is_empty()));
        }
        batches
    }

    // Tickets of leases that have ended stay in the queue until the queue is regrouped, at the latest when they are
    // more than half of the queue.
    fn regroup(&mut self, now: Instant, topology: &Topology, counts: &mut BatchOutcomes) {
        let most = 2 * self.len() + GONE_MIN;
        if self.ready.is_grouped_by(topology) && self.ready.len() <= most {
            return;
        }
        let (shards, count) = (&self.shards, self.shards.len());
        let is_ready = |ready: &Ready| shards[ready.slot.share(count)].is_ready(ready.ticket);
        for stranded in self.ready.regroup(topology, is_ready) {
            self.strand(stranded, now, topology, counts);
        }
    }

    fn place_readied(&mut self, now: Instant, topology: &Topology, counts: &mut BatchOutcomes) {
        for shard in 0..self.shards.len() {
            let (shards, ready) = (&mut self.shards, &mut self.ready);
            let stranded = shards[shard].take_readied().filter_map(|one| ready.push(one, topology));
            let stranded: Vec<Ready> = stranded.collect();
            stranded.into_iter().for_each(|one| self.strand(one, now, topology, counts));
        }
    }

    fn strand(&mut self, ready: Ready, now: Instant, topology: &Topology, counts: &mut BatchOutcomes) {
        let Some(labels) = self.of(ready.slot).strand(ready.ticket, now) else { return };
        let node = topology.serving(ready.slot).map(|node| node.id);
        let why = "no connected node serves the slot of the lease";
        counts.turn_to(Some(labels));
        counts.count_failed(&TransportError::without_effect(ErrorKind::Unreachable, node, why));
    }

    fn take_batch(&mut self, now: Instant, node: &Node) -> Batch {
        let Self { shards, ready, command_timeout, lateness, .. } = self;
        let (count, mut latest) = (shards.len(), Duration::ZERO);
        let batch = ready.pop_batch(node, |one| {
            let shard = &mut shards[one.slot.share(count)];
            let (renewal, late) = shard.send(one.ticket, now, *command_timeout)?;
            latest = latest.max(late);
            Some(renewal)
        });
        if !batch.members.is_empty() {
            lateness.push(latest);
        }
        batch
    }

    /// Applies the answers of a batch that was sent at `sent`, see [`Shard::handle_answers`].
    pub(crate) fn handle_answers(
        &mut self,
        answers: &[Call],
        sent: Instant,
        now: Instant,
        topology: &Topology,
        counts: &mut BatchOutcomes,
    ) -> bool {
        let count = self.shards.len();
        let home = |member: &Call| member.key.slot().share(count);
        let mut again = false;
        for members in answers.chunk_by(|one, next| home(one) == home(next)) {
            let shard = &mut self.shards[home(&members[0])];
            again |= shard.handle_answers(members, sent, now, topology, counts);
        }
        again
    }

    /// The lateness of each batch since the last call: the lateness of the batch's most overdue renewal.
    pub(crate) fn take_lateness(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.lateness)
    }

    /// The events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.shards.iter_mut().flat_map(Shard::take_events).collect()
    }
}

/// The number of ended leases in the queue up to which regrouping is not worth its cost.
const GONE_MIN: usize = 1_000;

#[cfg(test)]
#[path = "shards_tests.rs"]
mod tests;
