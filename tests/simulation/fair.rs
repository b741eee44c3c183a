//! Fair locks: first come, first served, over engines that share a server.

use std::sync::{Arc, Mutex};

use leasehold::{AcquireError, Engine, Lease};
use leasehold_memory::{Cut, Fault, Operation};

use crate::fixture::{Fixture, breathe, fixture, millis, pass, seconds, timed};

/// The names of callers in the order in which they got the lock.
type Order = Arc<Mutex<Vec<&'static str>>>;

/// A caller that notes its name when it has the lock, and holds it for a moment.
async fn caller(engine: &Engine, name: &'static str, order: &Order) -> tokio::task::JoinHandle<()> {
    let (acquire, order) = (engine.fair_lock("a").wait(seconds(600)).acquire(), order.clone());
    let waiting = tokio::spawn(async move {
        let lease = acquire.await.expect("granted in the end");
        order.lock().unwrap().push(name);
        pass(millis(10)).await;
        lease.release().await.expect("held to the end");
    });
    breathe().await;
    waiting
}

async fn all(callers: impl IntoIterator<Item = tokio::task::JoinHandle<()>>) {
    for caller in callers {
        caller.await.expect("a caller that ends well");
    }
}

fn order(order: &Order) -> Vec<&'static str> {
    order.lock().unwrap().clone()
}

async fn is_clean(fixture: &Fixture) {
    fixture.settles_within(seconds(5)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0, "holds or places are left");
    assert_eq!(fixture.transport.inner().watched_keys(), 0);
}

async fn held(engine: &Engine) -> Lease {
    engine.fair_lock("a").acquire().await.expect("free")
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_one_command_and_a_contended_one_four() {
    let fixture = fixture().await;
    let lease = held(&fixture.engine).await;
    assert_eq!(fixture.engine.snapshot().asks, 1);
    lease.release().await.unwrap();
    is_clean(&fixture).await;
}

/// A release gives no notice to callers that wait for another kind. They find it by their next poll or beat.
#[tokio::test(start_paused = true)]
async fn fair_and_plain_locks_of_one_name_exclude_each_other() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let (fair, plain) = (fixture.engine.fair_lock("a"), other.lock("a"));
    let lease = plain.acquire().await.expect("free");
    assert!(fair.try_acquire().await.unwrap().is_none());
    let lease = follows(lease, fair.wait(seconds(60)).acquire()).await;
    assert!(plain.try_acquire().await.unwrap().is_none());
    let lease = follows(lease, plain.wait(seconds(60)).acquire()).await;
    lease.release().await.unwrap();
    is_clean(&fixture).await;
}

/// The lease of a caller that waits for 10 s, until this lease is released.
async fn follows(
    lease: Lease,
    acquire: impl Future<Output = Result<Lease, AcquireError>> + Send + 'static,
) -> Lease {
    let waiting = tokio::spawn(acquire);
    pass(seconds(10)).await;
    assert!(!waiting.is_finished());
    lease.release().await.unwrap();
    let (next, after) = timed(waiting).await;
    assert!(after <= seconds(2), "{after:?}");
    next.unwrap().expect("granted after the release")
}

#[tokio::test(start_paused = true)]
async fn callers_of_all_engines_are_granted_in_the_order_in_which_they_came() {
    let fixture = fixture().await;
    let (other, served) = (fixture.other().await, Order::default());
    let first = held(&other).await;
    let mut callers = Vec::new();
    for name in ["1", "2", "3", "4", "5", "6", "7"] {
        let engine = if name.parse::<u32>().unwrap() % 3 == 0 { &other } else { &fixture.engine };
        callers.push(caller(engine, name, &served).await);
    }
    pass(seconds(20)).await;
    first.release().await.unwrap();
    let (_, took) = timed(all(callers)).await;
    assert_eq!(order(&served), ["1", "2", "3", "4", "5", "6", "7"]);
    assert!(took < millis(100), "{took:?}: a grant waited for a beat");
    assert!(fixture.engine.snapshot().asks <= 2 * 5, "{:?}", fixture.engine.snapshot());
    is_clean(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_dropped_leaves_the_line_at_once() {
    let fixture = fixture().await;
    let (other, served) = (fixture.other().await, Order::default());
    let first = held(&other).await;
    let (one, two) = (caller(&fixture.engine, "1", &served).await, caller(&other, "2", &served).await);
    let three = caller(&fixture.engine, "3", &served).await;
    one.abort();
    breathe().await;
    first.release().await.unwrap();
    let (_, took) = timed(all([two, three])).await;
    assert_eq!(order(&served), ["2", "3"]);
    assert!(took < millis(50), "{took:?}");
    is_clean(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_head_that_leaves_a_free_lock_makes_room_for_the_next() {
    let fixture = fixture().await;
    let (other, served) = (fixture.other().await, Order::default());
    let first = held(&other).await;
    let one = caller(&fixture.engine, "1", &served).await;
    let two = caller(&other, "2", &served).await;
    fixture.faults.on(Operation::Acquire).inject(Fault::DelayRequest(millis(300)));
    first.release().await.unwrap();
    pass(millis(5)).await;
    one.abort(); // its turn has come, and its ask is on its way
    let (_, took) = timed(all([two])).await;
    assert!(took < millis(500), "{took:?}");
    is_clean(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_never_joins_the_line_and_passes_nobody() {
    let fixture = fixture().await;
    let (other, served) = (fixture.other().await, Order::default());
    let first = held(&other).await;
    assert!(fixture.engine.fair_lock("a").try_acquire().await.unwrap().is_none());
    let refused = fixture.engine.fair_lock("a").wait(seconds(0)).acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::TimedOut { .. }), "{refused:?}");
    assert_eq!(fixture.transport.inner().stored_holds(), 1);
    let waiting = caller(&other, "1", &served).await;
    let before = fixture.engine.snapshot().asks;
    assert!(fixture.engine.fair_lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(fixture.engine.snapshot().asks, before + 1);
    first.release().await.unwrap();
    all([waiting]).await;
    let lease =
        fixture.engine.fair_lock("a").try_acquire().await.unwrap().expect("free, and no caller waits");
    lease.release().await.unwrap();
    is_clean(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_is_timed_out_and_leaves_no_place() {
    let fixture = fixture().await;
    let first = held(&fixture.other().await).await;
    let acquire = fixture.engine.fair_lock("a").wait(millis(2_500)).acquire();
    let (refused, took) = timed(acquire).await;
    assert!(matches!(refused, Err(AcquireError::TimedOut { .. })), "{refused:?}");
    assert_eq!(took, millis(2_500));
    fixture.settles_within(millis(100)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 1, "the hold alone");
    first.release().await.unwrap();
    is_clean(&fixture).await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_delays_the_others_by_less_than_five_seconds() {
    let fixture = fixture().await;
    let (other, served) = (fixture.other().await, Order::default());
    let first = held(&other).await;
    let dead = caller(&fixture.engine, "1", &served).await;
    let next = caller(&other, "2", &served).await;
    fixture.faults.cut(Cut::BlackHole);
    pass(seconds(3)).await;
    first.release().await.unwrap();
    let (_, took) = timed(all([next])).await;
    assert_eq!(order(&served), ["2"]);
    assert!(took < millis(4_900), "{took:?}");
    fixture.faults.heal();
    all([dead]).await;
    is_clean(&fixture).await;
}
