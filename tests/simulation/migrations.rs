//! Slots that move between nodes, with leases, waiters and traffic on them.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use leasehold::LeaseState;
use leasehold_tests::harness::seed::seed;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::LocalSet;

use crate::fixture::{
    Cluster, Heard, PARTS, builder, millis, name_in, now, pass, seconds, settles_within, timed,
};

// Back and forth: for a while the nodes know and the topology does not.
async fn move_parts(cluster: Cluster, mut rng: StdRng) -> u64 {
    let (end, mut moves) = (now() + seconds(20), 0);
    while now() < end {
        let (part, to) = (rng.random_range(0..PARTS), rng.random_range(0..3));
        cluster.answer_elsewhere(part, to);
        pass(millis(rng.random_range(0..200))).await;
        cluster.migrate(part, to);
        moves += 1;
        pass(millis(rng.random_range(1..150))).await;
    }
    moves
}

#[tokio::test(start_paused = true)]
async fn no_lease_is_lost_or_renewed_late_while_slots_move_back_and_forth() {
    let (cluster, heard) = (Cluster::new(3), Heard::default());
    let engine = builder(&cluster).recorder(heard.clone()).build().await.expect("an engine");
    let mut leases = vec![];
    for part in 0..PARTS {
        for number in 0..20 {
            leases.push(engine.lock(name_in(part, number)).ttl(seconds(2)).acquire().await.expect("free"));
            pass(millis(3)).await;
        }
    }
    let moving = tokio::spawn(move_parts(cluster.clone(), StdRng::seed_from_u64(seed())));
    while !moving.is_finished() {
        for lease in &leases {
            assert_ne!(lease.state(), LeaseState::Lost(leasehold::LossReason::Expired));
            assert!(lease.is_held() && lease.remaining() > seconds(2) / 3, "late or lost: {lease:?}");
        }
        pass(millis(10)).await;
    }
    let moves = moving.await.expect("no panic");
    println!("{moves} moves, {} renewals refused with MOVED", cluster.moved());
    assert!(moves > 60 && cluster.moved() > 50, "{moves} moves, {} MOVED", cluster.moved());
    for lease in leases {
        lease.release().await.expect("ours to the end");
    }
    let seen = engine.snapshot();
    assert_eq!((seen.granted, seen.released, seen.lost, seen.held), (240, 240, 0, 0));
    settles_within(&engine, seconds(1)).await;
    assert_eq!(cluster.stored_holds(), 0);
}

/// Several engines' clients on few names; what they did.
#[derive(Default)]
struct Work {
    holders: HashMap<String, u32>,
    grants: u64,
    longest: std::time::Duration,
}

async fn contend(lock: leasehold::Lock, work: Rc<Cell<Work>>, mut rng: StdRng) {
    let end = now() + seconds(15);
    while now() < end {
        let (lease, took) = timed(lock.acquire()).await;
        let lease = lease.expect("a lock");
        let name = lease.name().to_owned();
        with(&work, |work| {
            let holders = work.holders.entry(name.clone()).or_default();
            *holders += 1;
            assert_eq!(*holders, 1, "S1: {name}");
            work.grants += 1;
            work.longest = work.longest.max(took);
        });
        pass(millis(rng.random_range(0..60))).await;
        assert!(lease.is_held());
        with(&work, |work| *work.holders.get_mut(&name).expect("it is there") -= 1);
        lease.release().await.expect("ours to the end");
        pass(millis(rng.random_range(0..20))).await;
    }
}

fn with(work: &Cell<Work>, change: impl FnOnce(&mut Work)) {
    let mut now = work.take();
    change(&mut now);
    work.set(now);
}

#[tokio::test(start_paused = true)]
async fn s1_l2_contended_locks_change_hands_while_their_slots_move() {
    let (cluster, mut rng) = (Cluster::new(3), StdRng::seed_from_u64(seed()));
    let mut engines = vec![];
    for _ in 0..3 {
        engines.push(builder(&cluster).build().await.expect("an engine"));
    }
    let (work, local) = (Rc::new(Cell::new(Work::default())), LocalSet::new());
    let moving = tokio::spawn(move_parts(cluster.clone(), StdRng::seed_from_u64(rng.random())));
    let mut callers = vec![];
    for engine in &engines {
        for part in 0..PARTS {
            let lock = engine.lock(name_in(part, 0)).ttl(seconds(2));
            callers.push(local.spawn_local(contend(lock, work.clone(), StdRng::seed_from_u64(rng.random()))));
        }
    }
    local.await;
    for caller in callers {
        caller.await.expect("no panic");
    }
    moving.await.expect("no panic");
    let Work { grants, longest, .. } = work.take();
    println!("{grants} grants, the longest wait {longest:?}");
    assert!(grants > 3_000, "{grants}");
    assert!(longest <= seconds(2), "waiters are woken: {longest:?}");
    let seen: Vec<_> = engines.iter().map(leasehold::Engine::snapshot).collect();
    assert_eq!(seen.iter().map(|seen| seen.granted).sum::<u64>(), grants);
    assert!(seen.iter().all(|seen| seen.granted == seen.released && seen.lost == 0), "{seen:?}");
    for engine in &engines {
        settles_within(engine, seconds(1)).await;
    }
    assert_eq!(cluster.stored_holds(), 0);
}
