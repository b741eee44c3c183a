//! Read/write locks: readers share, a writer is alone.

use std::sync::Arc;

use leasehold::{AcquireError, Lock};
use leasehold_memory::{Fault, MemoryTransport, Operation};

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
async fn a_plain_lock_of_the_same_name_is_another_key_of_the_engine() {
    let fixture = fixture().await;
    let plain = fixture.engine.lock("a").acquire().await.unwrap();
    let asked = fixture.engine.rw_lock("a").read().is_locked().await.unwrap();
    assert!(!asked, "the memory keeps families apart");
    drop(plain);
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
