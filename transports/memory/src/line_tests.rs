use leasehold::{
    owner::OwnerMint,
    routing::topology::{ClockId, NodeId},
};

use super::*;

fn at(ms: u64) -> ServerTime {
    ServerTime { micros: 1_000_000_000 + ms * 1_000, clock: ClockId { node: NodeId(0), epoch: 0 } }
}

fn terms() -> PlaceTerms {
    PlaceTerms::new(Duration::from_secs(300), Duration::from_millis(1_500))
}

/// A line of these owners, all of which joined at 0.
fn line<const N: usize>() -> (Line, [Owner; N]) {
    let (mint, mut line) = (OwnerMint::new(), Line::default());
    let owners = std::array::from_fn(|_| mint.mint());
    owners.iter().for_each(|owner| line.join(*owner, terms(), at(0)));
    (line, owners)
}

#[test]
fn a_second_join_keeps_the_place() {
    let (mut line, [one, two]) = line();
    line.join(one, terms(), at(100));
    assert_eq!((line.head(), line.len(), line.ahead_of(two)), (Some(one), 2, Some(1)));
    assert!(line.leave(one) && !line.leave(one));
    assert_eq!((line.head(), line.ahead_of(one)), (Some(two), None));
}

#[test]
fn a_silent_place_is_removed_after_a_look_and_its_patience() {
    let (mut line, [silent, beats]) = line();
    for ms in (500..=3_899).step_by(100).chain([3_899]) {
        line.judge(at(ms));
        assert!(line.beat(beats, terms(), at(ms)));
        assert_eq!(line.head(), Some(silent), "at {ms} ms");
    }
    line.judge(at(3_900)); // the first look after 1.5 s was at 1.5 s
    assert_eq!(line.head(), Some(beats));
}

#[test]
fn a_beat_clears_a_suspect() {
    let (mut line, [one, two]) = line();
    line.judge(at(1_600));
    assert!(line.beat(one, terms(), at(3_900)));
    line.judge(at(4_050));
    assert_eq!((line.head(), line.ahead_of(two)), (Some(one), None));
}

#[test]
fn after_a_stall_of_the_server_all_have_four_seconds() {
    let (mut line, [one, _]) = line();
    line.judge(at(400_000));
    assert_eq!(line.head_is_kept_for(at(400_000)), Duration::from_secs(4));
    line.judge(at(403_999));
    assert_eq!((line.head(), line.len()), (Some(one), 2));
    line.judge(at(404_000));
    assert_eq!(line.len(), 0);
}

#[test]
fn a_clock_that_was_set_back_makes_suspects_and_no_eternal_places() {
    let (mut line, [one]) = line();
    line.join(one, terms(), at(100_000));
    line.judge(at(50_000)); // silent until 101.5 s, for all that this clock says
    assert_eq!(line.head_is_kept_for(at(50_000)), Duration::from_millis(2_400));
    line.judge(at(10_000)); // and set back once more
    line.judge(at(12_400));
    assert_eq!(line.len(), 0);
}

#[test]
fn a_line_is_forgotten_when_no_place_is_kept_any_more() {
    let (mut line, [one, two]) = line();
    assert!(line.beat(two, terms(), at(1_000)) && !line.is_forgotten(at(300_999)));
    assert!(line.is_forgotten(at(301_000)));
    assert!(line.leave(one) && line.leave(two) && line.is_forgotten(at(0)));
}
