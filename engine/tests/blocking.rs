//! The blocking API on threads of the operating system, over the memory transport.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use leasehold::{
    AcquireError, BuildError, DowngradeError, Engine, LossReason, NotHeld, ReleaseError, RunError, blocking,
};
use leasehold_memory::MemoryTransport;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

fn engine() -> blocking::Engine {
    blocking::Engine::build(Engine::builder(MemoryTransport::new())).unwrap()
}

#[test]
fn threads_exclude_each_other() {
    let (engine, inside, counted) = (engine(), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let lease = engine.lock("a").acquire().unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two threads hold the lock");
                    counted.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                    lease.release().unwrap();
                }
            });
        }
    });
    assert_eq!(counted.load(Ordering::SeqCst), 200);
    assert_eq!(engine.as_async().snapshot().held, 0);
}

#[test]
fn a_wait_ends_in_time_and_a_try_does_not_wait() {
    let engine = engine();
    let held = engine.lock("a").acquire().unwrap();
    let timed_out = engine.lock("a").wait(SHORT).acquire();
    assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })), "{timed_out:?}");
    assert!(engine.lock("a").try_acquire().unwrap().is_none());
    held.release().unwrap();
    assert!(engine.lock("a").try_acquire().unwrap().is_some());
}

#[test]
fn a_thread_that_waits_gets_the_lock_when_it_is_dropped() {
    let engine = engine();
    let held = engine.lock("a").acquire().unwrap();
    let waiting = thread::spawn({
        let engine = engine.clone();
        move || engine.lock("a").wait(LONG).acquire().map(|lease| lease.fencing_token())
    });
    while engine.as_async().snapshot().waiting == 0 {
        thread::yield_now();
    }
    let token = held.fencing_token();
    drop(held);
    assert!(waiting.join().unwrap().unwrap() > token);
}

#[test]
fn a_loss_is_told_to_a_thread_that_waits_for_it() {
    let engine = engine();
    let lease = engine.lock("a").ttl(Duration::from_secs(1)).no_renewal().acquire().unwrap();
    assert_eq!(lease.lost_within(Duration::ZERO), None);
    assert_eq!(lease.lost_within(SHORT), None);
    assert_eq!(lease.lost_within(LONG), Some(LossReason::Expired));
    assert_eq!(lease.lost_within(Duration::ZERO), Some(LossReason::Expired));
    assert!(!lease.is_held() && lease.remaining().is_zero());
    let told = lease.release();
    assert!(matches!(told, Err(ReleaseError::AlreadyLost(LossReason::Expired))), "{told:?}");
}

#[test]
fn work_is_run_and_its_result_or_its_error_is_told() {
    let engine = engine();
    let lock = engine.lock("a");
    assert_eq!(lock.run(|lease| lease.ensure_held().map(|()| 7)).unwrap(), 7);
    let failed = lock.run(|_| Err::<(), _>("work"));
    assert!(matches!(failed, Err(RunError::Work("work"))), "{failed:?}");
    let lost = lock.clone().ttl(Duration::from_secs(1)).no_renewal().run(|lease| {
        lease.lost_within(LONG);
        Ok::<_, NotHeld>(())
    });
    assert!(matches!(lost, Err(RunError::Lost(LossReason::Expired))), "{lost:?}");
    let held = lock.acquire().unwrap();
    let refused = lock.clone().wait(SHORT).run(|_| Ok::<_, NotHeld>(()));
    assert!(matches!(refused, Err(RunError::Acquire(AcquireError::TimedOut { .. }))), "{refused:?}");
    held.release().unwrap();
}

#[test]
fn work_that_panics_frees_the_lock() {
    let engine = engine();
    let panicked = thread::spawn({
        let engine = engine.clone();
        move || {
            engine
                .lock("a")
                .run(|_| -> Result<(), NotHeld> { std::panic::resume_unwind(Box::new("on purpose")) })
        }
    });
    assert!(panicked.join().is_err());
    engine.lock("a").wait(LONG).acquire().unwrap().release().unwrap();
}

#[test]
fn readers_share_and_writers_exclude_and_a_writer_becomes_a_reader() {
    let (engine, both) = (engine(), Arc::new(Barrier::new(2)));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (prices, both) = (engine.rw_lock("prices"), both.clone());
            thread::spawn(move || {
                let _lease = prices.read().acquire().unwrap();
                both.wait(); // both hold it here
            })
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    let writer = engine.rw_lock("prices").write().wait(LONG).acquire().unwrap();
    assert!(engine.rw_lock("prices").read().try_acquire().unwrap().is_none());
    let reader = writer.downgrade().unwrap();
    let other = engine.rw_lock("prices").read().wait(LONG).acquire().unwrap();
    let told = other.downgrade();
    assert!(matches!(told, Err(DowngradeError::NotAWriteLock(_))), "{told:?}");
    reader.release().unwrap();
}

#[test]
fn a_fair_lock_is_granted_in_the_order_of_arrival() {
    let (engine, (order, served)) = (engine(), mpsc::channel());
    let held = engine.fair_lock("a").acquire().unwrap();
    let mut threads = vec![];
    for number in 0..4 {
        let (engine, order) = (engine.clone(), order.clone());
        let before = engine.as_async().snapshot().waiting;
        threads.push(thread::spawn({
            let engine = engine.clone();
            move || {
                let lease = engine.fair_lock("a").wait(LONG).acquire().unwrap();
                order.send(number).unwrap();
                lease.release().unwrap();
            }
        }));
        while engine.as_async().snapshot().waiting == before {
            thread::yield_now();
        }
    }
    held.release().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(order);
    assert_eq!(served.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn at_most_as_many_threads_are_inside_as_a_semaphore_has_permits() {
    let (engine, inside) = (engine(), AtomicU32::new(0));
    let permits = engine.semaphore("a").wait(LONG);
    assert!(permits.try_set(2).unwrap());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..20 {
                    permits.acquire(1).unwrap();
                    assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "more threads than permits");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    permits.release(1).unwrap();
                }
            });
        }
    });
    assert_eq!(permits.available().unwrap(), 2);
    assert!(!permits.try_acquire(3).unwrap());
}

#[test]
fn a_latch_lets_threads_go_on_when_all_have_counted_down() {
    let (engine, counted) = (engine(), AtomicU32::new(0));
    let ready = engine.latch("a").wait(LONG);
    assert!(ready.try_set(4).unwrap());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                counted.fetch_add(1, Ordering::SeqCst);
                ready.count_down().unwrap();
                ready.opened().unwrap();
                assert_eq!(counted.load(Ordering::SeqCst), 4);
            });
        }
    });
    assert_eq!(ready.count().unwrap(), 0);
}

#[test]
fn a_shutdown_answers_threads_that_wait() {
    let engine = engine();
    let _held = engine.lock("a").acquire().unwrap();
    let waiting = thread::spawn({
        let engine = engine.clone();
        move || engine.lock("a").acquire().map(drop)
    });
    while engine.as_async().snapshot().waiting == 0 {
        thread::yield_now();
    }
    assert_eq!(engine.shutdown(LONG).released, 1);
    let told = waiting.join().unwrap();
    assert!(matches!(told, Err(AcquireError::ShuttingDown)), "{told:?}");
}

#[test]
fn an_engine_on_a_runtime_of_the_user_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let build = async { Engine::builder(MemoryTransport::new()).on_current_runtime().build().await };
    let refused = blocking::Engine::new(runtime.block_on(build).unwrap()).unwrap_err();
    assert_eq!(refused.field, "engine");
    let outside = blocking::Engine::build(Engine::builder(MemoryTransport::new()).on_current_runtime());
    assert!(matches!(&outside, Err(BuildError::Invalid(why)) if why.field == "builder"), "{outside:?}");
}

#[tokio::test]
#[should_panic(expected = "Cannot block the current thread from within a runtime")]
async fn a_call_inside_async_code_panics() {
    let engine = Engine::builder(MemoryTransport::new()).build().await.unwrap();
    let _ = blocking::Engine::new(engine).unwrap().lock("a").try_acquire();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_on_threads_that_may_block_work_beside_async_code() {
    let engine = Engine::builder(MemoryTransport::new()).build().await.unwrap();
    let threads = blocking::Engine::new(engine.clone()).unwrap();
    let held = engine.lock("a").acquire().await.unwrap();
    let task = tokio::task::spawn_blocking(move || threads.lock("a").wait(LONG).acquire());
    while engine.snapshot().waiting == 0 {
        tokio::task::yield_now().await;
    }
    held.release().await.unwrap();
    let lease = task.await.unwrap().unwrap();
    drop(lease); // inside async code: does not block
    engine.lock("a").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    let in_place = blocking::Engine::new(engine).unwrap();
    tokio::task::block_in_place(|| in_place.lock("a").acquire().unwrap().release().unwrap());
}
