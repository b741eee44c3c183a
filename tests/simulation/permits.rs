//! Permits that expire in paused time: who gets them when, and that each lease is one caller's.

mod conserved;

use leasehold::{AcquireError, CountError, LossReason, Permit};
use leasehold_memory::{Fault, MemoryTransport, Operation, Restart};

use crate::fixture::{
    Traffic, What, breathe, engine, fixture, ground_with, millis, now, pass, seconds, settles_within, timed,
};

#[tokio::test(start_paused = true)]
async fn each_caller_has_permits_of_its_own_and_their_order_is_kept() {
    let fixture = fixture().await;
    let permits = fixture.engine.permits("a");
    assert!(permits.try_set_total(3).await.unwrap());
    let (one, two) = (permits.acquire(1).await.unwrap(), permits.acquire(2).await.unwrap());
    let large = tokio::spawn(permits.acquire(3));
    breathe().await;
    let small = tokio::spawn(permits.acquire(1));
    breathe().await;
    one.release().await.unwrap();
    pass(seconds(60)).await;
    assert!(!large.is_finished() && !small.is_finished(), "one permit is not enough for the first caller");
    two.ensure_held().unwrap();
    assert!(permits.try_acquire(1).await.unwrap().is_none(), "callers wait");
    two.release().await.unwrap();
    let large = large.await.unwrap().unwrap();
    assert!(!small.is_finished() && large.count() == 3);
    large.release().await.unwrap();
    let (small, took) = timed(small).await;
    assert!(took < millis(5), "{took:?}");
    small.unwrap().unwrap().release().await.unwrap();
    assert_eq!(permits.available().await.unwrap(), 3);
    fixture.settles_within(seconds(5)).await;
}

#[tokio::test(start_paused = true)]
async fn one_release_serves_every_caller_for_whom_it_is_enough() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.permits("a"), fixture.other().await.permits("a"));
    theirs.try_set_total(10).await.unwrap();
    let held = theirs.acquire(10).await.unwrap();
    let waiting: Vec<_> = (0..10).map(|_| tokio::spawn(ours.acquire(1))).collect();
    pass(seconds(1)).await;
    let before = now();
    held.release().await.unwrap();
    let mut granted = vec![];
    for caller in waiting {
        granted.push(caller.await.unwrap().unwrap());
    }
    assert!(now() - before < millis(20), "{:?}", now() - before);
    assert!(granted.iter().all(Permit::is_held));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_wants_fewer_is_served_when_the_one_before_it_leaves() {
    let fixture = fixture().await;
    let permits = fixture.engine.permits("a");
    permits.try_set_total(2).await.unwrap();
    let large = tokio::spawn(permits.clone().wait(seconds(3)).acquire(5));
    breathe().await;
    let small = tokio::spawn(permits.acquire(2));
    let (small, took) = timed(small).await;
    assert!(small.unwrap().unwrap().is_held());
    assert!(took >= seconds(2) && took < seconds(4), "{took:?}");
    assert!(matches!(large.await.unwrap(), Err(AcquireError::TimedOut { .. })));
}

/// Each waits in Redisson until a message comes.
#[tokio::test(start_paused = true)]
async fn a_lost_notice_delays_a_caller_by_one_safety_poll() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.permits("a"), fixture.other().await.permits("a"));
    theirs.try_set_total(1).await.unwrap();
    let held = theirs.acquire(1).await.unwrap();
    fixture.faults.on(Operation::Notice).always().inject(Fault::LoseRequest);
    let waiting = tokio::spawn(ours.acquire(1));
    pass(millis(100)).await;
    held.release().await.unwrap();
    let (done, took) = timed(waiting).await;
    assert!(done.unwrap().unwrap().is_held() && took < seconds(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_process_that_dies_come_back_after_their_ttl() {
    let fixture = fixture().await;
    let permits = fixture.engine.permits("a").ttl(seconds(10));
    permits.try_set_total(4).await.unwrap();
    let dead = permits.clone().no_renewal().acquire(3).await.unwrap();
    let lives = permits.acquire(1).await.unwrap();
    let theirs = fixture.other().await.permits("a");
    let (granted, took) = timed(theirs.acquire(2)).await;
    assert!(took >= seconds(9) && took < seconds(11), "{took:?}");
    assert_eq!(dead.lost().await, LossReason::Expired);
    lives.ensure_held().unwrap();
    assert_eq!(theirs.available().await.unwrap(), 1);
    granted.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_and_lost_with_the_servers_data() {
    let fixture = ground_with(|builder| builder.ttl(seconds(6))).await;
    let permits = fixture.engine.permits("a");
    permits.try_set_total(5).await.unwrap();
    let held = [permits.acquire(2).await.unwrap(), permits.acquire(2).await.unwrap()];
    pass(seconds(60)).await;
    assert!(held.iter().all(Permit::is_held));
    assert_eq!(permits.available().await.unwrap(), 1);
    fixture.transport.inner().restart(Restart::DataLost);
    for permit in held {
        assert_eq!(permit.lost().await, LossReason::NotOurs);
        assert!(permit.release().await.is_err());
    }
    fixture.settles_within(seconds(30)).await;
}

/// The reply to the grant is lost: the next try gets the same permits, and no other.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_takes_no_permit_twice() {
    let fixture = fixture().await;
    let permits = fixture.engine.permits("a");
    permits.try_set_total(4).await.unwrap();
    fixture.faults.on(Operation::Acquire).nth(1).times(2).inject(Fault::LoseReply);
    let permit = permits.acquire(3).await.unwrap();
    assert_eq!(permits.available().await.unwrap(), 1);
    let ids = permit.ids();
    assert_eq!((permit.count(), ids.len()), (3, 3));
    permit.release().await.unwrap();
    assert_eq!(permits.available().await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_number_that_cannot_be_used_is_named_with_its_remedy() {
    let fixture = fixture().await;
    let permits = fixture.engine.permits("a");
    for number in [0, 65_536, u32::MAX] {
        let error = permits.acquire(number).await.unwrap_err();
        let (kind, text) = (matches!(error, AcquireError::Invalid(_)), error.to_string());
        assert!(kind && text.contains(&number.to_string()) && text.contains("65"), "{text}");
        assert!(permits.try_acquire(number).await.is_err());
    }
    assert!(matches!(permits.try_set_total(u32::MAX).await, Err(CountError::Invalid(_))));
    permits.try_set_total(65_535).await.unwrap();
    permits.acquire(65_535).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_permits_back() {
    let fixture = fixture().await;
    let theirs = fixture.other().await.permits("a");
    theirs.try_set_total(3).await.unwrap();
    let permit = fixture.engine.permits("a").acquire(3).await.unwrap();
    let waiting = tokio::spawn(theirs.acquire(3));
    breathe().await;
    fixture.engine.shutdown(seconds(5)).await;
    let (granted, took) = timed(waiting).await;
    assert!(granted.unwrap().unwrap().is_held() && took < millis(50), "{took:?}");
    assert!(!permit.is_held());
}

/// Each release finds its own lease, and renewals go in few commands.
#[tokio::test(start_paused = true)]
async fn a_thousand_permits_of_one_engine_and_name_cost_what_a_thousand_locks_do() {
    const MANY: u32 = 1_000;
    let transport: Traffic<_> = Traffic::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let permits = engine.permits("a").ttl(seconds(6));
    permits.try_set_total(MANY).await.unwrap();
    let mut held: Vec<_> = vec![];
    for _ in 0..MANY {
        held.push(permits.try_acquire(1).await.unwrap().expect("one is available"));
    }
    assert!(permits.try_acquire(1).await.unwrap().is_none());
    assert_eq!(transport.count(What::Acquire), MANY as usize + 1);
    pass(seconds(30)).await;
    assert!(held.iter().all(Permit::is_held));
    // Middle first, so that neither end of the list is a short cut.
    while !held.is_empty() {
        held.swap_remove(held.len() / 2).release().await.unwrap();
    }
    assert_eq!(transport.count(What::Release), MANY as usize);
    assert_eq!(permits.available().await.unwrap(), i64::from(MANY));
    settles_within(&engine, seconds(5)).await;
}
