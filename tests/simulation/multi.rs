//! Multi locks: all of several locks or none, whatever fails, and nothing left behind.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
};

use leasehold::{
    AcquireError, Engine, LossReason, MultiError, MultiLease, MultiLock, RunError, transport::LanePurpose,
};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation};
use leasehold_tests::harness::{checkers, recorder::Window};

use crate::fixture::{
    Fixture, Traffic, What, builder, engine, fixture, millis, now, pass, poll_once, seconds, settles_within,
    timed,
};

fn both(engine: &Engine) -> MultiLock {
    MultiLock::of([engine.lock("b"), engine.lock("a")])
}

async fn is_free(engine: &Engine, name: &str) -> bool {
    !engine.lock(name).is_locked().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn it_holds_all_members_and_releases_all() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let lease = both(&fixture.engine).acquire().await.unwrap();
    assert!(!is_free(&other, "a").await && !is_free(&other, "b").await && lease.is_held());
    let names: Vec<_> = lease.leases().iter().map(|member| member.name().to_owned()).collect();
    assert_eq!(names, ["b", "a"], "in the order of the list");
    pass(seconds(100)).await;
    lease.ensure_held().unwrap();
    lease.release().await.unwrap();
    assert!(is_free(&other, "a").await && is_free(&other, "b").await);
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn its_deadline_is_the_earliest_of_its_members() {
    let engine = engine(&MemoryTransport::new()).await;
    let (short, long) = (engine.lock("a").ttl(seconds(4)).no_renewal(), engine.lock("b").ttl(seconds(40)));
    let begun = now();
    let lease = MultiLock::of([long, short]).acquire().await.unwrap();
    assert!(lease.remaining() <= millis(3_800), "{:?}", lease.remaining());
    assert_eq!(lease.lost().await, LossReason::Expired);
    let took = now() - begun;
    assert!(took >= millis(3_700) && took <= millis(3_950), "{took:?}");
    assert!(!lease.is_held() && lease.remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_cannot_be_used_sends_nothing() {
    let transport: Traffic<MemoryTransport> = Traffic::new(MemoryTransport::new());
    let (one, two) = (engine(&transport).await, engine(&transport).await);
    let named = builder(&transport).id("x").build().await.unwrap();
    let lists = [
        (vec![], "members"),
        (vec![one.lock("a"), one.lock("b"), one.lock("a")], "members"),
        (vec![one.lock("a"), two.lock("b")], "id"),
        (vec![named.lock("a"), two.lock("b")], "id"),
        (vec![one.lock("a"), one.lock("")], "name"),
    ];
    for (list, field) in lists {
        let refused = MultiLock::of(list).acquire().await;
        assert!(
            matches!(&refused, Err(MultiError::Invalid(invalid)) if invalid.field == field),
            "{refused:?}"
        );
    }
    assert_eq!(transport.hand.count(What::Acquire), 0);
}

#[tokio::test(start_paused = true)]
async fn members_of_two_engines_are_held_together() {
    let (here, there) = (MemoryTransport::new(), MemoryTransport::new());
    let one = builder(&here).id("x").build().await.unwrap();
    let two = builder(&there).id("y").build().await.unwrap();
    let lease = MultiLock::of([two.lock("a"), one.lock("a")]).acquire().await.unwrap();
    assert_eq!((here.stored_holds(), there.stored_holds()), (1, 1));
    lease.release().await.unwrap();
    assert_eq!((here.stored_holds(), there.stored_holds()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_held_leaves_no_other_member_held() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let held = other.lock("b").acquire().await.unwrap();
    assert!(both(&fixture.engine).try_acquire().await.unwrap().is_none());
    let (refused, took) = timed(both(&fixture.engine).wait(seconds(2)).acquire()).await;
    match refused {
        Err(MultiError::Member { name, place, error: AcquireError::TimedOut { .. } }) => {
            assert_eq!((name.as_str(), place), ("b", 0));
        }
        told => panic!("{told:?}"),
    }
    assert!(took >= seconds(2) && took <= millis(2_100), "{took:?}");
    pass(millis(10)).await;
    assert!(is_free(&other, "a").await);
    drop(held);
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn earlier_members_are_renewed_while_a_later_one_is_waited_for() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let held = other.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(both(&fixture.engine).acquire());
    pass(seconds(300)).await;
    assert!(!is_free(&other, "a").await && !waiting.is_finished());
    held.release().await.unwrap();
    let lease = waiting.await.unwrap().unwrap();
    lease.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_lost_while_the_others_are_waited_for_is_named() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let _held = other.lock("c").acquire().await.unwrap();
    let list = ["c", "a", "b"].map(|name| fixture.engine.lock(name).ttl(seconds(6)));
    let waiting = tokio::spawn(MultiLock::of(list).acquire());
    pass(millis(100)).await;
    assert!(other.lock("b").force_release().await.unwrap());
    let lost = waiting.await.unwrap();
    assert!(
        matches!(&lost, Err(MultiError::Lost { name, place: 2, reason: LossReason::NotOurs }) if name == "b"),
        "{lost:?}"
    );
    pass(millis(100)).await;
    assert!(is_free(&other, "a").await && is_free(&other, "b").await);
    fixture.settles_within(seconds(10)).await;
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_member_releases_the_others() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let lease = both(&fixture.engine).acquire().await.unwrap();
    assert!(other.lock("a").force_release().await.unwrap());
    assert_eq!(lease.lost().await, LossReason::NotOurs);
    assert_eq!(lease.ensure_held().unwrap_err().reason, LossReason::NotOurs);
    assert!(!lease.is_held() && !is_free(&other, "b").await, "work that is told to stop ends first");
    pass(millis(60)).await;
    assert!(is_free(&other, "b").await, "although nobody has dropped the lease");
    assert!(lease.release().await.is_err());
    fixture.settles_within(seconds(10)).await;
}

struct CallsAtDrop<F: Fn()>(F);

impl<F: Fn()> Drop for CallsAtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[tokio::test(start_paused = true)]
async fn run_drops_the_work_before_any_member_is_released() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let stored_at_drop = Arc::new(Mutex::new(None));
    let (told, memory) = (stored_at_drop.clone(), fixture.transport.inner().clone());
    let lock = both(&fixture.engine);
    let work = async |_: &MultiLease| {
        let _at_drop = CallsAtDrop(|| *told.lock().unwrap() = Some(memory.stored_holds()));
        assert!(other.lock("b").force_release().await.unwrap());
        pass(seconds(1_000)).await;
        Ok::<(), &str>(())
    };
    let done = lock.run(work).await;
    assert!(matches!(done, Err(RunError::Lost(LossReason::NotOurs))), "{done:?}");
    assert_eq!(*stored_at_drop.lock().unwrap(), Some(1), "a was still held");
    let done: Result<u8, RunError<&str, MultiError>> = lock.run(async |_| Ok(7)).await;
    assert_eq!(done.unwrap(), 7);
    fixture.settles_within(seconds(10)).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_poll_it_leaves_nothing() {
    for contended in [false, true] {
        for polls in 0.. {
            let fixture = fixture().await;
            let other = fixture.other().await;
            let held = if contended { Some(other.lock("b").acquire().await.unwrap()) } else { None };
            tokio::spawn(async move {
                pass(millis(20)).await;
                drop(held);
            });
            let (mut acquire, mut done) = (Box::pin(both(&fixture.engine).acquire()), None);
            for _ in 0..polls {
                done = poll_once(&mut acquire.as_mut()).await;
                if done.is_some() {
                    break;
                }
                pass(millis(1)).await;
            }
            let ended = done.is_some();
            drop(done);
            drop(acquire);
            pass(millis(50)).await;
            fixture.settles_within(seconds(2)).await;
            assert!(is_free(&other, "a").await && is_free(&other, "b").await, "after {polls} polls");
            if ended {
                assert!(polls > 1, "it was polled more than once");
                break;
            }
        }
    }
}

async fn dropped_in_flight(polls: usize) {
    let fixture = fixture().await;
    let lock = both(&fixture.engine);
    {
        let mut acquire = pin!(lock.acquire());
        for _ in 0..polls {
            if poll_once(&mut acquire).await.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    fixture.settles_within(seconds(2)).await;
    assert_eq!(fixture.transport.inner().stored_holds(), 0, "after {polls} polls");
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_number_of_polls_no_hold_stays_on_the_server() {
    for polls in 0..30 {
        dropped_in_flight(polls).await;
    }
}

// --- what Redisson's multi lock is known for ---

/// F22: `unlock()` stops at the first member that throws, and the others stay locked and renewed.
#[tokio::test(start_paused = true)]
async fn f22_a_member_whose_release_fails_keeps_no_other_locked() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let list = ["a", "b", "c"].map(|name| fixture.engine.lock(name));
    let lease = MultiLock::of(list).acquire().await.unwrap();
    fixture.faults.on(Operation::Release).key("a").always().inject(Fault::LoseRequest);
    let released = lease.release();
    pass(millis(5)).await;
    assert!(
        is_free(&other, "b").await && is_free(&other, "c").await,
        "before the answer of the first is there"
    );
    assert!(released.await.is_err());
    let lease = MultiLock::of(["b", "c"].map(|name| fixture.engine.lock(name))).acquire().await.unwrap();
    assert!(other.lock("b").force_release().await.unwrap());
    assert!(lease.release().await.is_err(), "b was not ours");
    assert!(is_free(&other, "c").await);
}

/// F22: each round of `lockInterruptibly` multiplies the lease by a thousand.
#[tokio::test(start_paused = true)]
async fn f22_after_a_long_wait_the_ttl_is_the_one_that_was_asked_for() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let held = other.lock("b").acquire().await.unwrap();
    let list = ["a", "b"].map(|name| fixture.engine.lock(name).ttl(seconds(10)));
    let waiting = tokio::spawn(MultiLock::of(list).acquire());
    pass(seconds(200)).await;
    held.release().await.unwrap();
    let lease = waiting.await.unwrap().unwrap();
    assert!(lease.remaining() <= seconds(10), "{:?}", lease.remaining());
    for name in ["a", "b"] {
        let holder = other.lock(name).holder().await.unwrap().unwrap();
        assert!(holder.remaining.unwrap() <= seconds(10), "{holder:?}");
    }
}

async fn contend(lock: MultiLock, process: u32, number: usize, windows: Arc<Mutex<Vec<Window>>>) {
    for round in 0.. {
        let lease = lock.acquire().await.unwrap();
        let from_ns = now().as_nanos();
        pass(millis(1)).await;
        assert!(lease.is_held());
        let until_ns = now().as_nanos();
        for member in lease.leases() {
            let (key, token) = (member.name().to_owned(), member.fencing_token().as_i64());
            let holder = format!("{process} {number} {round}");
            windows.lock().unwrap().push(Window { key, holder, process, token, from_ns, until_ns });
        }
        lease.release().await.unwrap();
    }
}

/// #4050, #4456: members are locked in list order, so that opposite lists wait for each other for ever.
#[tokio::test(start_paused = true)]
async fn issues_4050_and_4456_opposite_lists_never_wait_in_a_circle() {
    let memory = MemoryTransport::new();
    let windows = Arc::new(Mutex::new(vec![]));
    let lists = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"], ["a", "c", "b"]];
    let (mut engines, mut tasks) = (vec![], vec![]);
    for (process, list) in lists.into_iter().enumerate() {
        let engine = engine(&memory).await;
        let lock = MultiLock::of(list.map(|name| engine.lock(name)));
        for number in 0..2 {
            tasks.push(tokio::spawn(contend(lock.clone(), process as u32, number, windows.clone())));
        }
        engines.push(engine);
    }
    pass(seconds(10)).await;
    tasks.iter().for_each(|task| task.abort());
    drop(tasks);
    for engine in &engines {
        settles_within(engine, seconds(2)).await;
    }
    let windows = windows.lock().unwrap();
    assert_eq!(checkers::overlaps(&windows).violations, []);
    assert_eq!(checkers::token_order(&windows), []);
    let grants = checkers::grants_per_process(&windows);
    assert!(grants.len() == 4 && grants.values().all(|count| *count >= 60), "{grants:?}");
    assert_eq!(memory.stored_holds() + memory.watched_keys(), 0);
}

/// #467: a caller that is interrupted between two members leaves the first one locked.
#[tokio::test(start_paused = true)]
async fn issue_467_a_caller_that_is_dropped_between_members_leaves_none_locked() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let _held = other.lock("b").acquire().await.unwrap();
    let waiting = tokio::spawn(both(&fixture.engine).acquire());
    pass(seconds(1)).await;
    assert!(!is_free(&other, "a").await);
    waiting.abort();
    assert!(waiting.await.is_err());
    pass(millis(5)).await;
    assert!(is_free(&other, "a").await);
}

/// #467: so does a server that fails on the way.
#[tokio::test(start_paused = true)]
async fn issue_467_a_server_that_fails_between_members_leaves_none_locked() {
    for cut in [Cut::Refused, Cut::BlackHole, Cut::RepliesLost] {
        let (here, there) = (fixture_with_id("x").await, fixture_with_id("y").await);
        there.faults.cut_lane(LanePurpose::Calls, cut);
        let list = [here.engine.lock("a"), there.engine.lock("b")];
        let (refused, took) = timed(MultiLock::of(list).wait(seconds(3)).acquire()).await;
        assert!(
            matches!(
                &refused,
                Err(MultiError::Member { place: 1, error: AcquireError::Unavailable { .. }, .. })
            ),
            "{cut:?}: {refused:?}"
        );
        assert!(took <= millis(4_100), "{cut:?}: {took:?}");
        there.faults.heal();
        here.settles_within(seconds(2)).await;
        there.settles_within(seconds(45)).await;
        assert_eq!(here.transport.inner().stored_holds(), 0, "{cut:?}");
        assert_eq!(there.transport.inner().stored_holds(), 0, "{cut:?}");
    }
}

async fn fixture_with_id(id: &str) -> Fixture {
    crate::fixture::ground_with(|builder| builder.id(id)).await
}

struct PanicsAtWake;

impl std::task::Wake for PanicsAtWake {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("a waker that panics"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_no_member_locked_and_no_other_holder_untold() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let lease = both(&fixture.engine).acquire().await.unwrap();
    let waker = std::task::Waker::from(Arc::new(PanicsAtWake));
    let mut panicking: Vec<_> = (0..3).map(|_| Box::pin(lease.lost())).collect();
    for lost in &mut panicking {
        assert!(lost.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    assert!(other.lock("a").force_release().await.unwrap());
    pass(seconds(31)).await; // by the deadline of a
    assert!(is_free(&other, "b").await && !lease.is_held());
    assert_eq!(lease.lost().await, LossReason::NotOurs);
}
