//! What live clients of Redisson left on a server, against Redisson's scripts as `redisson.rs` has them, and against
//! ours.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    model::{Model, Op, name},
    ours::{CHANNEL, KEYS, WAIT},
    redisson::Version,
    world::World,
};

const TRACES: [(Version, &str); 2] = [
    (Version::V3_27, include_str!("traces/fair-3.27.2.json")),
    (Version::V4_7, include_str!("traces/fair-4.7.0.json")),
];

/// The actors that stand for the threads of a trace, and for one that is no Redisson.
const THREADS: [(&str, usize); 6] = [
    ("<c1>:<t1>", 100),
    ("<c1>:<t2>", 101),
    ("<c1>:<t3>", 102),
    ("<c2>:<u1>", 110),
    ("<c2>:<u2>", 111),
    ("someone:1", 120),
];

fn actor(thread: &Value) -> usize {
    let thread = thread.as_str().unwrap();
    THREADS.iter().find(|(name, _)| *name == thread).unwrap_or_else(|| panic!("{thread}")).1
}

fn number(value: &Value) -> i64 {
    value.as_str().unwrap().parse().unwrap()
}

/// Runs what a client of Redisson has sent.
fn replay(world: &mut World, sent: &Value) {
    if sent[0] != "EVALSHA" {
        return;
    }
    let (keys, args) = (sent[1].as_array().unwrap(), sent[2].as_array().unwrap());
    let (actor, op) = match (keys.len(), args.len()) {
        (3, 4) if args[2] == "<now>" => (actor(&args[1]), Op::TryLock(number(&args[0]), number(&args[3]))),
        (3, 4) => (actor(&args[1]), Op::Lock(number(&args[0]), number(&args[2]))),
        (5, 6) => return world.unlock(actor(&args[2]), number(&args[1])),
        (4, 3) => return world.force_as_peer(),
        (2, 2) => (actor(&args[0]), Op::GiveUp(number(&args[1]))),
        other => panic!("{other:?}: {sent}"),
    };
    world.ask(actor, op);
}

/// What one that is no Redisson did.
fn replay_foreign(world: &mut World, foreign: &Value) {
    match foreign[1].as_str().unwrap() {
        "<a foreign owner takes the hash>" => {
            world.client.ok(&["HSET", KEYS[0], &name(actor(&foreign[4])), "1"]);
            world.client.ok(&["PEXPIRE", KEYS[0], foreign[5].as_str().unwrap()]);
        }
        "<release told to the head's own channel>" => drop(world.client.ok(&["DEL", KEYS[0]])),
        other => panic!("{other}"),
    }
}

/// The state behind a step.
fn state(step: &Value) -> Model {
    let entry = |key: &str| step["state"][key]["value"].clone();
    let hold = entry(KEYS[0]).as_object().map(|fields| {
        let (owner, count) = fields.iter().next().unwrap();
        let left = step["state"][KEYS[0]]["ttl"].as_i64().unwrap();
        crate::model::Hold { actor: actor(&Value::from(owner.as_str())), count: number(count), left }
    });
    let deadline =
        |text: &str| text.strip_prefix("<t+").and_then(|rest| rest.strip_suffix('>')?.parse().ok());
    let deadlines = entry(KEYS[2]).as_object().cloned().unwrap_or_default();
    Model {
        hold,
        line: entry(KEYS[1]).as_array().into_iter().flatten().map(actor).collect(),
        deadlines: deadlines
            .iter()
            .map(|(owner, at)| (actor(&Value::from(owner.as_str())), deadline(at.as_str().unwrap()).unwrap()))
            .collect(),
        ..Model::default()
    }
}

/// Times of a trace are right to a second.
fn is_like(found: &Model, wanted: &Model) -> bool {
    let is_near = |one: i64, other: i64| (one - other).abs() <= 2_000;
    let holds = match (&found.hold, &wanted.hold) {
        (Some(one), Some(other)) => {
            (one.actor, one.count) == (other.actor, other.count) && is_near(one.left, other.left)
        }
        (one, other) => one.is_none() && other.is_none(),
    };
    let times: BTreeMap<_, _> = found.deadlines.iter().collect();
    let has_near = |(owner, at): (&usize, &i64)| times.get(owner).is_some_and(|found| is_near(**found, *at));
    holds
        && found.line == wanted.line
        && found.deadlines.len() == wanted.deadlines.len()
        && wanted.deadlines.iter().all(has_near)
}

#[test]
fn redissons_scripts_here_leave_what_live_clients_left() {
    for (version, trace) in TRACES {
        let mut world = World::start(&THREADS.map(|(_, actor)| actor));
        world.version = version;
        let trace: Value = serde_json::from_str(trace).unwrap();
        let mut told = 0;
        for (number, step) in trace["steps"].as_array().unwrap().iter().enumerate() {
            if step["foreign"].is_array() {
                replay_foreign(&mut world, &step["foreign"]);
            }
            world.pass(step["pauseMs"].as_i64().unwrap_or(0));
            step["sent"].as_array().into_iter().flatten().for_each(|sent| replay(&mut world, sent));
            let (found, wanted) = (world.read(), state(step));
            assert!(is_like(&found, &wanted), "{version:?} step {number}: {found:?}, not {wanted:?}: {step}");
            let heard = world.told();
            let published = step["published"].as_array().into_iter().flatten();
            let wanted: Vec<_> = published
                .filter(|_| !step["foreign"].is_array())
                .map(|message| {
                    let channel = message[1].as_str().unwrap();
                    let head = channel.strip_prefix(CHANNEL).unwrap().trim_start_matches(':');
                    actor(&Value::from(head))
                })
                .collect();
            assert_eq!(heard, wanted, "{version:?} step {number}: {step}");
            told += heard.len();
        }
        assert!(told > 4, "{told}");
    }
}

/// The line, the deadlines and the hold, with actors by their number.
type Shared = (Vec<usize>, Vec<(usize, i64)>, Option<(usize, i64)>);

/// What both sides have.
fn shared(model: &Model, actors: &[usize]) -> Shared {
    let place = |actor: usize| actors.iter().position(|other| *other == actor).unwrap();
    let line = model.line.iter().map(|actor| place(*actor)).collect();
    let mut deadlines: Vec<_> = model.deadlines.iter().map(|(actor, at)| (place(*actor), *at)).collect();
    deadlines.sort_unstable();
    (line, deadlines, model.hold.as_ref().map(|hold| (place(hold.actor), hold.left)))
}

#[test]
fn a_line_of_ours_has_the_names_and_deadlines_of_redissons() {
    let (ours, peers) = ([0, 1, 10], [100, 101, 110]);
    let mut world = World::start(&[ours, peers].concat());
    let mut states = Vec::new();
    for of_peers in [false, true] {
        world.client.ok(&["FLUSHALL"]);
        let actors = if of_peers { peers } else { ours };
        let mut lines = Vec::new();
        for actor in actors {
            let op = if of_peers { Op::Lock(20_000, WAIT) } else { Op::Queue(20_000) };
            world.ask(actor, op);
            lines.push(shared(&world.read(), &actors));
        }
        states.push(lines);
    }
    assert_eq!(states[0], states[1]);
    assert_eq!(states[0][2].1, [(1, 320_000), (2, 620_000)]);
}
