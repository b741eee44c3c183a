//! Every history of five events of three members of which two are needed, against an oracle that counts after
//! each event, whether anybody looks or not.

use std::{cell::Cell, rc::Rc};

use super::*;

const MEMBERS: usize = 3;
const NEEDED: usize = 2;
const EVENTS: usize = 5;

/// A lease that a test ends.
#[derive(Clone, Debug, Default)]
struct Fake(Rc<Cell<bool>>);

impl Fake {
    fn lose(&self) {
        self.0.set(true);
    }
}

impl MemberHold for Fake {
    fn is_held(&self) -> bool {
        !self.0.get()
    }

    fn loss(&self) -> Option<LossReason> {
        self.0.get().then_some(LossReason::NotOurs)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Lose(usize),
    Join(usize),
    Look,
    Clear(usize),
    GiveBack,
}

const ALL: [Event; 11] = [
    Event::Lose(0),
    Event::Lose(1),
    Event::Lose(2),
    Event::Join(0),
    Event::Join(1),
    Event::Join(2),
    Event::Look,
    Event::Clear(0),
    Event::Clear(1),
    Event::Clear(2),
    Event::GiveBack,
];

/// What is true, told by nobody.
struct Oracle {
    current: [Option<Fake>; MEMBERS],
    was_below: bool,
    given_back: bool,
}

impl Oracle {
    fn held(&self) -> usize {
        self.current.iter().flatten().filter(|lease| lease.is_held()).count()
    }

    fn note(&mut self) {
        self.was_below |= self.held() < NEEDED;
    }

    fn is_over(&self) -> bool {
        self.was_below || self.given_back
    }
}

fn play(history: &[Event]) {
    let leases: Vec<_> = (0..MEMBERS).map(|place| (place < NEEDED).then(Fake::default)).collect();
    let current = [leases[0].clone(), leases[1].clone(), leases[2].clone()];
    let mut oracle = Oracle { current, was_below: false, given_back: false };
    let mut members = Members::new(leases, NEEDED);
    let mut told = 0;
    for event in history {
        apply(*event, &mut members, &mut oracle, &mut told, history);
        oracle.note();
    }
    let (standing, first) = members.look();
    told += u32::from(first);
    match standing {
        Standing::Held => assert!(!oracle.is_over(), "{history:?}"),
        Standing::Lost(reason) => assert!(oracle.was_below && reason == LossReason::NotOurs, "{history:?}"),
        Standing::GivenBack => assert!(oracle.given_back, "{history:?}"),
    }
    assert!(told <= 1, "a loss is told once: {history:?}");
}

fn apply(event: Event, members: &mut Members<Fake>, oracle: &mut Oracle, told: &mut u32, history: &[Event]) {
    match event {
        Event::Lose(place) => oracle.current[place].iter().for_each(Fake::lose),
        Event::Look => {
            let (standing, first) = members.look();
            *told += u32::from(first);
            assert_eq!(standing == Standing::Held, !oracle.is_over(), "{history:?}");
        }
        Event::Clear(place) => {
            let cleared = members.clear(place);
            assert!(cleared.is_none_or(|lease| !lease.is_held()), "a held lease is taken: {history:?}");
        }
        Event::Join(place) => join(place, members, oracle, history),
        Event::GiveBack => {
            let was_over = oracle.is_over();
            let (before, left) = members.give_back();
            assert_eq!(before == Standing::Held, !was_over, "{history:?}");
            assert_eq!(members.take().len(), 0, "{history:?}");
            drop(left);
            oracle.given_back |= !was_over;
            oracle.current = [None, None, None];
        }
    }
}

// As the driver: a member that is held is not taken again.
fn join(place: usize, members: &mut Members<Fake>, oracle: &mut Oracle, history: &[Event]) {
    if oracle.current[place].as_ref().is_some_and(Fake::is_held) {
        return;
    }
    let lease = Fake::default();
    let left = members.join(place, lease.clone());
    let joined = left.is_none_or(|left| !Rc::ptr_eq(&left.0, &lease.0));
    assert_eq!(joined, !oracle.is_over(), "{history:?}");
    if joined {
        oracle.current[place] = Some(lease);
    }
}

#[test]
fn a_majority_that_was_lost_for_a_moment_is_lost_for_good_in_every_history() {
    let mut history = Vec::with_capacity(EVENTS);
    let mut played = 0_u64;
    // Each history has all shorter ones in it, and looks are events, so only the longest are played.
    fn extend(history: &mut Vec<Event>, played: &mut u64) {
        if history.len() == EVENTS {
            play(history);
            *played += 1;
            return;
        }
        for event in ALL {
            history.push(event);
            extend(history, played);
            history.pop();
        }
    }
    extend(&mut history, &mut played);
    assert_eq!(played, 11_u64.pow(EVENTS as u32));
}
