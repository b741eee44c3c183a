//! Owners are closed also when their slot has moved away from the server that never answered.

use crate::fixture::{Cluster, builder, millis, name_in, now, pass, seconds, settles_within, until};

// An ask that node 0 never answers, given up by its caller; its owner is open there.
async fn open_owner(cluster: &Cluster) -> leasehold::Engine {
    let engine = builder(cluster).build().await.expect("an engine");
    cluster.hang(0);
    let asked = engine.lock(name_in(0, 0)).ttl(seconds(3)).wait(millis(200)).acquire().await;
    assert!(asked.is_err());
    pass(millis(1_000)).await;
    assert_eq!(engine.snapshot().closing, 1);
    engine
}

#[tokio::test(start_paused = true)]
async fn s5_an_owner_is_closed_after_its_slot_has_moved_away() {
    let cluster = Cluster::new(3);
    let engine = open_owner(&cluster).await;
    cluster.migrate(0, 1);
    cluster.wake(0);
    settles_within(&engine, seconds(10)).await;
    assert_eq!(cluster.stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn s5_not_before_the_ttl_has_passed_because_the_new_node_does_not_know_the_old_ones_clock() {
    let cluster = Cluster::new(3);
    let began = now();
    let engine = open_owner(&cluster).await;
    cluster.migrate(0, 1);
    until(began + seconds(3)).await;
    assert_eq!(engine.snapshot().closing, 1, "its last send may have been executed for {:?}", seconds(3));
    settles_within(&engine, seconds(10)).await;
}

#[tokio::test(start_paused = true)]
async fn s5_a_slot_that_is_back_in_time_has_its_owners_closed_by_the_servers_word() {
    let cluster = Cluster::new(3);
    let began = now();
    let engine = open_owner(&cluster).await;
    cluster.migrate(0, 1);
    pass(millis(300)).await;
    cluster.wake(0);
    cluster.migrate(0, 0);
    settles_within(&engine, seconds(1)).await;
    assert!(now() < began + seconds(3), "by its word, and not by the time");
}

#[tokio::test(start_paused = true)]
async fn s5_an_owner_is_closed_while_another_node_answers_for_a_slot_in_migration() {
    let cluster = Cluster::new(3);
    let engine = open_owner(&cluster).await;
    cluster.answer_elsewhere(0, 1);
    settles_within(&engine, seconds(12)).await;
}

#[tokio::test(start_paused = true)]
async fn s5_an_unanswered_renewal_counts_by_its_own_time_and_not_by_that_of_later_ones() {
    let cluster = Cluster::new(3);
    let engine = builder(&cluster).build().await.expect("an engine");
    let lease = engine.lock(name_in(0, 0)).ttl(seconds(12)).acquire().await.expect("free");
    cluster.hang(0);
    pass(seconds(5)).await;
    cluster.migrate(0, 1);
    pass(seconds(25)).await;
    assert!(
        lease.is_held() && engine.snapshot().renewals_failed > 0,
        "renewed by node 1, once not by node 0"
    );
    lease.release().await.expect("it was ours");
    settles_within(&engine, seconds(1)).await;
}
