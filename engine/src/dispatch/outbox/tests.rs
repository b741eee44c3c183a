use super::*;
use crate::routing::{
    slot::SLOTS,
    topology::{ClockId, Node, SlotRange},
};

#[derive(Debug, PartialEq, Eq)]
struct Thing(Slot, u64);

impl Routed for Thing {
    fn slot(&self) -> Slot {
        self.0
    }
}

impl Timed for Thing {
    fn put_at(&self) -> Instant {
        at(0)
    }

    fn time(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn leaves(&self) -> Option<Instant> {
        None
    }

    fn start(&mut self, _at: Instant) {}

    fn is_release(&self) -> bool {
        false
    }

    fn is_groupable(&self) -> bool {
        true
    }
}

type Boxes = Outboxes<Thing, Thing>;

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
    let node = |id: &u32| Node::new(ClockId { node: NodeId(*id), epoch: 1 }, format!("node {id}"), 100);
    Topology::new(epoch, nodes.iter().map(node).collect(), ranges.collect())
}

fn first(number: u64) -> Thing {
    Thing(Slot::from_number(0).unwrap(), number)
}

fn last(number: u64) -> Thing {
    Thing(Slot::from_number(SLOTS - 1).unwrap(), number)
}

fn granted(boxes: &mut Boxes, now: Instant) -> Vec<u64> {
    std::iter::from_fn(|| boxes.take_granted(now)).map(|granted| granted.work.1).collect()
}

#[test]
fn l2_the_work_of_one_node_holds_no_work_of_another_back() {
    let (mut boxes, topology) = (Boxes::new(8), topology(1, &[0, 1]));
    for kind in WORK_KINDS {
        let mut put = |work| boxes.put_work(Some(&topology), (kind, at(0)), work, at(1000)).is_ok();
        let begun = (0..10_000).filter(|number| put(first(*number))).count();
        assert_eq!(begun, [50, 8, 1_024][kind as usize], "{kind:?}");
        assert_eq!((0..10_000).filter(|number| put(last(*number))).count(), begun, "{kind:?}");
    }
}

#[test]
fn work_and_calls_follow_their_slots_and_keep_their_order() {
    let mut boxes = Boxes::new(1);
    let (before, after) = (topology(1, &[0, 1]), topology(2, &[2, 1]));
    assert_eq!(boxes.handle_topology(Some(&before), at(0)), Some(vec![]));
    for number in 0..4 {
        let _ = boxes.put_work(Some(&before), (WorkKind::Bulk, at(0)), first(number), at(0));
        assert_eq!(boxes.put_call(Some(&before), first(number), at(0)), Ok(NodeId(0)));
    }
    assert!(granted(&mut boxes, at(0)).is_empty());
    assert_eq!(boxes.handle_topology(Some(&after), at(1)), Some(vec![]));
    assert_eq!(granted(&mut boxes, at(1)), [1], "the permit at the node that has left is another one");
    assert!(boxes.of.contains_key(&Some(NodeId(0))), "until its permit is returned");
    boxes.get(Some(NodeId(0))).unwrap().work(WorkKind::Bulk).leave(true, at(1));
    let moved: Vec<_> = boxes.get(Some(NodeId(2))).unwrap().calls.waiting().map(|call| call.1).collect();
    assert_eq!(moved, [0, 1, 2, 3]);
    assert_eq!(boxes.handle_topology(Some(&after), at(2)), None, "the same topology");
    let calls = boxes.handle_topology(None, at(3)).unwrap();
    assert_eq!(calls.len(), 4, "a call without a node does not wait");
    assert!(!boxes.of.contains_key(&Some(NodeId(0))));
    assert_eq!(boxes.take_work(WorkKind::Bulk), [first(2), first(3)]);
}

#[test]
fn a_new_topology_and_any_answer_end_the_silence_of_a_node() {
    let (mut boxes, topologies) = (Boxes::new(1), [topology(1, &[0, 1]), topology(2, &[0, 1])]);
    boxes.handle_topology(Some(&topologies[0]), at(0));
    let silence = |boxes: &mut Boxes| {
        boxes.begin_silence(Some(&topologies[0]), first(0).0, at(0));
        for number in 0..2 {
            let put = boxes.put_work(Some(&topologies[0]), (WorkKind::Closing, at(0)), first(number), at(0));
            assert!(put.is_err() && boxes.has_silent());
        }
        assert_eq!(boxes.next_look(at(0)), Some(at(50)));
    };
    silence(&mut boxes);
    boxes.get(Some(NodeId(0))).unwrap().handle_answer(at(0));
    let answered = boxes.take_granted(at(1)).unwrap();
    assert!(answered.node_answers && !boxes.has_silent());
    assert_eq!(granted(&mut boxes, at(1)), [1]);
    silence(&mut boxes);
    boxes.handle_topology(Some(&topologies[1]), at(2));
    let connected = boxes.take_granted(at(2)).unwrap();
    assert!(!connected.node_answers && !boxes.has_silent());
}

#[test]
fn permits_are_granted_to_nodes_and_kinds_in_turn() {
    let (mut boxes, topology) = (Boxes::new(1), topology(1, &[0, 1]));
    boxes.handle_topology(Some(&topology), at(0));
    for kind in [WorkKind::Bulk, WorkKind::Closing] {
        for number in 0..100 {
            boxes.wait_for_permit(Some(&topology), (kind, at(0)), first(number), at(0));
            boxes.wait_for_permit(Some(&topology), (kind, at(0)), last(number), at(0));
        }
    }
    // Each work is done at once, so that no limit is ever reached.
    let mut seen = HashMap::new();
    for _ in 0..60 {
        let granted = boxes.take_granted(at(0)).unwrap();
        boxes.get(granted.node).unwrap().work(granted.kind).leave(true, at(0));
        *seen.entry((granted.node, granted.kind as usize)).or_insert(0) += 1;
    }
    assert!(seen.len() == 4 && seen.values().all(|count| *count >= 10), "{seen:?}");
}

#[test]
fn work_that_is_not_wanted_any_more_is_found_at_its_present_node() {
    let mut boxes = Boxes::new(1);
    let (before, after) = (topology(1, &[0, 1]), topology(2, &[2, 1]));
    boxes.handle_topology(Some(&before), at(0));
    (0..50).for_each(|number| {
        assert!(boxes.put_work(Some(&before), (WorkKind::Retry, at(0)), first(number), at(0)).is_ok());
    });
    let rank = boxes.put_work(Some(&before), (WorkKind::Retry, at(0)), first(50), at(0)).unwrap_err();
    boxes.handle_topology(Some(&after), at(0));
    assert_eq!(boxes.remove_work(WorkKind::Retry, rank), Some(first(50)));
    assert_eq!(boxes.remove_work(WorkKind::Retry, rank), None);
}
