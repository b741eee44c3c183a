//! A release that had no effect is sent again before its caller is told "unknown".

use leasehold::{LossReason, ReleaseError, transport::ErrorKind};
use leasehold_memory::{Cut, Fault, Operation, Restart};

use crate::fixture::{
    Cluster, Traffic, What, builder, fixture, millis, name_in, now, pass, seconds, settles_within, timed,
};

#[tokio::test(start_paused = true)]
async fn a_release_while_the_node_reconnects_is_confirmed_when_it_is_back() {
    let cluster = Cluster::new(3);
    let engine = builder(&cluster).build().await.unwrap();
    let lock = engine.lock(name_in(0, 0));
    let lease = lock.acquire().await.unwrap();
    cluster.disconnect(0);
    let releasing = tokio::spawn(timed(lease.release()));
    pass(millis(395)).await;
    assert_eq!(engine.snapshot().held, 0, "not held meanwhile");
    assert!(!releasing.is_finished());
    cluster.connect(0);
    let (released, took) = releasing.await.unwrap();
    released.expect("ours to the end");
    assert!(took <= millis(396), "the topology wakes it: {took:?}");
    assert!(!lock.is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn refused_for_the_moment_it_is_confirmed_by_a_later_send() {
    let fixture = fixture().await;
    for refusals in 1..=5 {
        let lease = fixture.engine.lock("a").acquire().await.unwrap();
        fixture.faults.on(Operation::Release).times(refusals).inject(Fault::Refuse(ErrorKind::NotReady));
        let (released, took) = timed(lease.release()).await;
        released.expect("ours to the end");
        assert!(took < seconds(1), "{refusals}: {took:?}");
    }
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.released, seen.lost, seen.closing), (5, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn l3_its_caller_is_told_unknown_after_one_command_timeout() {
    for cut in [Cut::Refused, Cut::Reset] {
        let fixture = fixture().await;
        let lease = fixture.engine.lock("a").acquire().await.unwrap();
        fixture.faults.cut(cut);
        let (released, took) = timed(lease.release()).await;
        assert!(matches!(released, Err(ReleaseError::Unknown { .. })), "{cut:?}: {released:?}");
        assert!(took > millis(790) && took <= seconds(1), "{cut:?}: {took:?}");
        fixture.faults.heal();
        fixture.settles_within(seconds(6)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_server_that_comes_back_and_stands_still_keeps_nobody_longer() {
    let cluster = Cluster::new(3);
    let engine = builder(&cluster).build().await.unwrap();
    let lease = engine.lock(name_in(0, 0)).acquire().await.unwrap();
    cluster.disconnect(0);
    let releasing = tokio::spawn(timed(lease.release()));
    pass(millis(500)).await;
    cluster.hang(0);
    cluster.connect(0);
    let (released, took) = releasing.await.unwrap();
    assert!(matches!(released, Err(ReleaseError::Unknown { .. })), "{released:?}");
    assert_eq!(took, seconds(1));
    cluster.wake(0);
    settles_within(&engine, seconds(6)).await;
    assert_eq!(cluster.stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_will_not_pass_is_told_at_once() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::Release).times(1).inject(Fault::Refuse(ErrorKind::Denied));
    let (released, took) = timed(lease.release()).await;
    assert!(matches!(released, Err(ReleaseError::Unknown { .. })), "{released:?}");
    assert_eq!(took, seconds(0));
}

#[tokio::test(start_paused = true)]
async fn a_repeat_that_finds_nothing_cannot_tell_an_earlier_release_from_a_loss() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    // Executed, and its answer is that of a run which is not the present one any more.
    fixture.faults.on(Operation::Release).times(1).inject(Fault::DelayReply(millis(300)));
    let releasing = tokio::spawn(lease.release());
    pass(millis(100)).await;
    fixture.transport.inner().restart(Restart::DataKept);
    let released = releasing.await.unwrap();
    assert!(matches!(released, Err(ReleaseError::ReleasedOrLost)), "{released:?}");
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn after_sends_that_certainly_had_no_effect_not_yours_is_a_loss() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.faults.on(Operation::Release).times(1).inject(Fault::Refuse(ErrorKind::NotReady));
    let other = fixture.other().await;
    assert!(other.lock("a").force_release().await.unwrap());
    let released = lease.release().await;
    assert!(matches!(released, Err(ReleaseError::AlreadyLost(LossReason::NotOurs))), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn it_does_not_hammer_a_node_that_refuses() {
    let cluster = Cluster::new(3);
    let traffic = Traffic::new(cluster.clone());
    let engine = builder(&traffic).build().await.unwrap();
    let lease = engine.lock(name_in(0, 0)).acquire().await.unwrap();
    cluster.disconnect(0);
    let began = now();
    lease.release().await.unwrap_err();
    let sends = traffic.of(What::Release).into_iter().filter(|sent| sent.at < began + seconds(1)).count();
    assert!((5..=21).contains(&sends), "{sends} in a second");
}

// Each of these callers would send its release again and again by itself.
#[tokio::test(start_paused = true)]
async fn a_node_that_refuses_gets_20_releases_a_second_however_many_callers_wait() {
    let cluster = Cluster::new(3);
    let traffic = Traffic::new(cluster.clone());
    let engine = builder(&traffic).build().await.unwrap();
    let names = (0..300).map(|number| name_in(0, number));
    let leases = engine.acquire_all(names).await.into_iter().map(|lease| lease.unwrap());
    let leases: Vec<_> = leases.collect();
    cluster.disconnect(0);
    let began = now();
    let releases: Vec<_> =
        leases.into_iter().map(|lease| tokio::spawn(async move { lease.release().await })).collect();
    pass(millis(500)).await;
    let again = traffic.of(What::Release).into_iter().filter(|sent| sent.at > began).count();
    assert!((5..=12).contains(&again), "{again} in half a second");
    cluster.connect(0);
    for release in releases {
        release.await.unwrap().expect("ours to the end");
    }
    assert!(now() < began + millis(600), "all are sent once the node answers");
    settles_within(&engine, seconds(1)).await;
    assert_eq!(cluster.stored_holds(), 0);
}
