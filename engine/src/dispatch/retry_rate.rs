//! Rate limit of the entries that retry by themselves: after a reconnect all of them want to ask at once. The entry
//! whose caller has waited longest goes first (promise L2). An ask that follows an arrival, a notice or a release is
//! not held back.
//!
//! Each node has a queue of its own, so that retries against an unhealthy node do not delay retries against other
//! nodes. When the topology changes, waiting permits move to the queues of their new nodes, and the queues of nodes
//! that have left are removed.
//!
//! A driver keeps its permit until the permit is granted or no longer wanted; a permit that is no longer wanted is
//! removed from its queue. So the queues hold at most one permit per driven entry, and a driver waits for each permit
//! that is granted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    clock::Instant,
    core::Core,
    routing::{
        slot::Slot,
        topology::{NodeId, Topology},
    },
};

/// Hands out permits to retry.
#[derive(Debug, Default)]
pub(crate) struct RetryRate {
    queues: Mutex<Queues>,
}

/// The queues by the node that serves their slots. All slots without a node share one queue.
#[derive(Debug, Default)]
struct Queues {
    of: HashMap<Option<NodeId>, NodeQueue>,
    topology_epoch: Option<u64>,
    served: bool,
    next: u64,
}

#[derive(Debug, Default)]
struct NodeQueue {
    window: u64,
    used: usize,
    waiting: BTreeMap<Rank, Waiting>,
}

/// The moment since which the permit's caller has waited, then the permit's number. The lowest rank goes first.
type Rank = (Instant, u64);

#[derive(Debug)]
struct Waiting {
    slot: Slot,
    go: oneshot::Sender<()>,
}

/// A permit to ask for one key, granted or still waiting. Dropping it removes it from its queue.
pub(crate) struct RetryPermit {
    rate: Arc<RetryRate>,
    /// `None` once the permit is granted.
    waits: Option<(Rank, oneshot::Receiver<()>)>,
}

impl RetryPermit {
    /// Waits until the permit is granted. Dropping this future loses nothing.
    pub(crate) async fn granted(&mut self) {
        if let Some((_, go)) = &mut self.waits {
            let _ = go.await; // a dropped sender means that the engine has ended
            self.waits = None;
        }
    }
}

impl Drop for RetryPermit {
    fn drop(&mut self) {
        if let Some((rank, _)) = &self.waits {
            let left = self.rate.lock().leave(*rank);
            drop(left); // after the queues are unlocked
        }
    }
}

impl RetryRate {
    /// A permit to ask for a key of this slot. `oldest` is the moment since which the key's first caller has waited.
    pub(crate) fn permit(self: &Arc<Self>, core: &Arc<Core>, slot: Slot, oldest: Instant) -> RetryPermit {
        RetryPermit { rate: self.clone(), waits: self.enqueue(core, slot, oldest) }
    }

    fn enqueue(
        self: &Arc<Self>,
        core: &Arc<Core>,
        slot: Slot,
        oldest: Instant,
    ) -> Option<(Rank, oneshot::Receiver<()>)> {
        let topology = core.calls.topology();
        let mut queues = self.lock();
        queues.regroup(topology.as_deref());
        let waiting = queues.enqueue(topology.as_deref(), slot, oldest, core.clock.now())?;
        if !std::mem::replace(&mut queues.served, true) {
            core.spawn(serve(core.clone(), self.clone()));
        }
        Some(waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Keeps the queues of nodes that are in the topology. A permit whose slot has moved changes its queue.
    fn regroup(&mut self, topology: Option<&Topology>) {
        let epoch = topology.map(Topology::epoch);
        if epoch == self.topology_epoch {
            return;
        }
        self.topology_epoch = epoch;
        let queues = self.of.values_mut();
        let all: Vec<_> = queues.flat_map(|queue| std::mem::take(&mut queue.waiting)).collect();
        self.of.retain(|node, _| is_there(topology, *node));
        for (rank, waiting) in all {
            self.queue(topology, waiting.slot).waiting.insert(rank, waiting);
        }
    }

    /// `None`: the permit is granted at once.
    fn enqueue(
        &mut self,
        topology: Option<&Topology>,
        slot: Slot,
        oldest: Instant,
        now: Instant,
    ) -> Option<(Rank, oneshot::Receiver<()>)> {
        self.next += 1;
        let rank = (oldest, self.next);
        let queue = self.queue(topology, slot);
        if queue.waiting.is_empty() && queue.admit(now) {
            return None;
        }
        let (go, gone) = oneshot::channel();
        queue.waiting.insert(rank, Waiting { slot, go });
        Some((rank, gone))
    }

    /// Removes a permit that is no longer wanted.
    fn leave(&mut self, rank: Rank) -> Option<oneshot::Sender<()>> {
        self.of.values_mut().find_map(|queue| queue.waiting.remove(&rank)).map(|waiting| waiting.go)
    }

    fn take_admitted(&mut self, now: Instant) -> Vec<oneshot::Sender<()>> {
        let admitted = self.of.values_mut().flat_map(|queue| queue.take_admitted(now)).collect();
        self.served = self.of.values().any(|queue| !queue.waiting.is_empty());
        admitted
    }

    fn queue(&mut self, topology: Option<&Topology>, slot: Slot) -> &mut NodeQueue {
        let node = topology.and_then(|topology| topology.serving(slot)).map(|node| node.id);
        self.of.entry(node).or_default()
    }
}

fn is_there(topology: Option<&Topology>, node: Option<NodeId>) -> bool {
    node.is_none_or(|node| topology.is_some_and(|topology| topology.node(node).is_some()))
}

impl NodeQueue {
    fn admit(&mut self, now: Instant) -> bool {
        let window = now.as_nanos() / WINDOW_NANOS;
        if window != self.window {
            (self.window, self.used) = (window, 0);
        }
        self.used += 1;
        self.used <= PER_WINDOW
    }

    fn take_admitted(&mut self, now: Instant) -> Vec<oneshot::Sender<()>> {
        let mut admitted = Vec::new();
        while !self.waiting.is_empty() && self.admit(now) {
            admitted.extend(self.waiting.pop_first().map(|(_, waiting)| waiting.go));
        }
        admitted
    }
}

// Runs only while permits wait.
async fn serve(core: Arc<Core>, rate: Arc<RetryRate>) {
    loop {
        core.clock.sleep_until(core.clock.now() + WINDOW).await;
        let (admitted, more) = {
            let topology = core.calls.topology();
            let mut queues = rate.lock();
            queues.regroup(topology.as_deref());
            (queues.take_admitted(core.clock.now()), queues.served)
        };
        for go in admitted {
            let _ = go.send(());
        }
        if !more {
            return;
        }
    }
}

/// 50 permits in each window of 10 ms: 5,000 per second and node.
const PER_WINDOW: usize = 50;
const WINDOW: Duration = Duration::from_millis(10);
const WINDOW_NANOS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::{
        slot::SLOTS,
        topology::{Batching, ClockId, Node, SlotRange},
    };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn topology(epoch: u64, nodes: &[u32]) -> Topology {
        let each = usize::from(SLOTS) / nodes.len();
        let slot = |number: usize| Slot::from_number(number as u16).unwrap();
        let ranges = nodes.iter().enumerate().map(|(place, id)| SlotRange {
            first: slot(place * each),
            last: slot((place + 1) * each - 1),
            node: NodeId(*id),
        });
        let node = |id: &u32| Node {
            id: NodeId(*id),
            address: format!("node {id}"),
            clock: ClockId { node: NodeId(*id), epoch: 1 },
            up_since: None,
            run_id: None,
            connected: true,
            batch_leases_max: 100,
            batching: Batching::AcrossSlots,
        };
        Topology::new(epoch, nodes.iter().map(node).collect(), ranges.collect())
    }

    fn first() -> Slot {
        Slot::from_number(0).unwrap()
    }

    fn last() -> Slot {
        Slot::from_number(SLOTS - 1).unwrap()
    }

    #[test]
    fn l2_no_more_than_5000_a_second_and_the_longest_wait_first() {
        let (mut queues, topology) = (Queues::default(), topology(1, &[0]));
        let mut enqueue = |oldest| queues.enqueue(Some(&topology), first(), at(oldest), at(1000));
        assert_eq!((0..PER_WINDOW).filter(|_| enqueue(0).is_none()).count(), PER_WINDOW);
        let mut gone: Vec<_> = [30, 10, 20].into_iter().map(|oldest| enqueue(oldest).unwrap()).collect();
        assert!(queues.take_admitted(at(1005)).is_empty());
        queues.of.get_mut(&Some(NodeId(0))).unwrap().window = 101;
        queues.of.get_mut(&Some(NodeId(0))).unwrap().used = PER_WINDOW - 2;
        let admitted = queues.take_admitted(at(1010));
        assert_eq!(admitted.len(), 2);
        admitted.into_iter().for_each(|go| assert!(go.send(()).is_ok()));
        assert_eq!(
            gone.iter_mut().map(|(_, gone)| gone.try_recv().is_ok()).collect::<Vec<_>>(),
            [false, true, true]
        );
        assert!(queues.served);
    }

    #[test]
    fn l2_the_line_of_one_node_holds_nobody_of_another_back() {
        let (mut queues, topology) = (Queues::default(), topology(1, &[0, 1]));
        let bad: Vec<_> =
            (0..10_000).filter_map(|_| queues.enqueue(Some(&topology), first(), at(0), at(1000))).collect();
        assert_eq!(bad.len(), 10_000 - PER_WINDOW);
        let others = (0..PER_WINDOW).filter_map(|_| queues.enqueue(Some(&topology), last(), at(1), at(1000)));
        assert_eq!(others.count(), 0, "all of them at once");
        let other = queues.enqueue(Some(&topology), last(), at(1), at(1000));
        let admitted = queues.take_admitted(at(1010));
        assert_eq!(admitted.len(), PER_WINDOW + 1);
        admitted.into_iter().for_each(|go| assert!(go.send(()).is_ok()));
        assert!(other.unwrap().1.try_recv().is_ok());
    }

    #[test]
    fn who_waits_for_a_node_that_has_left_waits_for_its_follower_and_the_line_is_gone() {
        let mut queues = Queues::default();
        let (before, after) = (topology(1, &[0, 1]), topology(2, &[2, 1]));
        queues.regroup(Some(&before));
        let waiting: Vec<_> = (0..PER_WINDOW + 7)
            .filter_map(|_| queues.enqueue(Some(&before), first(), at(0), at(1000)))
            .collect();
        queues.regroup(Some(&after));
        assert_eq!(queues.of.keys().collect::<Vec<_>>(), [&Some(NodeId(2))]);
        queues.regroup(None);
        assert_eq!(queues.of.keys().collect::<Vec<_>>(), [&None]);
        assert_eq!((waiting.len(), queues.take_admitted(at(1000)).len()), (7, 7));
        assert!(!queues.served);
    }

    #[test]
    fn l5_turns_that_are_not_wanted_any_more_hold_no_other_back() {
        let (mut queues, topology) = (Queues::default(), topology(1, &[0]));
        let mut enqueue = |oldest| queues.enqueue(Some(&topology), first(), at(oldest), at(1000));
        (0..PER_WINDOW).for_each(|_| assert!(enqueue(0).is_none()));
        let left: Vec<_> = (0..10_000).map(|_| enqueue(1).unwrap()).collect();
        let (_, mut waits) = enqueue(2).unwrap();
        left.into_iter().for_each(|(rank, _)| assert!(queues.leave(rank).is_some()));
        let admitted = queues.take_admitted(at(1010));
        assert_eq!((admitted.len(), queues.served), (1, false));
        admitted.into_iter().for_each(|go| assert!(go.send(()).is_ok()));
        assert!(waits.try_recv().is_ok());
    }

    #[test]
    fn a_turn_that_was_lined_up_anew_can_be_taken_out() {
        let mut queues = Queues::default();
        let (before, after) = (topology(1, &[0, 1]), topology(2, &[2, 1]));
        queues.regroup(Some(&before));
        let waiting: Vec<_> = (0..PER_WINDOW + 1)
            .filter_map(|_| queues.enqueue(Some(&before), first(), at(0), at(1000)))
            .collect();
        queues.regroup(Some(&after));
        let [(rank, _)] = &waiting[..] else { panic!("{waiting:?}") };
        assert!(queues.leave(*rank).is_some() && queues.leave(*rank).is_none());
        assert!(queues.take_admitted(at(1010)).is_empty());
    }
}
