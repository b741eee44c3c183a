//! Every order in which two of ours and a client of Redisson can use a lock: from each state that they can come to,
//! each of them does each thing, and the server is then what the model says.

use std::collections::BTreeSet;

use crate::{
    keyspace::{Keyspace, LOCK, timeout_key},
    model::{Answer, Model, OWNERS, Op, PEER, PEER_LEASE, UNIT},
    ours,
    redisson::{self, Version},
    resp::{Client, Reply},
    server::{Server, programs},
};

const OF_FIRST: [Op; 9] = [
    Op::Read(3),
    Op::Write(3),
    Op::RenewRead(5),
    Op::RenewWrite(5),
    Op::Downgrade(4),
    Op::ReleaseRead,
    Op::ReleaseWrite,
    Op::ForceRelease,
    Op::Expire,
];
const OF_SECOND: [Op; 7] = [
    Op::Read(1),
    Op::Write(1),
    Op::RenewRead(1),
    Op::Downgrade(1),
    Op::ReleaseRead,
    Op::ReleaseWrite,
    Op::Expire,
];
const OF_PEER: [Op; 6] =
    [Op::Read(2), Op::Write(2), Op::RenewRead(2), Op::ReleaseRead, Op::ReleaseWrite, Op::Expire];

fn ops_of(actor: usize) -> &'static [Op] {
    [&OF_FIRST[..], &OF_SECOND[..], &OF_PEER[..]][actor]
}

/// Does it on the server.
fn act(client: &mut Client, actor: usize, op: Op, version: Version, limit: &str) -> Reply {
    let owner = OWNERS[actor];
    match op {
        Op::Expire => {
            let keys = [timeout_key(owner, 1), timeout_key(owner, 2)];
            client.ok(&["DEL", &keys[0], &keys[1]])
        }
        _ if actor == PEER => act_as_peer(client, owner, op, version),
        Op::Read(ttl) => ours::read_acquire(client, owner, ttl * UNIT, limit),
        Op::Write(ttl) => ours::write_acquire(client, owner, ttl * UNIT, limit),
        Op::RenewRead(ttl) => ours::read_renew(client, owner, ttl * UNIT, limit),
        Op::RenewWrite(ttl) => ours::write_renew(client, owner, ttl * UNIT, limit),
        Op::Downgrade(ttl) => ours::downgrade(client, owner, ttl * UNIT, limit),
        Op::ReleaseRead => ours::read_release(client, owner),
        Op::ReleaseWrite => ours::write_release(client, owner),
        Op::ForceRelease => ours::force_release(client),
    }
}

fn act_as_peer(client: &mut Client, owner: &str, op: Op, version: Version) -> Reply {
    match op {
        Op::Read(ttl) => redisson::read_lock(client, owner, ttl * UNIT),
        Op::Write(ttl) => redisson::write_lock(client, owner, ttl * UNIT),
        Op::RenewRead(ttl) => redisson::read_renewal(client, owner, ttl * UNIT, version),
        Op::ReleaseRead => redisson::read_unlock(client, owner, version),
        Op::ReleaseWrite => redisson::write_unlock(client, owner, PEER_LEASE * UNIT, version),
        Op::RenewWrite(_) | Op::Downgrade(_) | Op::ForceRelease | Op::Expire => panic!("{op:?}"),
    }
}

/// What a reply says.
fn answer(actor: usize, op: Op, reply: &Reply) -> Answer {
    let yes = match (op, reply) {
        (Op::Expire, _) => true,
        (Op::Read(_) | Op::Write(_), reply) if actor == PEER => *reply == Reply::Nil,
        (Op::RenewRead(_), reply) if actor == PEER => reply.number() == 1,
        (_, reply) if actor == PEER => *reply != Reply::Nil,
        (Op::RenewRead(_) | Op::RenewWrite(_), reply) => match ours::found(reply)[..] {
            [Ok(left)] => left != -2,
            _ => panic!("{reply:?}"),
        },
        (_, reply) => reply.code() == 1,
    };
    if yes { Answer::Yes } else { Answer::No }
}

/// Whether it is refused past a time.
fn has_a_limit(op: Op) -> bool {
    !matches!(op, Op::ReleaseRead | Op::ReleaseWrite | Op::ForceRelease | Op::Expire)
}

/// What every step keeps, whatever the model says of the rest.
fn check_promises(before: &Model, actor: usize, op: Op, after: &Model, left: &Keyspace, told: &str) {
    assert!(left.immortal().is_empty(), "{told}");
    let holders = (0..3).filter(|who| after.reads(*who) || after.holds[*who].writes > 0).count();
    assert!(after.writer().is_none() || holders == 1, "a writer is alone: {told}");
    for other in (0..PEER).filter(|other| *other != actor && op != Op::ForceRelease) {
        assert_eq!(before.reads(other), after.reads(other), "only its owner ends a read hold: {told}");
        assert_eq!(before.holds[other].writes, after.holds[other].writes, "{told}");
        if before.holds[other].writes > 0 {
            assert_eq!(before.ttl, after.ttl, "nobody shortens a write hold of ours: {told}");
        }
        let (was, is) = (before.holds[other].lasting().next(), after.holds[other].lasting().next());
        let renewal_of_peer = actor == PEER && matches!(op, Op::RenewRead(_));
        assert!(renewal_of_peer || is >= was, "nobody shortens a read hold of ours: {told}");
        // A renewal of the peer may have made the lock shorter than a read hold of ours: our next
        // renewal mends it.
        let outlives = |model: &Model| model.holds[other].lasting().all(|left| model.ttl >= left);
        assert!(renewal_of_peer || !outlives(before) || outlives(after), "{told}");
    }
}

fn check_step(client: &mut Client, before: &Model, actor: usize, op: Op, version: Version) -> Option<Model> {
    let (wanted, after) = before.step(actor, op, version)?;
    let told = format!("{version:?}: actor {actor} does {op:?} in {before:?}");
    before.keyspace().write(client);
    if actor != PEER && has_a_limit(op) {
        let late = act(client, actor, op, version, ours::PASSED);
        assert_eq!(late.code(), 2, "{told}");
        assert_eq!(Keyspace::read(client).in_units(UNIT), before.keyspace().in_units(UNIT), "late: {told}");
    }
    let reply = act(client, actor, op, version, ours::NEVER);
    assert!(reply.error().is_none(), "{told}: {reply:?}");
    assert_eq!(answer(actor, op, &reply), wanted, "{told}: {reply:?}");
    let left = Keyspace::read(client);
    assert_eq!(left.in_units(UNIT), after.keyspace().in_units(UNIT), "{told}");
    check_promises(before, actor, op, &after, &left, &told);
    if actor != PEER && op != Op::Expire {
        let again = act(client, actor, op, version, ours::NEVER);
        let wanted = if has_a_limit(op) { wanted } else { Answer::No };
        assert_eq!(answer(actor, op, &again), wanted, "again: {told}: {again:?}");
        assert_eq!(Keyspace::read(client).in_units(UNIT), after.keyspace().in_units(UNIT), "again: {told}");
    }
    Some(after)
}

/// Goes to every state within `steps_max` steps. Returns the numbers of states and of steps.
fn walk(client: &mut Client, version: Version, steps_max: usize) -> (usize, usize) {
    let mut seen = BTreeSet::from([Model::default()]);
    let (mut edge, mut steps) = (vec![Model::default()], 0);
    for _ in 0..steps_max {
        if edge.is_empty() {
            break;
        }
        let mut next = Vec::new();
        for before in &edge {
            for (actor, op) in (0..3).flat_map(|actor| ops_of(actor).iter().map(move |op| (actor, *op))) {
                let Some(after) = check_step(client, before, actor, op, version) else { continue };
                steps += 1;
                if seen.insert(after.clone()) {
                    next.push(after);
                }
            }
        }
        edge = next;
    }
    (seen.len(), steps)
}

#[test]
fn every_order_beside_redisson_4_7_leaves_what_the_model_says() {
    let server = Server::start();
    let (states, steps) = walk(&mut server.client(), Version::V4_7, usize::MAX);
    println!("{states} states, {steps} steps");
    assert!(states > 300, "{states}");
}

#[test]
fn every_order_beside_redisson_3_27_leaves_what_the_model_says() {
    let server = Server::start();
    let (states, steps) = walk(&mut server.client(), Version::V3_27, usize::MAX);
    println!("{states} states, {steps} steps");
    assert!(states > 300, "{states}");
}

#[test]
fn short_orders_on_every_server_leave_what_the_model_says() {
    for program in programs() {
        let server = Server::start_program(&program, &[]);
        let (states, steps) = walk(&mut server.client(), Version::V4_7, 4);
        println!("{program:?}: {states} states, {steps} steps");
    }
}

#[test]
fn a_hash_of_another_kind_of_lock_is_held_by_others() {
    let server = Server::start();
    let mut client = server.client();
    client.ok(&["HSET", LOCK, "somebody:1", "1"]);
    client.ok(&["PEXPIRE", LOCK, "10000000"]);
    let before = Keyspace::read(&mut client).in_units(UNIT);
    for reply in [
        ours::read_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER),
        ours::write_acquire(&mut client, OWNERS[0], UNIT, ours::NEVER),
        ours::read_release(&mut client, OWNERS[0]),
        ours::write_release(&mut client, OWNERS[0]),
        ours::downgrade(&mut client, OWNERS[0], UNIT, ours::NEVER),
    ] {
        assert_eq!(reply.code(), 0, "{reply:?}");
    }
    assert!(ours::force_release(&mut client).error().unwrap().starts_with("WRONGTYPE"));
    assert_eq!(Keyspace::read(&mut client).in_units(UNIT), before);
}
