//! Owners whose release was not answered are asked about again as soon as their node can be used (S5).

use leasehold::{AcquireError, Engine, Lease, ReleaseError, transport::ErrorKind};
use leasehold_memory::{Cut, Fault, Operation};

use crate::fixture::{
    Cluster, Fixture, Traffic, What, breathe, builder, fixture, millis, name_in, pass, seconds,
};

async fn leases_of(engine: &Engine, names: impl Iterator<Item = String>) -> Vec<Lease> {
    let names: Vec<String> = names.collect();
    let leases: Result<Vec<Lease>, AcquireError> = engine.acquire_all(names).await.into_iter().collect();
    leases.unwrap()
}

/// So many owners whose release was not answered, for that many seconds.
async fn silence(fixture: &Fixture, cut: Cut, owners: usize, passes: u64) {
    let leases = leases_of(&fixture.engine, (0..owners).map(|number| number.to_string())).await;
    fixture.faults.cut(cut);
    let released = fixture.engine.release_all(leases).await;
    assert!(released.iter().all(|answer| matches!(answer, Err(ReleaseError::Unknown { .. }))));
    pass(seconds(passes)).await;
    assert_eq!(fixture.engine.snapshot().closing, owners as u64);
}

#[tokio::test(start_paused = true)]
async fn s5_owners_of_a_silent_server_are_closed_within_100_ms_of_its_return() {
    for passes in [1, 3, 7, 12] {
        let fixture = fixture().await;
        silence(&fixture, Cut::Refused, 200, passes).await;
        fixture.faults.heal();
        pass(millis(51)).await;
        assert_eq!(fixture.engine.snapshot().closing, 0, "after {passes} s");
        assert!(!fixture.engine.lock("7").is_locked().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn s5_owners_of_a_server_that_answered_nothing_are_asked_about_within_100_ms() {
    let fixture = fixture().await;
    silence(&fixture, Cut::BlackHole, 200, 7).await;
    fixture.faults.heal();
    pass(millis(51)).await;
    let closing = fixture.engine.snapshot().closing;
    assert!(closing <= 21, "only releases that are in flight are left: {closing}");
    pass(millis(1_050)).await;
    assert_eq!(fixture.engine.snapshot().closing, 0);
}

#[tokio::test(start_paused = true)]
async fn s5_any_answer_of_a_server_makes_its_owners_due() {
    let fixture = fixture().await;
    silence(&fixture, Cut::Refused, 200, 7).await;
    fixture.faults.heal();
    let _lease = fixture.engine.lock("another").acquire().await.unwrap();
    breathe().await;
    assert_eq!(fixture.engine.snapshot().closing, 0);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_gets_20_releases_a_second_however_many_owners_wait() {
    let fixture = fixture().await;
    silence(&fixture, Cut::Refused, 1_000, 10).await;
    let before = fixture.heard.counts().answered[&leasehold::metrics::Operation::Release];
    pass(seconds(10)).await;
    let sent = fixture.heard.counts().answered[&leasehold::metrics::Operation::Release] - before;
    assert!((200..=400).contains(&sent), "{sent} in 10 s");
}

#[tokio::test(start_paused = true)]
async fn s5_owners_of_a_node_are_asked_about_once_it_is_connected() {
    let cluster = Cluster::new(3);
    let traffic = Traffic::new(cluster.clone());
    let engine = builder(&traffic).build().await.unwrap();
    let leases = leases_of(&engine, (0..50).map(|number| name_in(0, number))).await;
    cluster.disconnect(0);
    let released = engine.release_all(leases).await;
    assert!(released.iter().all(Result::is_err));
    pass(seconds(9)).await;
    assert_eq!(engine.snapshot().closing, 50);
    traffic.clear();
    cluster.connect(0);
    breathe().await;
    assert_eq!((engine.snapshot().closing, traffic.count(What::Release)), (0, 50));
}

#[tokio::test(start_paused = true)]
async fn s5_changes_of_other_nodes_raise_no_back_off() {
    let cluster = Cluster::new(3);
    let engine = builder(&cluster).build().await.unwrap();
    let leases = leases_of(&engine, (0..50).map(|number| name_in(0, number))).await;
    cluster.disconnect(0);
    let _ = engine.release_all(leases).await;
    for _ in 0..10 {
        cluster.disconnect(1);
        pass(millis(100)).await;
        cluster.connect(1);
        pass(millis(100)).await;
    }
    assert_eq!(engine.snapshot().closing, 50);
    cluster.connect(0);
    breathe().await;
    assert_eq!(engine.snapshot().closing, 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_its_server_does_not_answer_backs_off_while_others_are_answered() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::Release).key("a").always().inject(Fault::Refuse(ErrorKind::NotReady));
    lease.release().await.unwrap_err();
    pass(seconds(1)).await;
    let sent = || fixture.heard.counts().unanswered[&leasehold::metrics::Operation::Release];
    let before = sent();
    for _ in 0..10_000 {
        drop(fixture.engine.lock("b").acquire().await.unwrap().release().await);
        breathe().await;
    }
    let sent = sent() - before;
    assert!(sent <= 10, "{sent} releases of one owner in 10 s");
    fixture.faults.clear();
    fixture.settles_within(seconds(6)).await;
}

#[tokio::test(start_paused = true)]
async fn s5_owners_of_a_silent_node_hold_up_none_of_another() {
    let cluster = Cluster::new(3);
    let engine = builder(&cluster).build().await.unwrap();
    let silent = leases_of(&engine, (0..50).map(|number| name_in(0, number))).await;
    let other = engine.lock(name_in(cluster.parts_of(1)[0], 0)).acquire().await.unwrap();
    cluster.disconnect(0);
    let _ = engine.release_all(silent).await;
    pass(seconds(3)).await;
    cluster.disconnect(1);
    other.release().await.unwrap_err();
    assert_eq!(engine.snapshot().closing, 51);
    cluster.connect(1);
    breathe().await;
    assert_eq!(engine.snapshot().closing, 50);
}
