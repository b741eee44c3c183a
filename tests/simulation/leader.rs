//! Leaders: at most one at a time, work that is dropped before the next one leads, terms, pauses, and a clean end.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    AcquireError, Engine, FencingToken, Leader, LeaderState, LeaderWatch, LossReason, RunError,
    clock::Instant,
};
use leasehold_memory::{Cut, MemoryTransport};
use tokio::task::JoinHandle;

use crate::fixture::{
    Traffic, What, breathe, builder, engine, fixture, millis, now, pass, seconds, settles_within, timed,
};

type Outcome = Result<u8, RunError<&'static str>>;

/// A term in which work was done: its token, its begin and its end.
type Term = (FencingToken, Instant, Option<Instant>);

/// The terms of all candidates.
#[derive(Clone, Default)]
struct Terms(Arc<Mutex<Vec<Term>>>);

/// Notes the end of a term when the work is dropped.
struct Working(Terms, usize);

impl Terms {
    fn begin(&self, token: FencingToken) -> Working {
        let mut terms = self.0.lock().unwrap();
        terms.push((token, now(), None));
        Working(self.clone(), terms.len() - 1)
    }

    fn all(&self) -> Vec<Term> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.all().len()
    }

    /// No term began before the one before it had ended, and tokens rose.
    fn check(&self) {
        for pair in self.all().windows(2) {
            assert!(pair[0].0 < pair[1].0, "tokens: {pair:?}");
            assert!(pair[0].2.is_some_and(|end| end <= pair[1].1), "two led at once: {pair:?}");
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.lock().unwrap()[self.1].2 = Some(now());
    }
}

/// A candidate whose work lasts for ever.
fn candidate(engine: &Engine, terms: &Terms) -> (LeaderWatch, JoinHandle<Outcome>) {
    let leader = Leader::of(engine.lock("leader").ttl(seconds(6)));
    let (watch, terms) = (leader.watch(), terms.clone());
    let running = tokio::spawn(leader.run(move |term| {
        let working = terms.begin(term.fencing_token());
        async move {
            let _working = working;
            pending().await
        }
    }));
    (watch, running)
}

#[tokio::test(start_paused = true)]
async fn the_work_is_done_once_and_its_result_is_returned() {
    let fixture = fixture().await;
    let leader = Leader::of(fixture.engine.lock("leader"));
    let mut watch = leader.watch();
    assert_eq!(watch.state(), LeaderState::Idle);
    let during = &watch.clone();
    let done: Outcome = leader
        .run(|term| async move {
            assert_eq!(during.state(), LeaderState::Leading { token: term.fencing_token() });
            pass(seconds(90)).await;
            term.ensure_held().map_err(|_| "lost")?;
            Ok(7)
        })
        .await;
    assert_eq!(done.unwrap(), 7);
    assert_eq!(watch.state(), LeaderState::Idle);
    assert_eq!(watch.changed().await, Some(LeaderState::Idle)); // what was not told yet
    assert_eq!(watch.changed().await, None);
    assert!(!fixture.engine.lock("leader").is_locked().await.unwrap());
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_error_of_the_work_ends_the_candidacy_and_frees_the_lock() {
    let fixture = fixture().await;
    let done: Outcome = Leader::of(fixture.engine.lock("leader")).run(|_| async { Err("work") }).await;
    assert!(matches!(done, Err(RunError::Work("work"))), "{done:?}");
    fixture.settles_within(seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn of_three_candidates_one_leads_and_the_next_follows_at_once() {
    let (memory, terms) = (MemoryTransport::new(), Terms::default());
    let mut candidates = vec![];
    for _ in 0..3 {
        candidates.push(candidate(&engine(&memory).await, &terms));
        pass(millis(10)).await;
    }
    for ended in 0..3 {
        pass(seconds(100)).await;
        assert_eq!(terms.count(), ended + 1);
        assert_eq!(candidates.iter().filter(|(watch, _)| watch.is_leading()).count(), 1);
        let place = candidates.iter().position(|(watch, _)| watch.is_leading()).unwrap();
        candidates.swap_remove(place).1.abort(); // as a process that ends in order
        pass(millis(50)).await;
    }
    terms.check();
    let begins: Vec<_> = terms.all().iter().map(|(_, begin, _)| *begin).collect();
    assert!(begins[1] - begins[0] <= millis(100_150), "{begins:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_stops_before_the_next_one_leads() {
    let (fixture, terms) = (fixture().await, Terms::default());
    let (mut cut_off, _first) = candidate(&fixture.engine, &terms);
    breathe().await;
    let other = fixture.other().await;
    let (watch, _second) = candidate(&other, &terms);
    pass(seconds(20)).await;
    let cut_at = now();
    fixture.faults.cut(Cut::BlackHole);
    pass(seconds(8)).await;
    assert!(watch.is_leading() && !cut_off.is_leading());
    terms.check();
    let ended = terms.all()[0].2.unwrap();
    assert!(ended - cut_at <= millis(5_800), "after the deadline: {:?}", ended - cut_at);
    // The candidate that is cut off says so, and is back when the servers are.
    while cut_off.changed().await != Some(LeaderState::Unavailable) {}
    assert!(now() - cut_at <= seconds(20), "{:?}", now() - cut_at);
    fixture.faults.heal();
    assert_eq!(cut_off.changed().await, Some(LeaderState::Following));
    watch.resign();
    pass(seconds(1)).await;
    assert!(cut_off.is_leading() && !watch.is_leading());
    terms.check();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lock_was_freed_campaigns_again_after_a_pause() {
    let (fixture, terms) = (fixture().await, Terms::default());
    let (watch, _running) = candidate(&fixture.engine, &terms);
    breathe().await;
    let operator = fixture.other().await;
    for lost in 1..=3_usize {
        pass(seconds(1)).await;
        assert!(watch.is_leading() && terms.count() == lost);
        assert!(operator.lock("leader").force_release().await.unwrap());
        while watch.is_leading() {
            pass(millis(10)).await; // noticed at the next renewal
        }
        let lost_at = now();
        while !watch.is_leading() {
            pass(millis(10)).await;
        }
        let pause = now() - lost_at;
        let longest = seconds(1 << (lost - 1));
        assert!(pause >= longest / 2 - millis(20) && pause <= longest + millis(50), "{lost}: {pause:?}");
    }
    terms.check();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigns_lets_the_other_candidate_lead() {
    let (memory, terms) = (MemoryTransport::new(), Terms::default());
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    let (first, _one) = candidate(&one, &terms);
    breathe().await;
    let (second, _two) = candidate(&two, &terms);
    pass(seconds(10)).await;
    second.resign(); // does not lead: nothing happens
    breathe().await;
    assert!(first.is_leading());
    first.resign();
    pass(millis(300)).await;
    assert!(second.is_leading() && !first.is_leading());
    assert_eq!(first.state(), LeaderState::Following);
    pass(seconds(100)).await;
    assert!(second.is_leading(), "a candidate that waits takes nothing from the leader");
    terms.check();
}

#[tokio::test(start_paused = true)]
async fn the_work_is_dropped_before_the_release_is_sent() {
    let traffic = Traffic::new(MemoryTransport::new());
    let engine = engine(&traffic).await;
    let (log, dropped) = (traffic.hand.clone(), Arc::new(Mutex::new(vec![])));
    struct Dropped<F: Fn()>(F);
    impl<F: Fn()> Drop for Dropped<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let leader = Leader::of(engine.lock("leader"));
    let (watch, notes) = (leader.watch(), dropped.clone());
    let running = tokio::spawn(leader.run(move |_| {
        let (notes, log) = (notes.clone(), log.clone());
        async move {
            let _noted = Dropped(|| notes.lock().unwrap().push(log.count(What::Release)));
            pending::<Result<(), ()>>().await
        }
    }));
    breathe().await;
    watch.resign();
    pass(seconds(2)).await;
    assert!(watch.is_leading());
    running.abort();
    settles_within(&engine, seconds(1)).await;
    assert_eq!((traffic.hand.count(What::Release), dropped.lock().unwrap().clone()), (2, vec![0, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_leader_and_follower() {
    let (memory, terms) = (MemoryTransport::new(), Terms::default());
    let (one, two) = (engine(&memory).await, engine(&memory).await);
    let (_, leading) = candidate(&one, &terms);
    breathe().await;
    let (_, following) = candidate(&two, &terms);
    pass(seconds(1)).await;
    two.shutdown(seconds(5)).await;
    let ended = following.await.unwrap();
    assert!(matches!(ended, Err(RunError::Acquire(AcquireError::ShuttingDown))), "{ended:?}");
    assert_eq!(one.shutdown(seconds(5)).await.released, 1);
    let ended = leading.await.unwrap();
    assert!(matches!(ended, Err(RunError::Lost(LossReason::Shutdown))), "{ended:?}");
    terms.check();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_pause_after_a_term() {
    let (memory, terms) = (MemoryTransport::new(), Terms::default());
    let engine = engine(&memory).await;
    let (watch, running) = candidate(&engine, &terms);
    breathe().await;
    watch.resign();
    breathe().await;
    engine.shutdown(seconds(1)).await;
    let (ended, took) = timed(running).await;
    assert!(took <= millis(20), "{took:?}");
    assert!(matches!(ended.unwrap(), Err(RunError::Acquire(AcquireError::ShuttingDown))));
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_the_handle_neither_ends_a_campaign_nor_makes_it_ask_without_pause() {
    let traffic = Traffic::new(MemoryTransport::new());
    let (one, two) = (engine(&traffic).await, engine(&traffic).await);
    let held = one.lock("leader").acquire().await.unwrap();
    let leader = Leader::of(two.lock("leader").wait(Duration::ZERO));
    let running = tokio::spawn(leader.run(|_| async { Ok::<_, ()>(7) }));
    pass(seconds(60)).await;
    assert!(traffic.hand.count(What::Acquire) < 100, "{}", traffic.hand.count(What::Acquire));
    held.release().await.unwrap();
    assert_eq!(running.await.unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_watch_reads_the_clock_although_the_candidate_is_blocked() {
    let fixture = fixture().await;
    let leader = Leader::of(fixture.engine.lock("leader").ttl(seconds(2)).no_renewal());
    let watch = leader.watch();
    let mut running = Box::pin(leader.run(|_| pending::<Result<(), ()>>()));
    let begun = tokio::time::timeout(millis(100), &mut running).await;
    assert!(begun.is_err() && watch.is_leading());
    pass(millis(1_900)).await; // nothing polls the candidate
    assert_eq!(watch.state(), LeaderState::Following);
}

#[tokio::test(start_paused = true)]
async fn handles_that_let_two_lead_are_refused() {
    let engine = engine(&MemoryTransport::new()).await;
    let scope = engine.reentry();
    for lock in [engine.rw_lock("leader").read(), engine.lock("leader").reentry(&scope)] {
        let refused: Outcome = Leader::of(lock).run(|_| async { Ok(1) }).await;
        assert!(
            matches!(&refused, Err(RunError::Acquire(AcquireError::Invalid(invalid))) if invalid.field == "lock"),
            "{refused:?}"
        );
    }
    let written: Outcome = Leader::of(engine.rw_lock("leader").write()).run(|_| async { Ok(1) }).await;
    assert_eq!(written.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_elects_in_the_order_of_arrival() {
    let memory = MemoryTransport::new();
    let order = Arc::new(Mutex::new(vec![]));
    let mut running = vec![];
    for number in 0..4 {
        let engine = builder(&memory).build().await.unwrap();
        let order = order.clone();
        let leader = Leader::of(engine.fair_lock("leader"));
        running.push(tokio::spawn(leader.run(move |_| {
            order.lock().unwrap().push(number);
            async {
                pass(seconds(10)).await;
                Ok::<_, &str>(())
            }
        })));
        pass(millis(20)).await;
    }
    for one in running {
        one.await.unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}
