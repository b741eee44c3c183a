//! Twenty slots with everything on them move to another master and back.

use std::{sync::Arc, thread, time::Duration};

use leasehold_redis::NoticeKind;
use leasehold_tests::harness::{cluster::SlotMigration, node::Node, server_version::ServerVersion};

use crate::{
    context::{Context, LEASES},
    deployment::{CROWDED, Deployment},
    length::{dwell, rounds},
    moment::Moment,
    queue::alone,
    redirects::Redirects,
    wakes::Wakes,
};

#[test]
fn l5_slots_move_key_by_key_on_redis_7_0_and_nobody_notices() {
    move_there_and_back(ServerVersion::Debian, key_by_key);
}

#[test]
fn l5_slots_move_key_by_key_on_redis_8_2_and_nobody_notices() {
    move_there_and_back(ServerVersion::Redis82, key_by_key);
}

/// Renewals go slot by slot, and notices are of the classic kind.
#[test]
fn l5_slots_move_key_by_key_on_redis_6_2_and_nobody_notices() {
    move_there_and_back(ServerVersion::Redis62, key_by_key);
}

#[test]
fn l5_slots_move_at_once_on_valkey_9_1_and_nobody_notices() {
    move_there_and_back(ServerVersion::Valkey91, at_once);
}

fn move_there_and_back(version: ServerVersion, move_slots: MoveSlots) {
    alone(|| {
        let context = Context::on(Deployment::crowded_cluster(version, NoticeKind::Auto));
        let mut woken = Duration::ZERO;
        let (home, away) = (context.deployment.master(0), context.deployment.master(1));
        let (began, before) = (Moment::now(), Redirects::told_by(&context.deployment));
        let followed_before = Redirects::followed_by(&context.engines);
        for _ in 0..rounds() {
            for to in [&away, &home] {
                woken = woken.max(move_slots(&context, to));
                let owner =
                    context.deployment.cluster_itself().master_of(*CROWDED.start()).expect("an owner");
                assert_eq!(owner.port(), to.port(), "the slots have moved");
                context.recovered(0, Moment::now());
            }
        }
        let followed = Redirects::followed_by(&context.engines) - followed_before;
        let redirects = Redirects::told_by(&context.deployment) - before;
        let (took, grants) = (began.elapsed(), context.traffic.grants(0, began));
        let report = context.end();
        println!(
            "{}: {} slots there and back, {} times, within {took:?}: {redirects:?}, followed {followed:?}, {grants} grants on them, waiters \
             woken on the way within {woken:?}; {report}",
            version.name(),
            CROWDED.len(),
            rounds()
        );
        // Or nothing was asked while they were on their way.
        assert!(
            redirects.moved > 0 && (redirects.asked > 100 || version.migrates_atomically()),
            "{redirects:?}"
        );
        assert!(followed.moved <= redirects.moved && followed.asked <= redirects.asked, "{followed:?}");
        assert!(
            followed.moved > 0 && (followed.asked > 100 || version.migrates_atomically()),
            "{followed:?}"
        );
        assert!(grants > 0, "work goes on");
        report.assert_nothing();
    });
}

/// Slowly: first some keys of each slot are there, then all, and each state lasts longer than any renewal waits. How
/// long a waiter waited for what was released in each of them.
fn key_by_key(context: &Context, to: &Arc<Node>) -> Duration {
    let cluster = context.deployment.cluster_itself();
    let wakes = Wakes::prepare(context);
    let begun: Vec<_> = CROWDED.map(|slot| cluster.begin_migration(slot, to).expect("begun")).collect();
    begun.iter().for_each(move_half);
    thread::sleep(dwell());
    let half_moved = wakes.release(context);
    let wakes = Wakes::prepare(context);
    let moved: usize = begun.iter().map(|migration| migration.move_keys().expect("moved")).sum();
    assert!(moved >= LEASES / 4, "only {moved} keys were there to be moved");
    thread::sleep(dwell());
    let moved = wakes.release(context);
    let wakes = Wakes::prepare(context);
    begun.into_iter().for_each(|migration| migration.finish().expect("finished"));
    let finished = wakes.release(context);
    cluster.wait_until_whole().expect("agreed");
    half_moved.max(moved).max(finished)
}

fn move_half(migration: &SlotMigration<'_>) {
    let keys = migration.keys(KEYS_MAX).expect("keys");
    keys[..keys.len() / 2].iter().for_each(|key| migration.move_key(key).expect("moved"));
}

fn at_once(context: &Context, to: &Arc<Node>) -> Duration {
    let wakes = Wakes::prepare(context);
    context.deployment.cluster_itself().migrate_slots_atomically(CROWDED, to).expect("moved");
    let woken = wakes.release(context);
    // So that each life of the slots has its renewals.
    thread::sleep(dwell());
    woken
}

type MoveSlots = fn(&Context, &Arc<Node>) -> Duration;

/// More than a slot has.
const KEYS_MAX: usize = 1_000;
