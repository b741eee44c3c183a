//! Bounds how many entries ask a node again by themselves: after a reconnect all of them want to at once. The longest
//! wait goes first (promise L2). Asks that follow an arrival, a notice or a release are not held back.
//!
//! Each node has a line of its own, so that what is asked of a bad node, and asked again, delays nobody elsewhere. When
//! the topology changes, who waits is lined up anew and the lines of nodes that have left are gone.
//!
//! A driver keeps its turn until it is its turn or until it wants none any more; then the turn is taken out of the line.
//! So the lines hold at most one turn for each driven entry, and each turn that is admitted is waited for.

use std::{
    collections::{BTreeMap, HashMap},
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
    waiting: BTreeMap<Rank, Waiting>,
}

/// How long its caller has waited, then the number of the turn: the lowest goes first.
type Rank = (Instant, u64);

#[derive(Debug)]
struct Waiting {
    slot: Slot,
    go: oneshot::Sender<()>,
}

/// A turn to ask for one key, which has come or is waited for. Dropping it leaves the line.
pub(crate) struct Turn {
    works: Arc<Works>,
    /// `None` once it has come.
    waits: Option<(Rank, oneshot::Receiver<()>)>,
}

impl Turn {
    /// Waits until it has come. Dropping this future loses nothing.
    pub(crate) async fn come(&mut self) {
        if let Some((_, go)) = &mut self.waits {
            let _ = go.await; // a dropped sender means the engine has ended
            self.waits = None;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((rank, _)) = &self.waits {
            let left = self.works.pacer.lock().leave(*rank);
            drop(left); // after the lines are unlocked
        }
    }
}

impl Pacer {
    /// A turn to ask for a key of this slot.
    pub(crate) fn turn(&self, works: &Arc<Works>, slot: Slot, oldest: Instant) -> Turn {
        Turn { works: works.clone(), waits: self.enqueue(works, slot, oldest) }
    }

    fn enqueue(
        &self,
        works: &Arc<Works>,
        slot: Slot,
        oldest: Instant,
    ) -> Option<(Rank, oneshot::Receiver<()>)> {
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
        let lines = self.of.values_mut();
        let turns: Vec<_> = lines.flat_map(|line| std::mem::take(&mut line.waiting)).collect();
        self.of.retain(|node, _| is_there(topology, *node));
        for (rank, turn) in turns {
            self.line(topology, turn.slot).waiting.insert(rank, turn);
        }
    }

    /// `None`: the turn has come already.
    fn enqueue(
        &mut self,
        topology: Option<&Topology>,
        slot: Slot,
        oldest: Instant,
        now: Instant,
    ) -> Option<(Rank, oneshot::Receiver<()>)> {
        self.next += 1;
        let rank = (oldest, self.next);
        let line = self.line(topology, slot);
        if line.waiting.is_empty() && line.admit(now) {
            return None;
        }
        let (go, gone) = oneshot::channel();
        line.waiting.insert(rank, Waiting { slot, go });
        Some((rank, gone))
    }

    /// Takes out a turn that is not wanted any more.
    fn leave(&mut self, rank: Rank) -> Option<oneshot::Sender<()>> {
        self.of.values_mut().find_map(|line| line.waiting.remove(&rank)).map(|waiting| waiting.go)
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
            admitted.extend(self.waiting.pop_first().map(|(_, turn)| turn.go));
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
            gone.iter_mut().map(|(_, gone)| gone.try_recv().is_ok()).collect::<Vec<_>>(),
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
        assert!(other.unwrap().1.try_recv().is_ok());
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

    #[test]
    fn l5_turns_that_are_not_wanted_any_more_hold_no_other_back() {
        let (mut lines, topology) = (Lines::default(), topology(1, &[0]));
        let mut enqueue = |oldest| lines.enqueue(Some(&topology), first(), at(oldest), at(1000));
        (0..PER_WINDOW).for_each(|_| assert!(enqueue(0).is_none()));
        let left: Vec<_> = (0..10_000).map(|_| enqueue(1).unwrap()).collect();
        let (_, mut waits) = enqueue(2).unwrap();
        left.into_iter().for_each(|(rank, _)| assert!(lines.leave(rank).is_some()));
        let admitted = lines.take_admitted(at(1010));
        assert_eq!((admitted.len(), lines.served), (1, false));
        admitted.into_iter().for_each(|go| assert!(go.send(()).is_ok()));
        assert!(waits.try_recv().is_ok());
    }

    #[test]
    fn a_turn_that_was_lined_up_anew_can_be_taken_out() {
        let mut lines = Lines::default();
        let (before, after) = (topology(1, &[0, 1]), topology(2, &[2, 1]));
        lines.line_up_anew(Some(&before));
        let waiting: Vec<_> = (0..PER_WINDOW + 1)
            .filter_map(|_| lines.enqueue(Some(&before), first(), at(0), at(1000)))
            .collect();
        lines.line_up_anew(Some(&after));
        let [(rank, _)] = &waiting[..] else { panic!("{waiting:?}") };
        assert!(lines.leave(*rank).is_some() && lines.leave(*rank).is_none());
        assert!(lines.take_admitted(at(1010)).is_empty());
    }
}
