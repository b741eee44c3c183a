//! What one engine sends to each node: one outbox per node. Pure.
//!
//! An outbox has the calls that wait to be sent, and the work that waits for a permit to start. A node that does not answer
//! fills only its own outbox. When the slots move, what waits moves to the outboxes of its new nodes.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    call_queue::{CallQueue, Timed},
    permit_queue::{Limit, PermitQueue, Rank},
};
use crate::{
    clock::Instant,
    routing::{
        slot::Slot,
        topology::{Batching, NodeId, Topology},
    },
};

/// Something that is sent to the node that serves a slot.
pub(crate) trait Routed {
    /// The slot of its key.
    fn slot(&self) -> Slot;
}

/// The kinds of work that wait for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// An entry asks again by itself.
    Retry,
    /// A call of a list.
    Bulk,
    /// The release of an owner that no server has confirmed.
    Closing,
}

pub(crate) const WORK_KINDS: [WorkKind; 3] = [WorkKind::Retry, WorkKind::Bulk, WorkKind::Closing];

/// What is sent to one node.
#[derive(Debug)]
pub(crate) struct Outbox<C, W> {
    pub(crate) calls: CallQueue<C>,
    work: [PermitQueue<W>; 3],
}

impl<C: Timed, W> Outbox<C, W> {
    fn new(bulk_in_flight_max: usize) -> Self {
        let limit_of = |kind| match kind {
            WorkKind::Retry => Limit { in_use: usize::MAX, is_paced: true },
            WorkKind::Bulk => Limit { in_use: bulk_in_flight_max, is_paced: false },
            WorkKind::Closing => Limit { in_use: CLOSING_MAX, is_paced: false },
        };
        Self { calls: CallQueue::default(), work: WORK_KINDS.map(|kind| PermitQueue::new(limit_of(kind))) }
    }

    pub(crate) fn work(&mut self, kind: WorkKind) -> &mut PermitQueue<W> {
        &mut self.work[kind as usize]
    }

    /// The node has answered something.
    pub(crate) fn handle_answer(&mut self, now: Instant) {
        self.calls.handle_answer(now);
        self.work(WorkKind::Closing).handle_answer();
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.calls.is_silent() || self.work.iter().any(PermitQueue::is_silent)
    }

    fn is_idle(&self) -> bool {
        self.calls.is_idle() && self.work.iter().all(PermitQueue::is_idle)
    }
}

/// The outboxes of one engine. All slots without a node share one.
#[derive(Debug)]
pub(crate) struct Outboxes<C, W> {
    of: HashMap<Option<NodeId>, Outbox<C, W>>,
    /// The nodes of `of`. Permits are granted to them, and to the kinds of work, in turn.
    nodes: Vec<Option<NodeId>>,
    turn: usize,
    epoch: Option<u64>,
    next: u64,
    bulk_in_flight_max: usize,
}

/// Work whose permit was granted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Granted<W> {
    pub(crate) work: W,
    pub(crate) node: Option<NodeId>,
    pub(crate) kind: WorkKind,
    /// The node has answered something since it was silent.
    pub(crate) node_answers: bool,
}

impl<C: Routed + Timed, W: Routed> Outboxes<C, W> {
    pub(crate) fn new(bulk_in_flight_max: usize) -> Self {
        Self { of: HashMap::new(), nodes: Vec::new(), turn: 0, epoch: None, next: 0, bulk_in_flight_max }
    }

    /// Follows the slots to their nodes. `None`: the topology is the same as before. Otherwise returns the calls that cannot
    /// wait any more, as [`put_call`](Self::put_call) does.
    pub(crate) fn handle_topology(&mut self, topology: Option<&Topology>, now: Instant) -> Option<Vec<C>> {
        let epoch = topology.map(Topology::epoch);
        if std::mem::replace(&mut self.epoch, epoch) == epoch {
            return None;
        }
        let (mut calls, mut work) = (Vec::new(), Vec::new());
        for outbox in self.of.values_mut() {
            outbox.calls.handle_topology(now);
            calls.extend(outbox.calls.take_waiting());
            for kind in WORK_KINDS {
                outbox.work(kind).handle_topology();
                work.extend(
                    outbox.work(kind).take_waiting().into_iter().map(|(rank, work)| (kind, rank, work)),
                );
            }
        }
        let is_there = |node: Option<NodeId>| {
            node.is_none_or(|node| topology.is_some_and(|topology| topology.node(node).is_some()))
        };
        self.of.retain(|node, outbox| is_there(*node) || !outbox.is_idle());
        self.nodes.retain(|node| self.of.contains_key(node));
        for (kind, rank, work) in work {
            let node = node_of(topology, work.slot());
            self.outbox(node).work(kind).put_back(rank, work, now);
        }
        Some(calls.into_iter().filter_map(|call| self.put_call(topology, call, now).err()).collect())
    }

    /// Puts a call into the outbox of its node, and returns the node.
    ///
    /// # Errors
    /// The call, if no node serves its slot.
    pub(crate) fn put_call(
        &mut self,
        topology: Option<&Topology>,
        call: C,
        now: Instant,
    ) -> Result<NodeId, C> {
        let node = topology.and_then(|topology| topology.serving(call.slot()));
        let Some(node) = node else { return Err(call) };
        let queue = &mut self.outbox(Some(node.id)).calls;
        queue.takes_groups = node.batching == Batching::AcrossSlots;
        if let Some(round_trip) = node.round_trip {
            queue.window.expect(round_trip, now);
        }
        queue.put(call);
        Ok(node.id)
    }

    /// Takes in the round trip of a call that was sent to this node while nothing was unanswered.
    pub(crate) fn note_round_trip(&mut self, node: NodeId, took: Duration, now: Instant) {
        self.outbox(Some(node)).calls.window.sample(took, now);
    }

    /// Puts work into the outbox of its node. `since`: the earliest goes first; work of one moment goes in the order in which
    /// it came.
    ///
    /// # Errors
    /// The rank of the work, if it waits.
    pub(crate) fn put_work(
        &mut self,
        topology: Option<&Topology>,
        (kind, since): (WorkKind, Instant),
        work: W,
        now: Instant,
    ) -> Result<Granted<W>, Rank> {
        self.next += 1;
        let (rank, node) = ((since, self.next), node_of(topology, work.slot()));
        let queue = self.outbox(node).work(kind);
        let work = queue.enter(rank, work, now).ok_or(rank)?;
        Ok(Granted { work, node, kind, node_answers: queue.has_answered() })
    }

    /// Puts work behind all work of its kind that came earlier, also if the limit would allow it now.
    pub(crate) fn wait_for_permit(
        &mut self,
        topology: Option<&Topology>,
        (kind, since): (WorkKind, Instant),
        work: W,
        now: Instant,
    ) {
        self.next += 1;
        let (rank, node) = ((since, self.next), node_of(topology, work.slot()));
        self.outbox(node).work(kind).put_back(rank, work, now);
    }

    /// Work whose permit can be granted now.
    pub(crate) fn take_granted(&mut self, now: Instant) -> Option<Granted<W>> {
        self.turn = self.turn.wrapping_add(1);
        let (turn, queues) = (self.turn, self.nodes.len() * WORK_KINDS.len());
        (0..queues).find_map(|step| {
            let place = (turn % queues + step) % queues;
            let (node, kind) = (self.nodes[place / WORK_KINDS.len()], WORK_KINDS[place % WORK_KINDS.len()]);
            let queue = self.of.get_mut(&node)?.work(kind);
            let work = queue.take(now)?;
            Some(Granted { work, node, kind, node_answers: queue.has_answered() })
        })
    }

    /// When time alone lets work start. `None`: not before a permit is returned or work comes.
    pub(crate) fn next_look(&mut self, now: Instant) -> Option<Instant> {
        let outboxes = self.of.values_mut();
        outboxes.flat_map(|outbox| outbox.work.iter_mut().filter_map(|queue| queue.next_look(now))).min()
    }

    /// The outbox of a node, if it has one.
    pub(crate) fn get(&mut self, node: Option<NodeId>) -> Option<&mut Outbox<C, W>> {
        self.of.get_mut(&node)
    }

    /// The node that serves this slot has not answered a release.
    pub(crate) fn begin_silence(&mut self, topology: Option<&Topology>, slot: Slot, now: Instant) {
        self.outbox(node_of(topology, slot)).work(WorkKind::Closing).begin_silence(now);
    }

    /// Takes work that is not wanted any more.
    pub(crate) fn remove_work(&mut self, kind: WorkKind, rank: Rank) -> Option<W> {
        self.of.values_mut().find_map(|outbox| outbox.work(kind).remove(rank))
    }

    /// Takes all work of a kind that waits, in its order.
    pub(crate) fn take_work(&mut self, kind: WorkKind) -> Vec<W> {
        let queues = self.of.values_mut().map(|outbox| outbox.work(kind));
        queues.flat_map(PermitQueue::take_waiting).collect::<BTreeMap<_, _>>().into_values().collect()
    }

    /// Whether a node is silent. Slots without a node have none that could answer.
    pub(crate) fn has_silent(&self) -> bool {
        self.of.iter().any(|(node, outbox)| node.is_some() && outbox.is_silent())
    }

    /// The number of nodes whose calls are held back, because they are silent.
    pub(crate) fn silent_nodes(&self) -> usize {
        self.of.values().filter(|outbox| outbox.calls.is_silent()).count()
    }

    /// The epoch of the topology that was taken in last.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// The calls that wait, with their nodes.
    pub(crate) fn waiting_calls(&self) -> impl Iterator<Item = &C> {
        self.of.values().flat_map(|outbox| outbox.calls.waiting())
    }

    /// Takes all waiting calls.
    pub(crate) fn take_calls(&mut self) -> Vec<C> {
        self.of.values_mut().flat_map(|outbox| outbox.calls.take_waiting()).collect()
    }

    /// Takes the waiting calls of all nodes that end unsent, and the nodes.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<(Option<NodeId>, C, Instant)> {
        let taken = self.of.iter_mut().map(|(node, outbox)| (*node, outbox.calls.take_overdue(now)));
        taken
            .flat_map(|(node, over)| over.into_iter().map(move |(call, since)| (node, call, since)))
            .collect()
    }

    /// When calls are sent at the latest that wait for others to go with.
    pub(crate) fn gathers_until(&self) -> Option<Instant> {
        self.of.values().filter_map(|outbox| outbox.calls.gathers_until()).min()
    }

    /// The nodes with calls that have waited for others for long enough.
    pub(crate) fn nodes_that_gathered(&self, now: Instant) -> Vec<NodeId> {
        let has_gathered = |calls: &CallQueue<C>| calls.gathers_until().is_some_and(|until| until <= now);
        self.of
            .iter()
            .filter(|(_, outbox)| has_gathered(&outbox.calls))
            .filter_map(|(node, _)| *node)
            .collect()
    }

    /// Whether no call waits.
    pub(crate) fn is_without_calls(&self) -> bool {
        self.waiting_calls().next().is_none()
    }

    fn outbox(&mut self, node: Option<NodeId>) -> &mut Outbox<C, W> {
        let (nodes, bulk_in_flight_max) = (&mut self.nodes, self.bulk_in_flight_max);
        self.of.entry(node).or_insert_with(|| {
            nodes.push(node);
            Outbox::new(bulk_in_flight_max)
        })
    }
}

fn node_of(topology: Option<&Topology>, slot: Slot) -> Option<NodeId> {
    topology.and_then(|topology| topology.serving(slot)).map(|node| node.id)
}

/// How many releases of unconfirmed owners may be unanswered. They go together to a node that answers, behind the calls that
/// wait already; so many of them take a server a few milliseconds.
const CLOSING_MAX: usize = 1_024;

#[cfg(test)]
mod tests;
