//! What issues of Redisson say about read/write locks, semaphores and latches, and that the same does not happen here. Each
//! test bears the number of its issue; `transports/redis/COMPATIBILITY.md` lists them. Those about multi locks are in
//! `multi.rs`.

use leasehold::{AcquireError, CountError, LeaseState, LockMode};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation, Restart};
use leasehold_tests::interposed::Interposed;
use tokio::task::JoinSet;

use crate::fixture::{
    Traffic, TrafficLog, What, breathe, engine, fixture, millis, now, pass, seconds, settles_within, timed,
    until,
};

/// #1604: the watchdog renewed the lock, and not the hold of each reader.
#[tokio::test(start_paused = true)]
async fn issue_1604_a_hundred_readers_hold_for_longer_than_their_ttl() {
    let memory = MemoryTransport::new();
    let (writer, mut engines, mut readers) = (engine(&memory).await, vec![], vec![]);
    for _ in 0..10 {
        let engine = engine(&memory).await;
        for _ in 0..10 {
            // A scope of its own: a hold of its own on the server.
            let lock = engine.rw_lock("a").read().reentry(&engine.reentry());
            readers.push(lock.acquire().await.unwrap());
        }
        engines.push(engine);
    }
    for _ in 0..7 {
        pass(seconds(5)).await;
        assert!(writer.rw_lock("a").write().try_acquire().await.unwrap().is_none());
    }
    for reader in readers {
        reader.ensure_held().unwrap();
        reader.release().await.unwrap();
    }
    assert!(writer.rw_lock("a").write().try_acquire().await.unwrap().is_some());
}

/// #1458: read holds that nobody renews ended later with each time that they were taken, or never.
#[tokio::test(start_paused = true)]
async fn issue_1458_a_read_lock_taken_four_times_ends_one_ttl_after_the_last() {
    let fixture = fixture().await;
    let writer = fixture.other().await.rw_lock("a").write();
    let read = fixture.engine.rw_lock("a").read().ttl(seconds(5)).no_renewal();
    let mut leases = vec![];
    for _ in 0..4 {
        leases.push(read.clone().reentry(&fixture.engine.reentry()).acquire().await.unwrap());
        pass(millis(100)).await;
    }
    let (granted, took) = timed(writer.acquire()).await;
    drop(granted.unwrap());
    assert!(took >= millis(4_800) && took < millis(6_500), "{took:?}");
    assert!(leases.iter().all(|lease| !lease.is_held()));
}

/// #7098: a client renewed the holds of all readers, those of a dead client too.
#[tokio::test(start_paused = true)]
async fn issue_7098_a_living_reader_renews_no_dead_reader() {
    let dead = fixture().await;
    let living = dead.other().await.rw_lock("a");
    let lost = dead.engine.rw_lock("a").read().acquire().await.unwrap();
    let reader = living.read().acquire().await.unwrap();
    dead.faults.cut(Cut::BlackHole);
    pass(seconds(35)).await;
    let seen = living.read().describe().await.unwrap();
    assert_eq!((seen.mode, seen.holders.len()), (LockMode::Read, 1), "{seen}");
    assert!(!lost.is_held() && reader.is_held());
    reader.release().await.unwrap();
    assert!(living.write().try_acquire().await.unwrap().is_some(), "the dead reader keeps no writer out");
}

/// #7251, and #5462 about the same renewal: a read lock that was taken several times was renewed after its last release.
#[tokio::test(start_paused = true)]
async fn issue_7251_a_read_lock_taken_five_times_is_not_renewed_after_its_last_release() {
    let transport: Traffic<MemoryTransport> = Interposed::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let scope = engine.reentry();
    let mut leases = vec![];
    for _ in 0..5 {
        leases.push(engine.rw_lock("a").read().reentry(&scope).acquire().await.unwrap());
    }
    pass(seconds(25)).await;
    let log: &TrafficLog = &transport.hand;
    assert!(log.count(What::Renewal) >= 2, "held and renewed");
    for lease in leases {
        lease.release().await.unwrap();
    }
    log.clear();
    pass(seconds(120)).await;
    assert_eq!(log.all().len(), 0, "{:?}", log.all());
    settles_within(&engine, millis(1)).await;
    assert!(engine.rw_lock("a").write().try_acquire().await.unwrap().is_some());
}

/// #5462: read holds of one client lived and ended together.
#[tokio::test(start_paused = true)]
async fn issue_5462_each_read_hold_of_an_engine_is_renewed_until_its_own_release() {
    let fixture = fixture().await;
    let other = fixture.other().await.rw_lock("a");
    let hold = |ttl| {
        let lock = fixture.engine.rw_lock("a").read().reentry(&fixture.engine.reentry());
        lock.ttl(seconds(ttl)).acquire()
    };
    let (short, long) = (hold(3).await.unwrap(), hold(20).await.unwrap());
    pass(seconds(60)).await;
    assert_eq!((short.state(), long.state()), (LeaseState::Held, LeaseState::Held));
    long.release().await.unwrap();
    pass(seconds(60)).await;
    assert!(short.is_held() && other.write().try_acquire().await.unwrap().is_none());
    short.release().await.unwrap();
    assert!(other.write().try_acquire().await.unwrap().is_some());
}

/// #891: the release of a read hold deleted the lock, and with it the write hold of the same thread.
#[tokio::test(start_paused = true)]
async fn issue_891_a_read_release_within_a_write_hold_leaves_the_write_hold() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let other = fixture.other().await.rw_lock("a");
    let writer = lock.write().reentry(&scope).acquire().await.unwrap();
    let reader = lock.read().reentry(&scope).acquire().await.unwrap();
    reader.release().await.unwrap();
    pass(seconds(40)).await;
    assert!(other.read().try_acquire().await.unwrap().is_none());
    assert_eq!(other.read().describe().await.unwrap().mode, LockMode::Write);
    writer.ensure_held().unwrap();
    writer.release().await.unwrap();
    assert!(other.read().try_acquire().await.unwrap().is_some());
}

/// #1110: a write lock that was taken for 10 s and then for 1 s was free after 1 s.
#[tokio::test(start_paused = true)]
async fn issue_1110_a_shorter_write_hold_within_a_longer_one_does_not_end_it() {
    let fixture = fixture().await;
    let (scope, begun) = (fixture.engine.reentry(), now());
    let other = fixture.other().await.rw_lock("a").write();
    let lock = fixture.engine.rw_lock("a").write().reentry(&scope);
    let long = lock.clone().ttl(seconds(10)).no_renewal().acquire().await.unwrap();
    let refused = lock.clone().ttl(seconds(1)).no_renewal().acquire().await;
    assert!(matches!(&refused, Err(AcquireError::Invalid(invalid)) if invalid.field == "ttl"), "{refused:?}");
    let inner = lock.acquire().await.unwrap();
    pass(seconds(1)).await;
    inner.release().await.unwrap();
    for second in 1..9 {
        until(begun + seconds(second)).await;
        assert!(long.is_held() && other.try_acquire().await.unwrap().is_none(), "after {second} s");
    }
    let (granted, _) = timed(other.acquire()).await;
    drop(granted.unwrap());
    assert!(now() - begun < seconds(11) && !long.is_held());
}

/// #4796: a thread that reads and asks to write waits for itself for ever.
#[tokio::test(start_paused = true)]
async fn issue_4796_a_reader_that_asks_to_write_is_refused_at_once() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let reader = lock.read().reentry(&scope).acquire().await.unwrap();
    let (refused, took) = timed(lock.write().reentry(&scope).acquire()).await;
    assert!(matches!(refused, Err(AcquireError::WouldDeadlock)), "{refused:?}");
    assert_eq!(took, millis(0));
    reader.ensure_held().unwrap();
    reader.release().await.unwrap();
    drop(lock.write().reentry(&scope).acquire().await.unwrap());
}

/// #3573: among hundreds of semaphores some callers starved.
#[tokio::test(start_paused = true)]
async fn issue_3573_callers_of_hundreds_of_semaphores_are_all_served() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    // Every second message is lost.
    for lost in (1..10_000).step_by(2) {
        fixture.faults.on(Operation::Notice).nth(lost).inject(Fault::LoseRequest);
    }
    let mut callers = JoinSet::new();
    for name in 0..200 {
        fixture.engine.semaphore(format!("s{name}")).try_set(1).await.unwrap();
        for engine in [&fixture.engine, &other, &fixture.engine, &other] {
            let permits = engine.semaphore(format!("s{name}"));
            callers.spawn(async move {
                for _ in 0..5 {
                    permits.acquire(1).await?;
                    pass(millis(10)).await;
                    permits.release(1).await?;
                }
                Ok::<(), CountError>(())
            });
        }
    }
    let all =
        async { while callers.join_next().await.transpose().unwrap().transpose().unwrap().is_some() {} };
    tokio::time::timeout(seconds(120), all).await.expect("no caller starves");
    for name in 0..200 {
        assert_eq!(other.semaphore(format!("s{name}")).available().await.unwrap(), 1);
    }
}

/// #2304, #3728: a caller that missed its message waited for ever, also when permits came later.
#[tokio::test(start_paused = true)]
async fn issues_2304_and_3728_callers_without_any_message_get_the_permits() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.semaphore("a"), fixture.other().await.semaphore("a"));
    fixture.faults.on(Operation::Notice).always().inject(Fault::LoseRequest);
    let mut callers: JoinSet<_> = (0..8).map(|_| ours.acquire(1)).collect();
    breathe().await;
    for _ in 0..8 {
        pass(seconds(10)).await;
        theirs.release(1).await.unwrap();
        let (served, took) = timed(callers.join_next()).await;
        served.unwrap().unwrap().unwrap();
        assert!(took < seconds(2), "{took:?}");
    }
    assert_eq!(theirs.available().await.unwrap(), 0);
}

/// #6026: after a restart no message arrived any more, and callers of semaphores and latches waited for ever.
#[tokio::test(start_paused = true)]
async fn issue_6026_callers_that_wait_over_a_restart_are_woken_by_messages_again() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let (permits, latch) = (fixture.engine.semaphore("a"), fixture.engine.latch("b"));
    latch.try_set(1).await.unwrap();
    let (caller, opened) = (tokio::spawn(permits.acquire(1)), tokio::spawn(latch.opened()));
    pass(seconds(1)).await;
    fixture.faults.cut(Cut::Refused);
    fixture.transport.inner().restart(Restart::DataKept);
    pass(seconds(5)).await;
    fixture.faults.heal();
    pass(seconds(5)).await;
    assert!(!caller.is_finished() && !opened.is_finished());
    let before = now();
    other.semaphore("a").release(1).await.unwrap();
    other.latch("b").count_down().await.unwrap();
    caller.await.unwrap().unwrap();
    opened.await.unwrap().unwrap();
    assert!(now() - before < millis(50), "by their messages: {:?}", now() - before);
}
