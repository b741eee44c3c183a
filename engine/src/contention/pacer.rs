//! Bounds how many entries ask a node again by themselves: after a reconnect all of them want to at once. The longest
//! wait goes first (promise L2). Asks that follow an arrival, a notice or a release are not held back.
//!
//! Each node has a line of its own, so that what is asked of a bad node, and asked again, delays nobody elsewhere. When
//! the topology changes, who waits is lined up anew and the lines of nodes that have left are gone.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    clock::Instant,
    routing::{
        slot::Slot,
        topology::{NodeId, Topology},
    },
    works::Works,
};

/// Hands out turns to ask.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    lines: Mutex<Lines>,
}

/// The lines, by the node that serves their slots; slots without a node have one together.
#[derive(Debug, Default)]
struct Lines {
    of: HashMap<Option<NodeId>, Line>,
    topology_epoch: Option<u64>,
    served: bool,
    next: u64,
}

#[derive(Debug, Default)]
struct Line {
    window: u64,
    used: usize,
    waiting: BinaryHeap<Reverse<Turn>>,
}

/// Ordered by how long its caller has waited.
#[derive(Debug)]
struct Turn {
    oldest: Instant,
    number: u64,
    slot: Slot,
    go: oneshot::Sender<()>,
}

impl Pacer {
    /// Waits for a turn to ask for a key of this slot.
    pub(crate) async fn turn(&self, works: &Arc<Works>, slot: Slot, oldest: Instant) {
        let Some(go) = self.enqueue(works, slot, oldest) else { return };
        let _ = go.await; // a dropped sender means the engine has ended
    }

    fn enqueue(&self, works: &Arc<Works>, slot: Slot, oldest: Instant) -> Option<oneshot::Receiver<()>> {
        let topology = works.calls.topology();
        let mut lines = self.lock();
        lines.line_up_anew(topology.as_deref());
        let waiting = lines.enqueue(topology.as_deref(), slot, oldest, works.clock.now())?;
        if !std::mem::replace(&mut lines.served, true) {
            works.spawn(serve(works.clone()));
        }
        Some(waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Keeps the lines of nodes that are there; whose slot has moved changes the line.
    fn line_up_anew(&mut self, topology: Option<&Topology>) {
        let epoch = topology.map(Topology::epoch);
        if epoch == self.topology_epoch {
            return;
        }
        self.topology_epoch = epoch;
        let turns: Vec<Turn> =
            self.of.values_mut().flat_map(|line| line.waiting.drain()).map(|Reverse(turn)| turn).collect();
        self.of.retain(|node, _| is_there(topology, *node));
        for turn in turns {
            self.line(topology, turn.slot).waiting.push(Reverse(turn));
        }
    }

    /// `None`: the turn has come already.
    fn enqueue(
        &mut self,
        topology: Option<&Topology>,
        slot: Slot,
        oldest: Instant,
        now: Instant,
    ) -> Option<oneshot::Receiver<()>> {
        self.next += 1;
        let number = self.next;
        let line = self.line(topology, slot);
        if line.waiting.is_empty() && line.admit(now) {
            return None;
        }
        let (go, gone) = oneshot::channel();
        line.waiting.push(Reverse(Turn { oldest, number, slot, go }));
        Some(gone)
    }

    fn take_admitted(&mut self, now: Instant) -> Vec<oneshot::Sender<()>> {
        let admitted = self.of.values_mut().flat_map(|line| line.take_admitted(now)).collect();
        self.served = self.of.values().any(|line| !line.waiting.is_empty());
        admitted
    }

    fn line(&mut self, topology: Option<&Topology>, slot: Slot) -> &mut Line {
        let node = topology.and_then(|topology| topology.serving(slot)).map(|node| node.id);
        self.of.entry(node).or_default()
    }
}

fn is_there(topology: Option<&Topology>, node: Option<NodeId>) -> bool {
    node.is_none_or(|node| topology.is_some_and(|topology| topology.node(node).is_some()))
}

impl Line {
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
            admitted.extend(self.waiting.pop().map(|Reverse(turn)| turn.go));
        }
        admitted
    }
}

// Lives only while somebody waits.
async fn serve(works: Arc<Works>) {
    loop {
        works.clock.sleep_until(works.clock.now() + WINDOW).await;
        let (admitted, more) = {
            let topology = works.calls.topology();
            let mut lines = works.pacer.lock();
            lines.line_up_anew(topology.as_deref());
            (lines.take_admitted(works.clock.now()), lines.served)
        };
        for go in admitted {
            let _ = go.send(());
        }
        if !more {
            return;
        }
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Turn {}
impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Turn {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.oldest, self.number).cmp(&(other.oldest, other.number))
    }
}

/// 50 in each 10 ms: 5,000 a second and node.
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
        let (mut lines, topology) = (Lines::default(), topology(1, &[0]));
        let mut enqueue = |oldest| lines.enqueue(Some(&topology), first(), at(oldest), at(1000));
        assert_eq!((0..PER_WINDOW).filter(|_| enqueue(0).is_none()).count(), PER_WINDOW);
        let mut gone: Vec<_> = [30, 10, 20].into_iter().map(|oldest| enqueue(oldest).unwrap()).collect();
        assert!(lines.take_admitted(at(1005)).is_empty());
        lines.of.get_mut(&Some(NodeId(0))).unwrap().window = 101;
        lines.of.get_mut(&Some(NodeId(0))).unwrap().used = PER_WINDOW - 2;
        let admitted = lines.take_admitted(at(1010));
        assert_eq!(admitted.len(), 2);
        admitted.into_iter().for_each(|go| assert!(go.send(()).is_ok()));
        assert_eq!(
            gone.iter_mut().map(|gone| gone.try_recv().is_ok()).collect::<Vec<_>>(),
            [false, true, true]
        );
        assert!(lines.served);
    }

    #[test]
    fn l2_the_line_of_one_node_holds_nobody_of_another_back() {
        let (mut lines, topology) = (Lines::default(), topology(1, &[0, 1]));
        let bad: Vec<_> =
            (0..10_000).filter_map(|_| lines.enqueue(Some(&topology), first(), at(0), at(1000))).collect();
        assert_eq!(bad.len(), 10_000 - PER_WINDOW);
        let others = (0..PER_WINDOW).filter_map(|_| lines.enqueue(Some(&topology), last(), at(1), at(1000)));
        assert_eq!(others.count(), 0, "all of them at once");
        let other = lines.enqueue(Some(&topology), last(), at(1), at(1000));
        let admitted = lines.take_admitted(at(1010));
        assert_eq!(admitted.len(), PER_WINDOW + 1);
        admitted.into_iter().for_each(|go| assert!(go.send(()).is_ok()));
        assert!(other.unwrap().try_recv().is_ok());
    }

    #[test]
    fn who_waits_for_a_node_that_has_left_waits_for_its_follower_and_the_line_is_gone() {
        let mut lines = Lines::default();
        let (before, after) = (topology(1, &[0, 1]), topology(2, &[2, 1]));
        lines.line_up_anew(Some(&before));
        let waiting: Vec<_> = (0..PER_WINDOW + 7)
            .filter_map(|_| lines.enqueue(Some(&before), first(), at(0), at(1000)))
            .collect();
        lines.line_up_anew(Some(&after));
        assert_eq!(lines.of.keys().collect::<Vec<_>>(), [&Some(NodeId(2))]);
        lines.line_up_anew(None);
        assert_eq!(lines.of.keys().collect::<Vec<_>>(), [&None]);
        assert_eq!((waiting.len(), lines.take_admitted(at(1000)).len()), (7, 7));
        assert!(!lines.served);
    }
}
