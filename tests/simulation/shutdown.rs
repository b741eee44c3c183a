//! The end of an engine, in good order and otherwise.

use leasehold::{
    AcquireError, InspectError, Lease, LossEvent, LossReason, ReleaseError, RenewError, ShutdownReport,
};
use leasehold_memory::{Cut, Fault, Faulty, MemoryTransport, Operation};

use crate::fixture::{
    Traffic, What, breathe, engine, fixture, millis, now, pass, poll_once, seconds, settles_within, timed,
};

async fn leases(engine: &leasehold::Engine, count: usize) -> Vec<Lease> {
    let mut leases = vec![];
    for number in 0..count {
        leases.push(engine.lock(format!("a{number}")).acquire().await.unwrap());
    }
    leases
}

#[tokio::test(start_paused = true)]
async fn every_lease_is_lost_and_released_and_the_report_counts_them() {
    let fixture = fixture().await;
    let mut losses = fixture.engine.losses();
    let leases = leases(&fixture.engine, 20).await;
    let report = fixture.engine.shutdown(seconds(1)).await;
    assert_eq!((report.released, report.unconfirmed), (20, vec![]));
    for lease in leases {
        assert!(
            matches!(losses.try_next(), Some(LossEvent::Lost(loss)) if loss.reason == LossReason::Shutdown)
        );
        assert_eq!((lease.is_held(), lease.lost().await), (false, LossReason::Shutdown));
        let renewed = lease.renew(seconds(60)).await;
        assert!(matches!(renewed, Err(RenewError::Lost(LossReason::Shutdown))), "{renewed:?}");
        let released = lease.release().await;
        assert!(matches!(released, Err(ReleaseError::AlreadyLost(LossReason::Shutdown))), "{released:?}");
    }
    let other = fixture.other().await;
    for number in 0..20 {
        assert!(!other.lock(format!("a{number}")).is_locked().await.unwrap());
    }
    let seen = fixture.engine.snapshot();
    assert_eq!((seen.granted, seen.released, seen.lost, seen.held), (20, 0, 20, 0));
    assert_eq!((seen.entries, seen.closing, seen.waiting), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_lost_before_its_release_is_sent() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let lease = engine.lock("a").acquire().await.unwrap();
    let ending = engine.shutdown(seconds(1));
    let mut ending = std::pin::pin!(ending);
    while traffic.count(What::Release) == 0 {
        let released_while_held = traffic.count(What::Release) > 0 && lease.is_held();
        assert!(!released_while_held);
        let _ = poll_once(&mut ending.as_mut()).await;
        tokio::task::yield_now().await;
    }
    assert!(!lease.is_held());
}

#[tokio::test(start_paused = true)]
async fn queued_and_new_callers_are_told_that_it_is_shutting_down() {
    let fixture = fixture().await;
    let _held = fixture.other().await.lock("a").acquire().await.unwrap();
    let (waiting, trying) = (tokio::spawn(fixture.engine.lock("a").acquire()), fixture.engine.lock("a"));
    breathe().await;
    fixture.engine.shutdown(seconds(1)).await;
    assert!(matches!(waiting.await.unwrap(), Err(AcquireError::ShuttingDown)));
    assert!(matches!(trying.acquire().await, Err(AcquireError::ShuttingDown)));
    assert!(matches!(trying.try_acquire().await, Err(AcquireError::ShuttingDown)));
    assert!(matches!(trying.holder().await, Err(InspectError::ShuttingDown)));
    assert!(matches!(trying.force_release().await, Err(InspectError::ShuttingDown)));
    settles_within(&fixture.engine, seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_confirmed_is_named_and_the_timeout_is_kept() {
    let fixture = fixture().await;
    let _leases = leases(&fixture.engine, 3).await;
    fixture.faults.on(Operation::Release).key("a1").always().inject(Fault::LoseRequest);
    let (report, took) = timed(fixture.engine.shutdown(millis(400))).await;
    assert_eq!((report.released, report.unconfirmed), (2, vec!["a1".to_owned()]));
    assert_eq!(took, millis(400));
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_is_under_way_is_waited_for_and_its_grant_given_back() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(500)));
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    let report = fixture.engine.shutdown(seconds(2)).await;
    assert!(matches!(waiting.await.unwrap(), Err(AcquireError::ShuttingDown)));
    assert_eq!(report.unconfirmed, Vec::<String>::new());
    assert!(!fixture.other().await.lock("a").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_stays_unanswered_is_named() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Acquire).always().inject(Fault::LoseReply);
    fixture.faults.on(Operation::Release).always().inject(Fault::LoseRequest);
    let _waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    breathe().await;
    for timeout in [millis(500), seconds(3)] {
        let report = fixture.engine.shutdown(timeout).await;
        assert!(report.unconfirmed == ["a"] || timeout == seconds(3), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_being_closed_is_waited_for_or_named() {
    let fixture = fixture().await;
    fixture.faults.on(Operation::Release).times(2).inject(Fault::LoseRequest);
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    assert!(matches!(lease.release().await, Err(ReleaseError::Unknown { .. })));
    breathe().await;
    let report = fixture.engine.shutdown(millis(100)).await;
    assert_eq!(report.unconfirmed, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn in_a_black_hole_it_ends_in_time_and_names_everything() {
    let fixture = fixture().await;
    let _leases = leases(&fixture.engine, 5).await;
    fixture.faults.cut(Cut::BlackHole);
    let (report, took) = timed(fixture.engine.shutdown(seconds(3))).await;
    assert_eq!((report.released, report.unconfirmed.len()), (0, 5));
    assert_eq!(took, seconds(3));
}

#[tokio::test(start_paused = true)]
async fn a_second_shutdown_and_a_drop_after_it_do_nothing() {
    let fixture = fixture().await;
    let lease = fixture.engine.lock("a").acquire().await.unwrap();
    fixture.engine.shutdown(seconds(1)).await;
    assert_eq!(fixture.engine.shutdown(seconds(1)).await, ShutdownReport::default());
    let other = fixture.other().await.lock("a").acquire().await.unwrap();
    drop(lease);
    pass(seconds(60)).await;
    assert!(other.is_held() && fixture.other().await.lock("a").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_shutdown_goes_on() {
    let fixture = fixture().await;
    let _leases = leases(&fixture.engine, 3).await;
    drop(tokio::time::timeout(millis(0), fixture.engine.shutdown(seconds(1))).await);
    breathe().await;
    assert!(!fixture.other().await.lock("a1").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn l7_when_every_handle_is_gone_what_was_held_and_asked_for_is_given_back() {
    let transport = Faulty::new(MemoryTransport::new());
    let faults = transport.faults();
    let engine = engine(&transport).await;
    let held = engine.lock("held").acquire().await.unwrap();
    faults.on(Operation::Acquire).inject(Fault::DelayReply(millis(300)));
    let asking = tokio::spawn(engine.lock("asked").acquire());
    breathe().await;
    asking.abort();
    drop((held, engine));
    pass(seconds(1)).await;
    assert_eq!(transport.inner().stored_holds(), 0);
    let other = crate::fixture::engine(transport.inner()).await;
    for name in ["held", "asked"] {
        assert!(!other.lock(name).is_locked().await.unwrap(), "{name}");
    }
    assert_eq!(transport.inner().watched_keys(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_handle_keeps_the_engine_alive() {
    let transport = MemoryTransport::new();
    let other = engine(&transport).await;
    let one = engine(&transport).await;
    let lease = one.lock("a").acquire().await.unwrap();
    let (lock, mut losses, scope) = (one.lock("b"), one.losses(), one.reentry());
    drop(one);
    pass(seconds(100)).await;
    assert!(lease.is_held() && other.lock("a").is_locked().await.unwrap());
    drop(lease);
    breathe().await;
    assert!(!other.lock("a").is_locked().await.unwrap());
    let lease = lock.acquire().await.unwrap();
    drop(lock);
    other.lock("b").force_release().await.unwrap();
    let before = now();
    assert!(matches!(losses.next().await, Some(LossEvent::Lost(_))));
    assert!(now() - before <= seconds(11));
    drop((lease, scope));
    assert!(losses.next().await.is_none(), "a reader of losses keeps no engine");
}

#[tokio::test(start_paused = true)]
async fn after_it_the_engine_is_not_connected() {
    let fixture = fixture().await;
    assert!(fixture.engine.snapshot().connected);
    fixture.engine.shutdown(seconds(1)).await;
    assert!(!fixture.engine.snapshot().connected);
}
