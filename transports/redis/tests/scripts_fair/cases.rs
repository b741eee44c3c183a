//! What has cost peers a lock, case by case. The time is the test's.

use crate::{
    model::{Answer, Op, PEER_LEASE, name},
    ours::{BEAT, KEYS, WAIT},
    redisson::Version,
    world::World,
};

/// Two engines of ours, and two peers.
pub(crate) const ACTORS: [usize; 8] = [0, 1, 2, 3, 10, 11, PEER, OTHER_PEER];
const PEER: usize = 100;
const OTHER_PEER: usize = 101;

/// A case, which panics if the scripts are wrong.
pub(crate) type Case = fn(&mut World);

pub(crate) const CASES: [(&str, Case); 19] = [
    ("stall", a_stall_drops_nobody),
    ("dead head", a_dead_head_costs_five_seconds),
    ("live line", a_line_that_beats_loses_nobody),
    ("F23", a_clock_of_java_that_is_ahead_removes_nobody),
    ("removed by Java", a_place_that_java_removed_is_forgotten),
    ("dead heads", forty_dead_heads_cost_five_seconds_too),
    ("killed", no_key_is_left_of_a_line_that_was_killed),
    ("an hour", a_java_wait_of_an_hour_costs_a_dead_head_five_minutes),
    ("eviction", a_java_grant_does_not_evict_our_waiter),
    ("clock", a_clock_that_steps_back_drops_the_dead_alone),
    ("disagreement", a_line_that_disagrees_with_its_deadlines_is_mended),
    ("F7", a_release_of_an_expired_hold_says_so),
    ("F20", a_waiter_that_gives_up_leaves_the_line_at_once),
    ("late", a_late_command_does_nothing),
    ("dead behind", dead_places_behind_the_head_are_removed_in_small_steps),
    ("dead, and Java", each_dead_place_keeps_java_from_a_free_lock_for_its_wait),
    ("both in turn", java_and_we_are_served_in_the_order_of_arrival),
    ("Java behind", short_holds_of_ours_evict_no_java_waiter),
    ("mixed expiry", a_line_with_a_peer_has_no_expiry_and_one_again_without),
];

fn waits(world: &mut World, actors: &[usize]) {
    for (ahead, actor) in (0..).zip(actors) {
        assert!(matches!(world.queue(*actor), Answer::Waits(_, found) if found == ahead), "{actor}");
    }
}

/// Sends beats of all for so many ms, one each second.
fn beat_for(world: &mut World, actors: &[usize], ms: i64) {
    for _ in 0..ms / 1_000 {
        world.pass(1_000);
        for actor in actors {
            assert_ne!(world.beat(*actor), GONE, "{actor} lives");
        }
    }
}

/// By whom the line is looked at first after the stall.
const LOOKS: [(usize, Op); 5] =
    [(3, Op::Beat), (11, Op::Queue(30_000)), (11, Op::Acquire(30_000)), (11, Op::Release), (0, Op::Release)];

pub(crate) fn a_stall_drops_nobody(world: &mut World) {
    for stall in [1_600, 10_000, 400_000] {
        for (looker, look) in LOOKS {
            world.client.ok(&["FLUSHALL"]);
            assert_eq!(world.queue(0), Answer::Granted);
            waits(world, &[1, 10, 2, 3]);
            world.pass(stall);
            let told = format!("{stall} ms, then {looker} does {look:?}");
            let answer = world.ask(looker, look);
            assert_ne!(answer, Answer::Granted, "{told}");
            assert_eq!(world.read().line[..4], [1, 10, 2, 3], "{told}");
            // An engine beats within a second, and again if that is lost.
            for actor in [3, 2, 10, 1] {
                world.pass(550);
                assert_ne!(world.beat(actor), GONE, "{told}");
            }
            world.release(0);
            for actor in [1, 10, 2, 3] {
                assert_eq!(world.beat(actor), TURN, "{told}");
                let told = format!("{told}, then {actor} takes it");
                assert_eq!(world.queue(actor), Answer::Granted, "{told}");
                assert_eq!(world.release(actor), Answer::Released, "{told}: {:?}", world.read());
            }
        }
    }
}

/// Whenever the head died: the next beats each second, and when it was told that something ends.
pub(crate) fn a_dead_head_costs_five_seconds(world: &mut World) {
    for phase in 0..10 {
        world.client.ok(&["FLUSHALL"]);
        assert_eq!(world.queue(0), Answer::Granted);
        waits(world, &[1, 2]);
        world.pass(phase * 100);
        world.beat(1); // its last
        world.release(0);
        let died = world.now();
        let mut next_beat = died;
        loop {
            let Answer::Beaten(left, place) = world.ask(2, Op::Beat) else { panic!() };
            if place == TURN {
                break;
            }
            assert!(place == 1 && world.now() < died + 10_000, "{place} after {} ms", world.now() - died);
            if world.now() >= next_beat {
                next_beat += 1_000;
            }
            world.pass((left + 1).min(next_beat - world.now()).max(1));
        }
        let took = world.now() - died;
        assert!((BEAT..=4_900).contains(&took), "{took} ms, phase {phase}");
        assert_eq!(world.queue(2), Answer::Granted);
        assert_eq!(world.release(2), Answer::Released);
        assert_eq!(world.keys(), 0);
    }
}

/// Two beats of three are lost, and the lock is held for longer than any place would be valid.
pub(crate) fn a_line_that_beats_loses_nobody(world: &mut World) {
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1, 10, 2]);
    for _ in 0..300 {
        assert_eq!(world.queue(0), Answer::Granted, "again");
        for actor in [1, 10, 2] {
            world.pass(1_000);
            assert_ne!(world.beat(actor), GONE);
        }
    }
    let after = world.read();
    assert_eq!(after.line, [1, 10, 2]);
    assert!(
        after.deadlines.values().all(|left| *left > WAIT / 2 - 3_000),
        "a peer removes no place: {after:?}"
    );
}

/// A clock of a peer that is a minute ahead is none of ours, and removes nobody who beats.
pub(crate) fn a_clock_of_java_that_is_ahead_removes_nobody(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1, 10]);
    world.peers_ahead = WAIT / 2 - 10_000;
    for _ in 0..250 {
        assert_eq!(world.queue(0), Answer::Granted, "again");
        world.pass(1_000);
        assert_ne!(world.beat(1), GONE);
        assert_ne!(world.beat(10), GONE);
        assert!(matches!(world.ask(PEER, Op::TryLock(30_000, WAIT)), Answer::Number(1)));
    }
    world.peers_ahead = 0;
    assert_eq!(world.read().line, [1, 10]);
}

/// Java has removed it, and knows nothing of the places of Leasehold.
pub(crate) fn a_place_that_java_removed_is_forgotten(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.ask(0, Op::Queue(1_000_000)), Answer::Granted);
    waits(world, &[1]);
    world.pass(1_300_001);
    assert_eq!(world.ask(PEER, Op::Lock(30_000, WAIT)), Answer::Nil);
    assert!(matches!(world.queue(2), Answer::Waits(_, 0)));
    let after = world.read();
    assert_eq!(after.alive.keys().collect::<Vec<_>>(), [&2]);
    assert!(after.ends.iter().all(Option::is_some), "no peer is in line: {after:?}");
    assert_eq!(world.beat(1), GONE);
}

/// However many: all are removed together.
pub(crate) fn forty_dead_heads_cost_five_seconds_too(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    for n in 0..40 {
        world.scripts.queue(&mut world.client, &format!("dead:{n}"), 30_000);
    }
    world.queue(1);
    world.release(0);
    world.told_anybody();
    let mut beats = 0;
    while world.beat(1) != TURN {
        beats += 1;
        assert!(beats <= 5, "{beats} s");
        world.pass(1_000);
        world.told_anybody();
    }
}

pub(crate) fn no_key_is_left_of_a_line_that_was_killed(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1, 10, 2]);
    beat_for(world, &[1, 10, 2], 20_000);
    let latest = world.read().deadlines.into_values().max().unwrap();
    world.pass(latest + WAIT + 1);
    assert_eq!(world.keys(), 0);
}

/// It holds the lock up for as long as it may, and no longer.
pub(crate) fn a_java_wait_of_an_hour_costs_a_dead_head_five_minutes(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    assert!(matches!(world.ask(PEER, Op::Lock(30_000, 3_600_000)), Answer::Number(_)));
    assert!(matches!(world.queue(1), Answer::Waits(_, 1)));
    beat_for(world, &[1], 10_000);
    world.told();
    world.release(0);
    assert_eq!(world.told(), [PEER]);
    let freed = world.now();
    while world.beat(1) != TURN {
        assert_eq!(world.told(), [PEER], "a Java waiter that has missed its message hears the next");
        assert!(world.now() < freed + 2 * WAIT, "it holds the lock up for ever");
        world.pass(1_000);
    }
    let took = world.now() - freed;
    assert!((WAIT..=WAIT + 1_000).contains(&took), "{took}");
    assert_eq!(world.queue(1), Answer::Granted);
}

pub(crate) fn a_java_grant_does_not_evict_our_waiter(world: &mut World) {
    for version in [Version::V3_27, Version::V4_7] {
        world.version = version;
        for held in [1_000, 200_000, 290_000] {
            world.client.ok(&["FLUSHALL"]);
            let lease = 400_000;
            assert_eq!(world.ask(PEER, Op::Lock(lease, WAIT)), Answer::Nil);
            assert!(matches!(world.ask(OTHER_PEER, Op::Lock(lease, WAIT)), Answer::Number(_)));
            assert!(matches!(world.queue(1), Answer::Waits(_, 1)));
            beat_for(world, &[1], held);
            assert_eq!(world.ask(PEER, Op::Unlock), Answer::Number(1));
            assert_eq!(world.ask(OTHER_PEER, Op::Lock(lease, WAIT)), Answer::Nil);
            // A third: it drops heads whose time is over.
            assert!(matches!(world.ask(PEER, Op::Lock(lease, WAIT)), Answer::Number(_)));
            beat_for(world, &[1], held);
            assert_eq!(world.ask(OTHER_PEER, Op::Unlock), Answer::Number(1));
            assert!(matches!(world.ask(PEER, Op::Lock(lease, WAIT)), Answer::Number(_)), "we are first");
            assert_eq!(world.beat(1), TURN, "{version:?}, {held}");
            assert_eq!(world.queue(1), Answer::Granted);
        }
    }
    world.version = Version::V4_7;
}

pub(crate) fn a_clock_that_steps_back_drops_the_dead_alone(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.ask(0, Op::Queue(10_000_000)), Answer::Granted);
    waits(world, &[1, 10, 2]);
    world.pass(-3_600_000);
    for _ in 0..10 {
        world.pass(800);
        assert_ne!(world.beat(10), GONE);
    }
    assert_eq!(world.read().line, [10], "dead heads and dead followers");
    // Of a line that is dead as a whole, no time is far ahead either.
    world.pass(-3_600_000);
    world.queue(3);
    for _ in 0..10 {
        world.pass(800);
        world.beat(3);
    }
    assert_eq!(world.read().line, [3]);
    world.pass(20_000_000);
}

/// As an eviction or a client of another kind leaves it.
pub(crate) fn a_line_that_disagrees_with_its_deadlines_is_mended(world: &mut World) {
    type Break = fn(&mut World);
    let breaks: [Break; 4] = [
        |world| drop(world.client.ok(&["ZREM", KEYS[2], &name(1)])),
        |world| drop(world.client.ok(&["DEL", KEYS[2]])),
        |world| drop(world.client.ok(&["ZADD", KEYS[2], "9000000000000", &name(3)])),
        |world| drop(world.client.ok(&["RPUSH", KEYS[1], &name(1)])),
    ];
    for (number, spoil) in breaks.into_iter().enumerate() {
        for (looker, look) in [(2, Op::Beat), (3, Op::Queue(30_000)), (0, Op::Release)] {
            world.client.ok(&["FLUSHALL"]);
            assert_eq!(world.queue(0), Answer::Granted);
            waits(world, &[1, 2]);
            spoil(world);
            world.ask(looker, look);
            let after = world.read();
            let told = format!("break {number}, {looker} does {look:?}: {after:?}");
            assert_eq!(after.line[..2], [1, 2], "{told}");
            let mut line = after.line.clone();
            line.sort_unstable();
            assert_eq!(line, after.deadlines.keys().copied().collect::<Vec<_>>(), "{told}");
        }
    }
    // The line alone is lost: every waiter comes again.
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1, 2]);
    world.client.ok(&["DEL", KEYS[1]]);
    assert_eq!(world.beat(1), GONE);
    assert_eq!(world.beat(2), GONE);
    waits(world, &[2, 1]);
}

pub(crate) fn a_release_of_an_expired_hold_says_so(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    world.pass(30_001);
    assert_eq!(world.release(0), Answer::NotYours);
    assert_eq!(world.queue(0), Answer::Granted);
    assert_eq!(world.release(10), Answer::NotYours);
    assert_eq!(world.release(0), Answer::Released);
    assert_eq!(world.release(0), Answer::NotYours);
}

/// And tells the one behind it, if the lock is free.
pub(crate) fn a_waiter_that_gives_up_leaves_the_line_at_once(world: &mut World) {
    for with_peer in [false, true] {
        world.client.ok(&["FLUSHALL"]);
        assert_eq!(world.queue(0), Answer::Granted);
        waits(world, &[1, 10]);
        if with_peer {
            world.ask(PEER, Op::Lock(PEER_LEASE, WAIT));
        }
        world.told();
        world.release(0);
        assert_eq!(world.told(), [1]);
        let before = world.read();
        assert_eq!(world.release(1), Answer::Released);
        assert_eq!(world.told(), [10]);
        let after = world.read();
        let followers = if with_peer { vec![10, PEER] } else { vec![10] };
        assert_eq!(after.line, followers);
        if with_peer {
            assert_eq!(after.deadlines[&PEER], before.deadlines[&PEER] - WAIT, "as when a peer gives up");
        }
        assert_eq!(world.queue(10), Answer::Granted);
    }
}

pub(crate) fn a_late_command_does_nothing(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1]);
    world.pass(500);
    let before = world.read();
    for (actor, beat) in [(0, BEAT), (1, BEAT), (2, BEAT), (2, 0)] {
        let reply = world.scripts.ask(&mut world.client, &name(actor), 60_000, beat, crate::ours::PASSED);
        assert_eq!(reply.code(), 2, "{reply:?}");
    }
    let reply = world.scripts.beat(&mut world.client, &[&name(1)], crate::ours::PASSED);
    assert_eq!(reply.code(), 2, "{reply:?}");
    assert_eq!((world.read(), world.told()), (before, Vec::new()));
}

pub(crate) fn dead_places_behind_the_head_are_removed_in_small_steps(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.ask(0, Op::Queue(10_000_000)), Answer::Granted);
    waits(world, &[1]);
    for n in 0..40 {
        let dead = format!("dead:{n}");
        world.scripts.queue(&mut world.client, &dead, 30_000);
    }
    let mut lengths = Vec::new();
    for _ in 0..8 {
        world.pass(1_000);
        world.beat(1);
        lengths.push(world.client.ok(&["LLEN", KEYS[1]]).number());
    }
    assert_eq!(lengths[7], 1, "{lengths:?}");
    assert!(lengths.windows(2).all(|pair| pair[0] - pair[1] <= 16), "{lengths:?}");
}

pub(crate) fn a_line_with_a_peer_has_no_expiry_and_one_again_without(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1]);
    assert!(world.read().ends.iter().all(Option::is_some));
    world.ask(PEER, Op::Lock(PEER_LEASE, WAIT));
    world.beat(1);
    assert_eq!(world.read().ends[..2], [None, None], "as a peer leaves it");
    world.ask(PEER, Op::GiveUp(WAIT));
    world.beat(1);
    assert!(world.read().ends.iter().all(Option::is_some));
}

/// Wherever they are in the line, also behind the place of a dead peer that is the head.
pub(crate) fn each_dead_place_keeps_java_from_a_free_lock_for_its_wait(world: &mut World) {
    for (dead, live) in [
        (&[1][..], &[][..]),
        (&[1, 10, 2], &[]),
        (&[3], &[1, 2]),
        (&[3, 10], &[1]),
        (&[PEER], &[]),
        (&[PEER, 1, 2], &[]),
        (&[PEER, 1], &[2]),
    ] {
        world.client.ok(&["FLUSHALL"]);
        assert_eq!(world.queue(0), Answer::Granted);
        for actor in live.iter().chain(dead) {
            let joins = if *actor == PEER { Op::Lock(PEER_LEASE, WAIT) } else { Op::Queue(PEER_LEASE) };
            world.ask(*actor, joins);
        }
        assert!(matches!(world.ask(OTHER_PEER, Op::Lock(PEER_LEASE, WAIT)), Answer::Number(_)));
        world.pass(100);
        world.release(0);
        for actor in live {
            world.pass(100);
            assert_eq!(world.queue(*actor), Answer::Granted);
            world.release(*actor);
        }
        let took = granted_after(world, OTHER_PEER);
        let most = WAIT * dead.len() as i64 + 1_000;
        assert!(took <= most, "{dead:?} behind {live:?}: {took} ms");
    }
}

/// When a peer that asks each second has the lock.
fn granted_after(world: &mut World, peer: usize) -> i64 {
    let begun = world.now();
    while world.ask(peer, Op::Lock(PEER_LEASE, WAIT)) != Answer::Nil {
        assert!(world.now() < begun + 10 * WAIT, "it waits for ever");
        world.pass(1_000);
    }
    world.now() - begun
}

/// A grant of Java's lowers all deadlines, also those of our places that the release before it has brought forward.
pub(crate) fn java_and_we_are_served_in_the_order_of_arrival(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    for (peer, actor) in [(PEER, 1), (OTHER_PEER, 2)] {
        world.ask(peer, Op::Lock(PEER_LEASE, WAIT));
        world.ask(actor, Op::Queue(PEER_LEASE));
    }
    world.queue(3);
    world.release(0);
    for (peer, actor, next) in [(PEER, 1, Some(OTHER_PEER)), (OTHER_PEER, 2, None)] {
        assert_eq!(world.ask(peer, Op::Lock(PEER_LEASE, WAIT)), Answer::Nil);
        assert_eq!(world.ask(peer, Op::Unlock), Answer::Number(1));
        if let Some(next) = next {
            let answer = world.ask(next, Op::Lock(PEER_LEASE, WAIT));
            assert!(matches!(answer, Answer::Number(_)), "{actor} is the head: {answer:?}");
        }
        assert_eq!(world.queue(actor), Answer::Granted);
        world.release(actor);
    }
    assert_eq!(world.queue(3), Answer::Granted);
}

/// A peer has given up, so the deadlines of our places before the next peer are early.
pub(crate) fn short_holds_of_ours_evict_no_java_waiter(world: &mut World) {
    world.client.ok(&["FLUSHALL"]);
    assert_eq!(world.queue(0), Answer::Granted);
    waits(world, &[1, 2, 3]);
    world.ask(PEER, Op::Lock(PEER_LEASE, WAIT));
    world.release(0);
    world.ask(PEER, Op::GiveUp(WAIT));
    world.ask(OTHER_PEER, Op::Lock(PEER_LEASE, WAIT));
    assert!(matches!(world.queue(10), Answer::Waits(..)));
    for (holder, waiters) in [(1, &[2, 3, 10][..]), (2, &[3, 10]), (3, &[10])] {
        assert_eq!(world.ask(holder, Op::Queue(WAIT)), Answer::Granted);
        beat_for(world, waiters, WAIT / 4);
        world.release(holder);
    }
    assert_eq!(granted_after(world, OTHER_PEER), 0, "it came before the last of ours");
}

fn run(case: Case) {
    case(&mut World::start(&ACTORS));
}

#[test]
fn a_stall_of_10_s_or_400_s_drops_nobody() {
    run(a_stall_drops_nobody);
}

#[test]
fn every_case_on_every_server() {
    for program in crate::server::programs() {
        let mut world = World::on(&program, &ACTORS);
        for (name, case) in CASES {
            println!("{program:?}: {name}");
            world.client.ok(&["FLUSHALL"]);
            case(&mut world);
            world.told();
        }
    }
}

/// What a beat says of a place that is the head of a free lock, and of none.
const TURN: i64 = -1;
const GONE: i64 = -2;
