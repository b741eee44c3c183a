//! Calls that a transport begins without a future: whenever their outcomes come, and also if none comes, every promise
//! holds.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use leasehold::{
    AcquireError, Engine, ReleaseError,
    transport::{AnswerTo, AnswersTo, Call, Outcome},
};
use leasehold_memory::{Faulty, MemoryTransport};
use leasehold_tests::interposed::{Behind, Hand, Interposed};

use crate::fixture::{builder, millis, pass, seconds, settles_within, timed};

/// When the outcome of a begun call comes.
#[derive(Clone, Copy, Debug, Default)]
enum When {
    /// Before `begin` returns.
    #[default]
    AtOnce,
    After(Duration),
    Never,
    /// The transport loses this call, does not execute it, and answers the next at once.
    NeverOnce,
    /// The call is executed, and its outcome is lost in the transport.
    Lost,
    /// The transport loses this call, which is executed after this time, and answers the next at once.
    LostAndLate(Duration),
}

/// Begins each call by itself, and counts them.
#[derive(Clone, Default)]
struct Begins {
    when: Arc<Mutex<When>>,
    begun: Arc<AtomicU32>,
}

impl Hand for Begins {
    fn begin(&self, behind: &Behind, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        self.begun.fetch_add(1, Relaxed);
        let when = *self.when.lock().unwrap();
        match when {
            When::AtOnce => answer_to.answer(executed(behind, call)),
            When::Lost => {
                executed(behind, call);
                drop(answer_to);
            }
            When::LostAndLate(time) => {
                *self.when.lock().unwrap() = When::AtOnce;
                drop(answer_to);
                let lane = behind.lane.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    lane.call_one(call).await;
                });
            }
            When::After(time) => {
                let lane = behind.lane.clone();
                tokio::spawn(async move {
                    let outcome = lane.call_one(call).await;
                    tokio::time::sleep(time).await;
                    answer_to.answer(outcome);
                });
            }
            When::Never => drop(answer_to),
            When::NeverOnce => {
                *self.when.lock().unwrap() = When::AtOnce;
                drop(answer_to);
            }
        }
        None
    }
}

fn executed(behind: &Behind, call: Call) -> Outcome {
    match pin!(behind.lane.call_one(call)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("the memory transport answers at once"),
    }
}

struct Ground {
    memory: MemoryTransport,
    transport: Interposed<MemoryTransport, Begins>,
    engine: Engine,
}

async fn ground(when: When) -> Ground {
    let memory = MemoryTransport::new();
    let transport = Interposed::<_, Begins>::new(memory.clone());
    *transport.when.lock().unwrap() = when;
    let engine = builder(&transport).build().await.expect("an engine");
    Ground { memory, transport, engine }
}

const ANY: [When; 3] = [When::AtOnce, When::After(Duration::ZERO), When::After(Duration::from_millis(3))];

#[tokio::test(start_paused = true)]
async fn a_pair_without_contention_is_two_begun_calls() {
    for when in ANY {
        let Ground { transport, engine, .. } = ground(when).await;
        let lease = engine.lock("a").acquire().await.unwrap();
        assert!(engine.lock("a").try_acquire().await.unwrap().is_none(), "{when:?}");
        lease.release().await.unwrap();
        assert_eq!(transport.begun.load(Relaxed), 2, "{when:?}: the second caller needed none");
        settles_within(&engine, seconds(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s1_callers_of_two_engines_exclude_each_other() {
    for when in [When::After(Duration::ZERO), When::After(millis(3))] {
        let Ground { memory, transport, engine: one } = ground(when).await;
        let other = builder(&transport).build().await.expect("an engine");
        let (inside, pairs) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut running = tokio::task::JoinSet::new();
        for engine in [&one, &other, &one, &other, &one, &other] {
            let (lock, inside, pairs) = (engine.lock("a"), inside.clone(), pairs.clone());
            running.spawn(async move {
                for _ in 0..50 {
                    let lease = lock.acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Relaxed), 0, "{when:?}");
                    pass(millis(1)).await;
                    inside.fetch_sub(1, Relaxed);
                    lease.release().await.unwrap();
                    pairs.fetch_add(1, Relaxed);
                }
            });
        }
        running.join_all().await;
        assert_eq!(pairs.load(Relaxed), 300);
        settles_within(&one, seconds(1)).await;
        settles_within(&other, seconds(1)).await;
        assert_eq!(memory.stored_holds(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn l7_a_caller_that_is_dropped_before_the_answer_leaves_no_hold() {
    let Ground { memory, transport, engine } = ground(When::After(millis(300))).await;
    let gone = tokio::spawn(engine.lock("a").acquire());
    pass(millis(1)).await;
    assert_eq!(transport.begun.load(Relaxed), 1);
    gone.abort();
    pass(millis(1)).await;
    assert_eq!(memory.stored_holds(), 1, "granted, and not answered yet");
    let next = engine.lock("a").acquire().await.expect("the grant goes to the next caller or back");
    next.release().await.unwrap();
    settles_within(&engine, seconds(2)).await;
    assert_eq!(memory.stored_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_outcome_is_as_if_the_transport_had_panicked() {
    let Ground { transport, engine, .. } = ground(When::Never).await;
    let (first, second) = tokio::join!(engine.lock("a").acquire(), engine.lock("a").acquire());
    assert!(matches!((first, second), (Err(AcquireError::ShuttingDown), Err(AcquireError::ShuttingDown))));
    *transport.when.lock().unwrap() = When::AtOnce;
    let lease = engine.lock("a").acquire().await.expect("the next caller is served");
    *transport.when.lock().unwrap() = When::Never;
    assert!(matches!(lease.release().await, Err(ReleaseError::Unknown { .. })));
    *transport.when.lock().unwrap() = When::AtOnce; // an answer ends what is repeated until there is one
    settles_within(&engine, seconds(2)).await;
}

/// The callers are told that the engine has ended, and no task serves the lock any more: its owner is closed all the same.
#[tokio::test(start_paused = true)]
async fn s5_l6_a_hold_whose_outcome_the_transport_lost_is_given_back() {
    for comes_again in [false, true] {
        let Ground { memory, transport, engine } = ground(When::Lost).await;
        let told = engine.lock("a").acquire().await;
        assert!(matches!(told, Err(AcquireError::ShuttingDown)), "{told:?}");
        assert_eq!(memory.stored_holds(), 1, "it was granted");
        *transport.when.lock().unwrap() = When::AtOnce;
        if comes_again {
            let (lease, took) = timed(engine.lock("a").acquire()).await;
            assert!(took <= seconds(3), "{took:?}");
            lease.expect("granted").release().await.expect("ours");
        }
        settles_within(&engine, seconds(3)).await;
        assert_eq!(memory.stored_holds(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn s5_l6_so_is_a_hold_that_comes_after_the_transport_has_lost_the_call() {
    for late in [millis(5), millis(300), millis(900)] {
        let Ground { memory, engine, .. } = ground(When::LostAndLate(late)).await;
        let told = engine.lock("a").acquire().await;
        assert!(matches!(told, Err(AcquireError::ShuttingDown)), "{told:?}");
        pass(late + millis(1)).await;
        settles_within(&engine, seconds(3)).await;
        assert_eq!(memory.stored_holds(), 0, "{late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s5_l6_so_is_the_hold_of_a_release_that_the_transport_lost() {
    let Ground { memory, transport, engine } = ground(When::AtOnce).await;
    for _ in 0..2 {
        let lease = engine.lock("a").acquire().await.expect("free");
        *transport.when.lock().unwrap() = When::NeverOnce;
        assert!(matches!(lease.release().await, Err(ReleaseError::Unknown { .. })));
        let (next, took) = timed(engine.lock("a").acquire()).await;
        assert!(took <= seconds(3), "{took:?}: much less than its ttl");
        next.expect("granted").release().await.expect("ours");
        settles_within(&engine, seconds(3)).await;
        assert_eq!(memory.stored_holds(), 0);
    }
}

/// How a group that is begun is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    AtOnce,
    /// Some at once, some later, in the other order.
    Some,
    /// Every third has no outcome and is not executed.
    NotAll,
    /// Executed, and lost.
    Lost,
    /// The transport panics after it has answered one.
    Panics,
}

#[derive(Clone, Default)]
struct BeginsMany {
    parts: Arc<Mutex<Option<Parts>>>,
    groups: Arc<AtomicU32>,
}

impl Hand for BeginsMany {
    fn begin(&self, behind: &Behind, call: Call, answer_to: AnswerTo) -> Option<(Call, AnswerTo)> {
        let lane = behind.lane.clone();
        tokio::spawn(async move {
            tokio::time::sleep(millis(3)).await;
            answer_to.answer(lane.call_one(call).await);
        });
        None
    }

    fn begin_many(
        &self,
        behind: &Behind,
        batch: Vec<Call>,
        answers_to: AnswersTo,
    ) -> Option<(Vec<Call>, AnswersTo)> {
        let Some(parts) = *self.parts.lock().unwrap() else { return Some((batch, answers_to)) };
        self.groups.fetch_add(1, Relaxed);
        let answered = |call: Call| call.clone().answered(executed(behind, call));
        match parts {
            Parts::AtOnce => answers_to.answer(batch.into_iter().map(answered).collect()),
            Parts::Some => {
                let mut later: Vec<_> = batch.into_iter().map(answered).collect();
                let now = later.split_off(later.len() / 2);
                answers_to.answer(now);
                tokio::spawn(async move {
                    tokio::time::sleep(millis(3)).await;
                    later.into_iter().rev().for_each(|call| answers_to.answer(vec![call]));
                });
            }
            Parts::NotAll => {
                let kept = batch.into_iter().enumerate().filter(|(place, _)| place % 3 > 0);
                answers_to.answer(kept.map(|(_, call)| answered(call)).collect());
            }
            Parts::Lost => batch.into_iter().for_each(|call| drop(answered(call))),
            Parts::Panics => {
                answers_to.answer(batch.into_iter().take(1).map(answered).collect());
                std::panic::resume_unwind(Box::new("a transport that panics"));
            }
        }
        None
    }
}

const MANY: usize = 600;

/// Callers of many locks at once, as many as share commands. Returns how many were told that the engine has ended.
async fn pairs_of_many(engine: &Engine) -> usize {
    let pairs = (0..MANY).map(|number| {
        let lock = engine.lock(format!("n{number}"));
        tokio::spawn(async move {
            let Ok(lease) = lock.acquire().await else { return false };
            lease.release().await.is_ok()
        })
    });
    let mut unserved = 0;
    for pair in pairs.collect::<Vec<_>>() {
        unserved += usize::from(!pair.await.expect("no panic"));
    }
    unserved
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_begun_together_are_answered_and_nothing_stays_open_however_the_answers_come() {
    for parts in [Parts::AtOnce, Parts::Some, Parts::NotAll, Parts::Lost, Parts::Panics] {
        let memory = MemoryTransport::new();
        let transport = Interposed::<_, BeginsMany>::new(Faulty::new(memory.clone())); // it has group commit
        let engine = builder(&transport).build().await.expect("an engine");
        *transport.parts.lock().unwrap() = Some(parts);
        let (unserved, took) = timed(pairs_of_many(&engine)).await;
        assert!(transport.groups.load(Relaxed) > 3, "{parts:?}");
        assert_eq!(unserved > 0, !matches!(parts, Parts::AtOnce | Parts::Some), "{parts:?}: {unserved}");
        assert!(took <= seconds(2), "{parts:?}: {took:?}");
        *transport.parts.lock().unwrap() = None;
        settles_within(&engine, seconds(4)).await;
        assert_eq!((memory.stored_holds(), pairs_of_many(&engine).await), (0, 0), "{parts:?}");
        settles_within(&engine, seconds(1)).await;
        assert_eq!(memory.stored_holds(), 0, "{parts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_that_are_answered_at_once_need_no_deep_stack() {
    let Ground { memory, engine, .. } = ground(When::AtOnce).await;
    let callers: tokio::task::JoinSet<_> =
        (0..10_000).map(|n| engine.lock(format!("a:{n}")).acquire()).collect();
    let leases = callers.join_all().await;
    assert!(leases.iter().all(Result::is_ok));
    drop(leases);
    settles_within(&engine, seconds(5)).await;
    assert_eq!(memory.stored_holds(), 0);
}
