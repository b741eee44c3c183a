//! Every state that two of ours and one client of Redisson can bring a fair lock into: in each of them each does
//! everything, and the server then has, says and tells what the model says.

use std::collections::BTreeSet;

use crate::{
    model::{Answer, Model, Op},
    redisson::Version,
    server::programs,
    world::World,
};

const TTL: i64 = 20_000;
const PEER: usize = 100;
pub(crate) const ACTORS: [usize; 3] = [0, 10, PEER];
const PEER_WAIT: i64 = 60_000;

/// What each can do. Two of ours are of two engines.
const STEPS: [(usize, Op); 14] = [
    (0, Op::Queue(TTL)),
    (0, Op::Acquire(TTL)),
    (0, Op::Beat),
    (0, Op::Release),
    (0, Op::Force),
    (10, Op::Queue(TTL)),
    (10, Op::Beat),
    (10, Op::Release),
    (PEER, Op::Lock(TTL, PEER_WAIT)),
    (PEER, Op::TryLock(TTL, PEER_WAIT)),
    (PEER, Op::Unlock),
    (PEER, Op::GiveUp(PEER_WAIT)),
    (0, Op::Pass(2_500)),
    (0, Op::Pass(150_000)),
];

/// Every state that is reached within this number of steps.
fn states(depth: usize) -> BTreeSet<Model> {
    let mut all = BTreeSet::from([Model::default()]);
    let mut last: Vec<_> = all.iter().cloned().collect();
    for _ in 0..depth {
        let mut next = Vec::new();
        for (before, (actor, op)) in last.iter().flat_map(|before| STEPS.map(|step| (before, step))) {
            let (_, after, _) = before.step(actor, op);
            if is_small(&after) && all.insert(after.clone()) {
                next.push(after);
            }
        }
        last = next;
    }
    all
}

/// A peer that holds more often than twice is not looked at.
fn is_small(model: &Model) -> bool {
    model.hold.as_ref().is_none_or(|hold| hold.count <= 2)
}

/// Goes to every state within `steps_max` steps. Returns the numbers of states and of steps.
pub(crate) fn walk(world: &mut World, steps_max: usize) -> (usize, usize) {
    let states = states(steps_max - 1);
    for before in &states {
        STEPS.into_iter().for_each(|(actor, op)| check(world, before, actor, op));
    }
    (states.len(), states.len() * STEPS.len())
}

#[test]
fn every_order_beside_redisson_4_7_leaves_what_the_model_says() {
    let mut world = World::start(&ACTORS);
    let (states, steps) = walk(&mut world, 7);
    println!("{states} states, {steps} steps");
    assert!(states > 1_000, "{states}");
}

#[test]
fn short_orders_beside_redisson_3_27_leave_what_the_model_says() {
    let mut world = World::start(&ACTORS);
    world.version = Version::V3_27;
    let (states, steps) = walk(&mut world, 6);
    println!("{states} states, {steps} steps");
}

#[test]
fn short_orders_on_every_server_leave_what_the_model_says() {
    for program in programs() {
        let (states, steps) = walk(&mut World::on(&program, &ACTORS), 5);
        println!("{program:?}: {states} states, {steps} steps");
    }
}

fn check(world: &mut World, before: &Model, actor: usize, op: Op) {
    if let Op::Pass(_) = op {
        return;
    }
    world.write(before);
    let wanted = before.step(actor, op);
    let mut found = world.act(actor, op);
    if world.version == Version::V3_27
        && matches!((found.0, wanted.0), (Answer::Number(_), Answer::Number(_)))
    {
        // It tells a peer when the place before it ends.
        found.0 = wanted.0;
    }
    assert_eq!(found, wanted, "{actor} does {op:?} in {before:?}");
    let (answer, after, _) = wanted;
    assert_eq!(BTreeSet::from_iter(after.line.iter()), after.deadlines.keys().collect(), "{before:?}");
    let held = before.hold.as_ref().is_some_and(|hold| hold.actor == actor);
    if !held && matches!(answer, Answer::Granted) {
        let passed = before.line.iter().take_while(|other| **other != actor);
        let stays = passed.filter(|other| after.line.contains(other)).count();
        assert_eq!(stays, 0, "no owner passes a place: {actor} does {op:?} in {before:?}");
    }
}
