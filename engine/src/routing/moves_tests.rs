//! Tests the comparison of topologies against a comparison slot by slot.

use proptest::prelude::*;

use super::*;
use crate::routing::topology::{Batching, Node, NodeId, SlotRange};

fn node(id: u32, epoch: u32) -> Node {
    let id = NodeId(id);
    Node {
        id,
        address: format!("node-{}", id.0),
        clock: ClockId { node: id, epoch },
        up_since: None,
        run_id: None,
        connected: true,
        batch_leases_max: 100,
        batching: Batching::AcrossSlots,
        round_trip: None,
    }
}

fn slot(number: u16) -> Slot {
    Slot::from_number(number).unwrap()
}

fn range(first: u16, last: u16, node: u32) -> SlotRange {
    SlotRange { first: slot(first), last: slot(last), node: NodeId(node) }
}

fn moves(earlier: (&[Node], &[SlotRange]), later: (&[Node], &[SlotRange])) -> Moves {
    let topology = |epoch, (nodes, ranges): (&[Node], &[SlotRange])| {
        Topology::new(epoch, nodes.to_vec(), ranges.to_vec())
    };
    Moves::between(&topology(1, earlier), &topology(2, later))
}

#[test]
fn a_migrated_slot_takes_its_locks_with_it() {
    let nodes = [node(0, 1), node(1, 1)];
    let before = [range(0, 8191, 0), range(8192, 16_383, 1)];
    let after = [range(0, 99, 0), range(100, 100, 1), range(101, 8191, 0), range(8192, 16_383, 1)];
    let moves = moves((&nodes, &before), (&nodes, &after));
    assert_eq!([99, 100, 101].map(|number| moves.of(slot(number))), [None, Some(Move::WithItsLocks), None]);
}

#[test]
fn slots_of_a_node_that_is_gone_or_another_run_now_are_in_doubt() {
    let ranges = [range(0, 8191, 0), range(8192, 16_383, 1)];
    let failed_over = [range(0, 8191, 2), range(8192, 16_383, 1)];
    let by_another = moves((&[node(0, 1), node(1, 1)], &ranges), (&[node(1, 1), node(2, 1)], &failed_over));
    let restarted = moves((&[node(0, 1), node(1, 1)], &ranges), (&[node(0, 2), node(1, 1)], &ranges));
    let back_and_empty =
        moves((&[node(0, 1), node(1, 1)], &ranges), (&[node(0, 2), node(1, 1), node(2, 1)], &failed_over));
    for moves in [by_another, restarted, back_and_empty] {
        assert_eq!((moves.of(slot(7)), moves.of(slot(8192))), (Some(Move::InDoubt), None), "{moves:?}");
    }
}

#[test]
fn a_slot_without_a_node_is_in_doubt_and_one_that_got_a_node_is_only_due() {
    let nodes = [node(0, 1)];
    let (all, most) = ([range(0, 16_383, 0)], [range(1, 16_383, 0)]);
    assert_eq!(moves((&nodes, &all), (&nodes, &most)).of(slot(0)), Some(Move::InDoubt));
    assert_eq!(moves((&nodes, &most), (&nodes, &all)).of(slot(0)), Some(Move::WithItsLocks));
    let unlisted = moves((&nodes, &all), (&[], &all));
    assert_eq!(unlisted.of(slot(16_383)), Some(Move::InDoubt), "a range of a node that is not listed");
}

#[test]
fn nothing_has_moved_when_only_a_connection_or_an_empty_node_came_or_went() {
    let all = [range(0, 16_383, 0)];
    let cut = Node { connected: false, ..node(0, 1) };
    assert!(moves((&[node(0, 1)], &all), (&[cut, node(9, 1)], &all)).is_empty());
}

fn topology() -> impl Strategy<Value = Topology> {
    let nodes = prop::collection::btree_map(0..5u32, 1..3u32, 0..5);
    // Ranges are the gaps between random cuts. Most of them have a node, which is in the list of nodes or not.
    let cuts = prop::collection::btree_set(0..SLOTS, 0..12);
    let owners = prop::collection::vec(prop::option::weighted(0.8, 0..5u32), 13);
    (nodes, cuts, owners).prop_map(|(nodes, cuts, owners)| {
        let starts: Vec<u16> = std::iter::once(0).chain(cuts.into_iter().filter(|cut| *cut > 0)).collect();
        let ends = starts.iter().skip(1).map(|start| start - 1).chain([SLOTS - 1]);
        let ranges = starts.iter().zip(ends).zip(owners);
        let ranges = ranges.filter_map(|((first, last), owner)| Some(range(*first, last, owner?))).collect();
        Topology::new(1, nodes.into_iter().map(|(id, epoch)| node(id, epoch)).collect(), ranges)
    })
}

fn by_hand(earlier: &Topology, later: &Topology, slot: Slot) -> Option<Move> {
    match (earlier.serving(slot), later.serving(slot)) {
        (None, None) => None,
        (Some(_), None) => Some(Move::InDoubt),
        (None, Some(_)) => Some(Move::WithItsLocks),
        (Some(before), Some(after)) if before.clock == after.clock => None,
        (Some(before), Some(_)) if later.is_current(before.clock) => Some(Move::WithItsLocks),
        (Some(_), Some(_)) => Some(Move::InDoubt),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_slot_is_found_as_a_comparison_by_hand_finds_it(
        earlier in topology(), later in topology()
    ) {
        let moves = Moves::between(&earlier, &later);
        for number in 0..SLOTS {
            let how = by_hand(&earlier, &later, slot(number));
            prop_assert_eq!(moves.of(slot(number)), how, "slot {}", number);
        }
        prop_assert!(Moves::between(&later, &later).is_empty());
    }
}
