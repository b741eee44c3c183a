//! Read/write locks: readers share, a writer is alone.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use leasehold::{
    AcquireError, DowngradeError, Lock,
    routing::topology::NodeId,
    transport::{BoxFuture, Call, ErrorKind, Op, Outcome, TransportError},
};
use leasehold_memory::{Fault, MemoryTransport, Operation};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

use crate::fixture::{Traffic, What, breathe, engine, fixture, millis, pass, seconds, timed};

#[tokio::test(start_paused = true)]
async fn readers_of_all_processes_share_and_a_writer_is_alone() {
    let fixture = fixture().await;
    let (here, there) = (fixture.engine.rw_lock("a"), fixture.other().await.rw_lock("a"));
    let mut readers = vec![];
    for lock in [here.read(), there.read(), here.read(), there.read()] {
        readers.push(lock.acquire().await.unwrap());
    }
    assert!(here.write().try_acquire().await.unwrap().is_none());
    assert!(there.write().try_acquire().await.unwrap().is_none());
    let writer = tokio::spawn(there.write().acquire());
    breathe().await;
    let last = readers.pop().unwrap();
    for reader in readers {
        reader.release().await.unwrap();
        breathe().await;
        assert!(!writer.is_finished());
    }
    let token = last.fencing_token();
    last.release().await.unwrap();
    let (writer, took) = timed(writer).await;
    let writer = writer.unwrap().unwrap();
    assert!(took <= millis(5) && writer.fencing_token() > token, "{took:?}");
    for lock in [here.read(), there.read(), here.write()] {
        assert!(lock.try_acquire().await.unwrap().is_none());
    }
    writer.release().await.unwrap();
    assert!(here.read().try_acquire().await.unwrap().is_some());
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_joins_a_reader_of_its_engine_costs_no_command() {
    let transport: Traffic<_> = Traffic::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let lock = engine.rw_lock("a").read();
    let first = lock.acquire().await.unwrap();
    let mut others = vec![];
    for _ in 0..1_000 {
        others.push(lock.acquire().await.unwrap());
    }
    assert_eq!((transport.count(What::Acquire), first.hold_count()), (1, 1_001));
    first.release().await.unwrap();
    while others.len() > 1 {
        others.pop().unwrap().release().await.unwrap();
    }
    assert_eq!(transport.count(What::Release), 0, "one reader is left");
    others.pop().unwrap().release().await.unwrap();
    assert_eq!(transport.count(What::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn readers_that_wait_for_a_writer_get_the_lock_together_by_one_command() {
    let transport: Traffic<_> = Traffic::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let lock = engine.rw_lock("a");
    let writer = lock.write().acquire().await.unwrap();
    let readers: Vec<_> = (0..100).map(|_| tokio::spawn(lock.read().acquire())).collect();
    breathe().await;
    transport.clear();
    writer.release().await.unwrap();
    let mut held = vec![];
    for reader in readers {
        held.push(reader.await.unwrap().unwrap());
    }
    assert_eq!((transport.count(What::Acquire), held[0].hold_count()), (1, 100));
}

#[tokio::test(start_paused = true)]
async fn no_reader_passes_a_writer_that_waits_in_its_engine() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a");
    let reader = lock.read().acquire().await.unwrap();
    let writer = tokio::spawn(lock.write().acquire());
    breathe().await;
    let late = tokio::spawn(lock.read().acquire());
    breathe().await;
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    assert!(!late.is_finished() && !writer.is_finished());
    reader.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    breathe().await;
    assert!(!late.is_finished());
    writer.release().await.unwrap();
    assert!(late.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_reader_with_other_terms_has_a_lease_of_its_own() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a").read();
    let usual = lock.acquire().await.unwrap();
    let variants: [Lock; 4] = [
        lock.clone().ttl(seconds(7)),
        lock.clone().no_renewal(),
        lock.clone().max_hold(seconds(5)),
        lock.clone().reentry(&fixture.engine.reentry()),
    ];
    for other in variants {
        let lease = other.acquire().await.unwrap();
        assert!(lease.fencing_token() != usual.fencing_token() && lease.hold_count() == 1);
    }
    assert_eq!(usual.hold_count(), 1);
    usual.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_lost_its_lease_takes_no_other_reader_with_it() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a").read();
    let (lost, stays) =
        (lock.acquire().await.unwrap(), fixture.other().await.rw_lock("a").read().acquire().await.unwrap());
    fixture.faults.on(Operation::Renew).always().inject(Fault::LoseRequest);
    pass(seconds(40)).await;
    assert!(!lost.is_held() && stays.is_held());
    fixture.faults.clear();
    let again = lock.acquire().await.unwrap();
    assert!(again.fencing_token() > lost.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn a_reader_does_not_join_a_lease_in_jeopardy() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a").read();
    let shaky = lock.acquire().await.unwrap();
    fixture.faults.on(Operation::Renew).always().inject(Fault::LoseRequest);
    pass(seconds(12)).await;
    assert_eq!(shaky.state(), leasehold::LeaseState::Jeopardy);
    let fresh = lock.acquire().await.unwrap();
    assert!(fresh.fencing_token() != shaky.fencing_token());
    assert_eq!((fresh.hold_count(), shaky.hold_count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn within_a_scope_a_writer_may_read_and_a_reader_may_not_write() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let (read, write) = (lock.read().reentry(&scope), lock.write().reentry(&scope));
    let writer = write.acquire().await.unwrap();
    let (inner, reader) = (write.acquire().await.unwrap(), read.acquire().await.unwrap());
    assert_eq!((writer.hold_count(), reader.fencing_token()), (3, writer.fencing_token()));
    writer.release().await.unwrap();
    reader.release().await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_none(), "one lease of the writer is left");
    inner.release().await.unwrap();
    let reader = read.acquire().await.unwrap();
    let asks = fixture.engine.snapshot().asks;
    let refused = write.acquire().await.expect_err("it would wait for itself");
    assert!(matches!(refused, AcquireError::WouldDeadlock), "{refused:?}");
    assert!(refused.to_string().contains("release its read lease"), "{refused}");
    assert_eq!(fixture.engine.snapshot().asks, asks, "nothing was sent");
    assert!(read.acquire().await.unwrap().is_held());
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_waits_to_write_may_wait_to_read_as_well() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let held = lock.write().acquire().await.unwrap();
    let writer = tokio::spawn(lock.write().reentry(&scope).acquire());
    breathe().await;
    let reader = tokio::spawn(lock.read().reentry(&scope).acquire());
    breathe().await;
    held.release().await.unwrap();
    let (writer, reader) = (writer.await.unwrap().unwrap(), reader.await.unwrap().unwrap());
    assert_eq!((writer.hold_count(), reader.hold_count()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn l3_a_writer_is_timed_out_by_readers_of_its_own_engine() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a");
    let reader = lock.read().acquire().await.unwrap();
    let (refused, took) = timed(lock.write().wait(millis(700)).acquire()).await;
    assert!(matches!(refused, Err(AcquireError::TimedOut { .. })), "{refused:?}");
    assert_eq!(took, millis(700));
    assert!(reader.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_refused_writer_says_nothing_against_readers() {
    let fixture = fixture().await;
    let reader = fixture.other().await.rw_lock("a").read().acquire().await.unwrap();
    let lock = fixture.engine.rw_lock("a");
    let writer = tokio::spawn(lock.write().wait(seconds(1)).acquire());
    breathe().await;
    drop(writer.await);
    assert!(lock.read().try_acquire().await.unwrap().is_some());
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_plain_lock_of_the_same_name_excludes_readers_and_writers() {
    let fixture = fixture().await;
    let plain = fixture.engine.lock("a").acquire().await.unwrap();
    let lock = fixture.engine.rw_lock("a");
    assert!(lock.read().is_locked().await.unwrap());
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    plain.release().await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_readers_and_writers_never_meet() {
    let fixture = Arc::new(fixture().await);
    let inside = Arc::new(std::sync::Mutex::new((0_u32, 0_u32)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..1_000_u64 {
        let (fixture, inside) = (fixture.clone(), inside.clone());
        tasks.spawn(async move {
            pass(millis(number % 7)).await;
            let lock = fixture.engine.rw_lock("a");
            let is_writer = number % 10 == 3;
            let lease = if is_writer { lock.write() } else { lock.read() }.acquire().await.unwrap();
            let change = |readers: i32, writers: i32| {
                let mut inside = inside.lock().unwrap();
                inside.0 = inside.0.saturating_add_signed(readers);
                inside.1 = inside.1.saturating_add_signed(writers);
                assert!(inside.1 == 0 || *inside == (0, 1), "{inside:?}");
            };
            let (reads, writes) = if is_writer { (0, 1) } else { (1, 0) };
            change(reads, writes);
            pass(millis(2)).await;
            change(-reads, -writes);
            lease.release().await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    fixture.settles_within(millis(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_lets_readers_in_and_no_writer_between() {
    let fixture = fixture().await;
    let (here, there) = (fixture.engine.rw_lock("a"), fixture.other().await.rw_lock("a"));
    let writer = here.write().acquire().await.unwrap();
    let other_writer = tokio::spawn(there.write().acquire());
    breathe().await;
    let (local_reader, reader) =
        (tokio::spawn(here.read().acquire()), tokio::spawn(there.read().try_acquire()));
    breathe().await;
    assert!(!local_reader.is_finished() && reader.await.unwrap().unwrap().is_none());
    let token = writer.fencing_token();
    let (downgraded, took) = timed(writer.downgrade()).await;
    let downgraded = downgraded.unwrap();
    assert!(took <= millis(60) && downgraded.is_held() && downgraded.fencing_token() == token, "{took:?}");
    assert!(local_reader.await.unwrap().unwrap().is_held());
    assert!(fixture.other().await.rw_lock("a").read().acquire().await.unwrap().is_held());
    breathe().await;
    assert!(!other_writer.is_finished());
    pass(seconds(60)).await;
    assert!(downgraded.is_held(), "it is renewed as a reader");
    downgraded.release().await.unwrap();
    pass(seconds(2)).await;
    assert!(other_writer.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn only_a_writer_is_downgraded_and_the_others_keep_their_leases() {
    let fixture = fixture().await;
    let plain = fixture.engine.lock("a").acquire().await.unwrap();
    let reader = fixture.engine.rw_lock("b").read().acquire().await.unwrap();
    for lease in [plain, reader] {
        let refused = lease.downgrade().await.expect_err("it does not write");
        let text = refused.to_string();
        let DowngradeError::NotAWriteLock(lease) = refused else { panic!("{refused:?}") };
        assert!(lease.is_held() && text.contains("is not a write lease"), "{text}");
        lease.release().await.unwrap();
    }
    let writer = fixture.engine.rw_lock("b").write().acquire().await.unwrap();
    let once = writer.downgrade().await.unwrap();
    assert!(matches!(once.downgrade().await, Err(DowngradeError::NotAWriteLock(_))));
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_is_repeated_until_a_server_has_answered() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a");
    let writer = lock.write().acquire().await.unwrap();
    for fault in [Fault::LoseRequest, Fault::LoseReply, Fault::Reset] {
        fixture.faults.on(Operation::Renew).inject(fault);
    }
    let (reader, took) = timed(writer.downgrade()).await;
    assert!(reader.unwrap().is_held() && took >= seconds(2) && took <= seconds(8), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_of_a_lost_lease_says_so() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a");
    let writer = lock.write().acquire().await.unwrap();
    assert!(lock.write().force_release().await.unwrap());
    let lost = writer.downgrade().await;
    assert!(matches!(lost, Err(DowngradeError::Lost(leasehold::LossReason::NotOurs))), "{lost:?}");
    let writer = lock.write().acquire().await.unwrap();
    fixture.faults.cut(leasehold_memory::Cut::BlackHole);
    let lost = writer.downgrade().await;
    assert!(matches!(lost, Err(DowngradeError::Lost(_))), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_writer_of_a_scope_leaves_the_lock_to_its_readers() {
    let fixture = fixture().await;
    let (lock, scope) = (fixture.engine.rw_lock("a"), fixture.engine.reentry());
    let (read, write) = (lock.read().reentry(&scope), lock.write().reentry(&scope));
    let (outer, inner, reader) =
        (write.acquire().await.unwrap(), write.acquire().await.unwrap(), read.acquire().await.unwrap());
    outer.release().await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_none(), "one writer is left");
    inner.release().await.unwrap();
    pass(millis(60)).await;
    let other = lock.read().try_acquire().await.unwrap().expect("only readers are left");
    assert!(reader.is_held() && lock.write().try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    assert!(other.is_held());
    other.release().await.unwrap();
    assert!(lock.write().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_beside_another_writer_of_the_scope_sends_nothing() {
    let transport: Traffic<_> = Traffic::new(MemoryTransport::new());
    let engine = engine(&transport).await;
    let (lock, scope) = (engine.rw_lock("a"), engine.reentry());
    let write = lock.write().reentry(&scope);
    let (outer, inner) = (write.acquire().await.unwrap(), write.acquire().await.unwrap());
    let (reader, took) = timed(inner.downgrade()).await;
    assert_eq!((took, transport.count(What::Renewal)), (millis(0), 0));
    outer.release().await.unwrap();
    pass(millis(60)).await;
    assert_eq!(transport.count(What::Renewal), 1, "now the server is told");
    reader.unwrap().release().await.unwrap();
    assert_eq!(transport.count(What::Release), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_without_renewal_is_downgraded_too_and_not_renewed_afterwards() {
    let fixture = fixture().await;
    let lock = fixture.engine.rw_lock("a");
    let writer = lock.write().no_renewal().ttl(seconds(10)).acquire().await.unwrap();
    fixture.faults.on(Operation::Renew).inject(Fault::Reset);
    let reader = writer.downgrade().await.unwrap();
    assert!(lock.read().acquire().await.unwrap().is_held());
    pass(seconds(12)).await;
    assert!(!reader.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_dropped_at_any_poll_leaves_nothing() {
    for polls in 0..6 {
        let fixture = fixture().await;
        let lock = fixture.engine.rw_lock("a");
        let writer = lock.write().acquire().await.unwrap();
        let mut downgrade = Box::pin(writer.downgrade());
        for _ in 0..polls {
            let polled =
                std::future::poll_fn(|context| std::task::Poll::Ready(downgrade.as_mut().poll(context)));
            if polled.await.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(downgrade);
        pass(millis(100)).await;
        assert!(lock.write().try_acquire().await.unwrap().is_some(), "{polls}");
        pass(millis(100)).await;
        fixture.settles_within(millis(5)).await;
    }
}

/// Refuses downgrades for now, as a cluster does while a slot is on its way, and lets renewals pass.
#[derive(Clone, Default)]
struct RefusesDowngrades(Arc<AtomicBool>, Arc<AtomicBool>);

impl Hand for RefusesDowngrades {
    fn renew<'a>(&'a self, behind: &'a Behind, node: NodeId, batch: Vec<Call>) -> BoxFuture<'a, Vec<Call>> {
        let is_refused = self.0.load(Ordering::Relaxed);
        let loses_replies = self.1.swap(false, Ordering::Relaxed);
        let (downgrades, renewals): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|call| matches!(call.op, Op::Downgrade { .. }));
        Box::pin(async move {
            let mut answered = behind.lane.call(node, renewals).await;
            if loses_replies {
                let lost = behind.lane.call(node, downgrades).await;
                let at = |call: &Call| call.outcome.at().expect("memory answers");
                let unknown = |at| TransportError::unknown(ErrorKind::TimedOut, at, "the reply was lost");
                answered.extend(lost.into_iter().map(|call| {
                    let error = unknown(at(&call));
                    call.answered(Outcome::Failed(error))
                }));
            } else if is_refused {
                let error = TransportError::without_effect(ErrorKind::NotReady, Some(node), "TRYAGAIN");
                answered
                    .extend(downgrades.into_iter().map(|call| call.answered(Outcome::Failed(error.clone()))));
            } else {
                answered.extend(behind.lane.call(node, downgrades).await);
            }
            answered
        })
    }
}

#[tokio::test(start_paused = true)]
async fn s1_a_lease_whose_downgrade_is_refused_for_long_is_held_all_the_time() {
    for reply_is_lost in [false, true] {
        let transport: Interposed<_, RefusesDowngrades> = Interposed::new(MemoryTransport::new());
        let engine = engine(&transport).await;
        let lock = engine.rw_lock("a");
        let writer = lock.write().acquire().await.unwrap();
        transport.hand.0.store(true, Ordering::Relaxed);
        transport.hand.1.store(reply_is_lost, Ordering::Relaxed); // executed, and the server knows no write hold any more
        let downgrade = tokio::spawn(writer.downgrade());
        pass(seconds(300)).await;
        assert_eq!(
            (engine.snapshot().lost, downgrade.is_finished()),
            (0, reply_is_lost),
            "a renewal as a reader shows it"
        );
        transport.hand.0.store(false, Ordering::Relaxed);
        let (reader, took) = timed(downgrade).await;
        assert!(took <= seconds(3) && reader.unwrap().unwrap().is_held(), "{took:?}");
    }
}
