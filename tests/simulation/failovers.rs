//! One node of three fails over, with leases on all of them.

use std::collections::HashMap;

use leasehold::{Engine, Lease, LeaseState, LossEvent, LossReason, clock::Instant};

use crate::fixture::{Cluster, Data, Heard, builder, millis, name_in, now, pass, seconds, settles_within};

const TTL_SECONDS: u64 = 3;
const LEASES_A_PART: usize = 10;

struct Field {
    cluster: Cluster,
    engine: Engine,
    heard: Heard,
    /// By part.
    leases: Vec<(usize, Lease)>,
}

async fn field() -> Field {
    let (cluster, heard) = (Cluster::new(3), Heard::default());
    let engine = builder(&cluster).recorder(heard.clone()).build().await.expect("an engine");
    let mut leases = vec![];
    for part in 0..crate::fixture::PARTS {
        for number in 0..LEASES_A_PART {
            let lock = engine.lock(name_in(part, number)).ttl(seconds(TTL_SECONDS));
            leases.push((part, lock.acquire().await.expect("free")));
            pass(millis(7)).await; // periods that do not coincide
        }
    }
    Field { cluster, engine, heard, leases }
}

impl Field {
    fn on(&self, parts: &[usize]) -> impl Iterator<Item = &Lease> {
        self.leases.iter().filter(|(part, _)| parts.contains(part)).map(|(_, lease)| lease)
    }

    fn others(&self, parts: &[usize]) -> Vec<usize> {
        (0..crate::fixture::PARTS).filter(|part| !parts.contains(part)).collect()
    }

    /// Lets time pass; none of these leases is late (renewed with less than a third of its ttl left), lost or in jeopardy.
    async fn undisturbed_until(&self, parts: &[usize], end: Instant) {
        while now() < end {
            for lease in self.on(parts) {
                assert_eq!(lease.state(), LeaseState::Held, "{lease:?}");
                assert!(lease.remaining() > seconds(TTL_SECONDS) / 3, "late: {lease:?}");
            }
            pass(millis(10)).await;
        }
    }

    fn conservation(&self) {
        let seen = self.engine.snapshot();
        assert_eq!(seen.granted, seen.released + seen.lost + seen.held, "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s12_a_new_master_with_the_locks_is_asked_at_once_and_confirms_them() {
    let field = field().await;
    let parts = field.cluster.parts_of(0);
    field.cluster.fail_over(0, 3, Data::Kept);
    let end = now() + seconds(10);
    pass(millis(51)).await;
    assert_eq!(field.heard.counts().jeopardies as usize, parts.len() * LEASES_A_PART, "one tick, once each");
    assert!(field.on(&parts).all(|lease| lease.state() == LeaseState::Held), "answered in the same tick");
    assert!(field.on(&parts).all(|lease| lease.remaining() > millis(2_790)));
    field.undisturbed_until(&(0..crate::fixture::PARTS).collect::<Vec<_>>(), end).await;
    let nodes: Vec<_> = field.heard.counts().nodes.split_off(3);
    assert_eq!(nodes, [("node 3".to_owned(), true), ("node 0".to_owned(), false)], "told once");
    field.conservation();
}

#[tokio::test(start_paused = true)]
async fn a_new_master_without_the_locks_costs_those_of_its_slots_and_no_others() {
    let field = field().await;
    let mut losses = field.engine.losses();
    let (parts, began) = (field.cluster.parts_of(0), now());
    field.cluster.fail_over(0, 3, Data::Lost);
    field.undisturbed_until(&field.others(&parts), began + seconds(10)).await;
    for _ in 0..parts.len() * LEASES_A_PART {
        let Some(LossEvent::Lost(loss)) = losses.next().await else { panic!("none is missed") };
        assert_eq!(loss.reason, LossReason::NotOurs);
        assert!(loss.at <= began + millis(100) && loss.at < loss.deadline, "{loss:?}");
    }
    assert!(field.on(&parts).all(|lease| matches!(lease.state(), LeaseState::Lost(LossReason::NotOurs))));
    field.conservation();
}

// Standing still, then known to be gone, then replaced: the order of a crash.
async fn crash(field: &Field, detected: u64, replaced: u64, data: Data) -> Instant {
    let (began, parts) = (now(), field.cluster.parts_of(0));
    field.cluster.hang(0);
    field.undisturbed_until(&field.others(&parts), began + millis(detected)).await;
    field.cluster.remove(0);
    field.undisturbed_until(&field.others(&parts), began + millis(replaced)).await;
    field.cluster.add(3);
    parts.iter().for_each(|part| field.cluster.serve(*part, 3, data));
    began
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_is_healed_in_time_costs_nothing_anywhere() {
    let field = field().await;
    let parts = field.cluster.parts_of(0);
    let began = crash(&field, 500, 1_100, Data::Kept).await;
    field.undisturbed_until(&field.others(&parts), began + seconds(6)).await;
    assert!(field.on(&parts).all(|lease| lease.state() == LeaseState::Held));
    assert_eq!(field.engine.snapshot().lost, 0);
    field.conservation();
}

#[tokio::test(start_paused = true)]
async fn a_crash_that_lasts_too_long_is_told_by_each_deadline_and_never_later() {
    for data in [Data::Kept, Data::Lost] {
        let field = field().await;
        let mut losses = field.engine.losses();
        let parts = field.cluster.parts_of(0);
        let deadlines: HashMap<_, _> =
            field.on(&parts).map(|lease| (lease.name().to_owned(), now() + lease.remaining())).collect();
        let began = crash(&field, 1_000, 4_000, data).await;
        field.undisturbed_until(&field.others(&parts), began + seconds(6)).await;
        for _ in 0..deadlines.len() {
            let Some(LossEvent::Lost(loss)) = losses.next().await else { panic!("none is missed") };
            assert_eq!(loss.reason, LossReason::Expired);
            assert!(loss.at <= loss.deadline + millis(100), "two ticks: {loss:?}");
            assert!(loss.deadline >= deadlines[&*loss.name], "{loss:?}");
        }
        field.conservation();
        let Field { engine, leases, .. } = field;
        drop(leases);
        settles_within(&engine, seconds(15)).await; // every owner is closed
        for name in deadlines.keys() {
            assert!(!engine.lock(name).is_locked().await.expect("memory answers"), "{data:?}: {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_slots_without_a_node_are_in_jeopardy_at_once() {
    let field = field().await;
    let parts = field.cluster.parts_of(1);
    assert!(field.engine.snapshot().connected);
    field.cluster.remove(1);
    pass(millis(51)).await;
    assert!(!field.engine.snapshot().connected);
    assert!(field.on(&parts).all(|lease| lease.state() == LeaseState::Jeopardy));
    assert_eq!(field.engine.snapshot().jeopardy as usize, parts.len() * LEASES_A_PART);
    parts.iter().for_each(|part| field.cluster.serve(*part, 2, Data::Kept));
    pass(millis(51)).await;
    assert!(field.on(&parts).all(|lease| lease.state() == LeaseState::Held));
    assert!(field.engine.snapshot().connected);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_added_filled_emptied_and_removed_disturbs_nothing() {
    let field = field().await;
    let all: Vec<_> = (0..crate::fixture::PARTS).collect();
    field.cluster.add(3);
    field.cluster.disconnect(3);
    pass(millis(51)).await;
    assert!(field.engine.snapshot().connected, "it serves no slot");
    field.cluster.connect(3);
    for part in field.cluster.parts_of(0) {
        field.cluster.migrate(part, 3);
        field.undisturbed_until(&all, now() + millis(130)).await;
    }
    field.cluster.remove(0);
    field.undisturbed_until(&all, now() + seconds(5)).await;
    assert_eq!(field.heard.counts().jeopardies, 0);
    let nodes: Vec<_> = field.heard.counts().nodes.split_off(3);
    let told = |node: &str, connected| (node.to_owned(), connected);
    assert_eq!(nodes, [told("node 3", false), told("node 3", true), told("node 0", false)]);
    field.conservation();
}

#[tokio::test(start_paused = true)]
async fn s12_a_node_that_comes_back_is_another_run_and_proves_nothing_about_the_former() {
    let field = field().await;
    let parts = field.cluster.parts_of(0);
    field.cluster.restart(0, Data::Lost);
    pass(millis(101)).await;
    assert!(field.on(&parts).all(|lease| matches!(lease.state(), LeaseState::Lost(LossReason::NotOurs))));
    field.undisturbed_until(&field.others(&parts), now() + seconds(4)).await;
}
