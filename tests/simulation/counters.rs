//! Semaphores and latches in paused time: who gets permits when, and that every operation counts once whatever becomes of
//! its messages.

mod conserved;

use leasehold::{CountError, Engine, EngineConfig, clock::Clock, transport::ErrorKind};
use leasehold_memory::{Cut, Fault, MemoryTransport, Operation, Restart};
use leasehold_tests::conservation::Numbers;

use crate::fixture::{
    Cluster, breathe, engine, fixture, ground_with, millis, now, pass, poll_once, seconds, settles_within,
    timed, until,
};

#[tokio::test(start_paused = true)]
async fn callers_get_permits_in_their_order_as_they_become_free() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    permits.try_set(1).await.unwrap();
    permits.acquire(1).await.unwrap();
    let first = tokio::spawn(permits.acquire(2));
    breathe().await;
    let second = tokio::spawn(permits.acquire(1));
    breathe().await;
    permits.release(1).await.unwrap();
    pass(seconds(30)).await;
    assert!(!first.is_finished() && !second.is_finished(), "one permit is not enough for the first");
    permits.release(1).await.unwrap();
    breathe().await;
    first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    permits.release(1).await.unwrap();
    second.await.unwrap().unwrap();
    settles_within(&fixture.engine, seconds(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_of_another_process_wakes_by_its_notice() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.semaphore("a"), fixture.other().await.semaphore("a"));
    let waiting = tokio::spawn(ours.acquire(1));
    pass(millis(100)).await;
    let before = now();
    theirs.release(1).await.unwrap();
    waiting.await.unwrap().unwrap();
    assert!(now() - before < millis(5), "{:?}", now() - before);
}

/// #2304, #3573, #3728, #6026: in Redisson such a caller waits for ever.
#[tokio::test(start_paused = true)]
async fn a_lost_notice_delays_a_caller_by_one_safety_poll() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.semaphore("a"), fixture.other().await.semaphore("a"));
    fixture.faults.on(Operation::Notice).always().inject(Fault::LoseRequest);
    let waiting = tokio::spawn(ours.acquire(1));
    pass(millis(100)).await;
    theirs.release(1).await.unwrap();
    let (done, took) = timed(waiting).await;
    done.unwrap().unwrap();
    assert!(took < seconds(2), "{took:?}");
}

// The notices of permits came before, so no further notice tells the second caller.
#[tokio::test(start_paused = true)]
async fn a_small_want_is_served_as_soon_as_the_large_one_before_it_leaves() {
    for (leaves, wait) in [("dropped", seconds(3_600)), ("timed out", millis(20_300))] {
        let fixture = fixture().await;
        let permits = fixture.engine.semaphore("a");
        permits.try_set(3).await.unwrap();
        let large = tokio::spawn(permits.clone().wait(wait).acquire(5));
        breathe().await;
        let small = tokio::spawn(permits.acquire(2));
        pass(millis(20_250)).await;
        assert!(!small.is_finished(), "callers are served in their order");
        match leaves {
            "dropped" => large.abort(),
            _ => until(now() + millis(50)).await,
        }
        pass(millis(10)).await;
        assert!(small.is_finished(), "{leaves}: the second caller waits for permits that it could have");
        small.await.unwrap().unwrap();
        assert_eq!(permits.available().await.unwrap(), 1, "{leaves}");
        settles_within(&fixture.engine, seconds(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_want_is_served_if_the_large_one_leaves_while_the_server_is_asked() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    permits.try_set(3).await.unwrap();
    let large = tokio::spawn(permits.acquire(6));
    breathe().await;
    let small = tokio::spawn(permits.acquire(3));
    pass(millis(100)).await;
    fixture.faults.on(Operation::Count).always().inject(Fault::DelayReply(millis(200)));
    let given = tokio::spawn(permits.release(1));
    pass(millis(300)).await;
    assert!(given.is_finished(), "the take of both callers is on its way");
    large.abort();
    pass(millis(310)).await;
    assert!(small.is_finished(), "the second caller waits for permits that it could have");
    small.await.unwrap().unwrap();
    assert_eq!(permits.available().await.unwrap(), 1);
}

/// Redisson's `tryAcquire(wait)` makes no last check.
#[tokio::test(start_paused = true)]
async fn permits_that_came_unnoticed_are_found_at_the_deadline() {
    let fixture = fixture().await;
    let theirs = fixture.other().await.semaphore("a");
    fixture.faults.on(Operation::Notice).always().inject(Fault::LoseRequest);
    let waiting = tokio::spawn(fixture.engine.semaphore("a").wait(millis(300)).acquire(1));
    pass(millis(100)).await;
    theirs.release(1).await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_its_time_and_takes_nothing() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a").wait(millis(250));
    let (outcome, took) = timed(permits.acquire(1)).await;
    assert!(matches!(outcome, Err(CountError::TimedOut { waited }) if waited == millis(250)), "{outcome:?}");
    assert_eq!(took, millis(250));
    let (outcome, took) = timed(permits.wait(seconds(0)).acquire(1)).await;
    assert!(matches!(outcome, Err(CountError::TimedOut { .. })) && took < millis(5), "{outcome:?} {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_try_asks_once_and_takes_what_is_there() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    assert!(!permits.try_acquire(1).await.unwrap(), "never set");
    permits.try_set(2).await.unwrap();
    assert!(permits.try_acquire(2).await.unwrap());
    assert!(!permits.try_acquire(1).await.unwrap());
    assert_eq!(permits.add(3).await.unwrap(), 3);
    assert_eq!((permits.drain().await.unwrap(), permits.available().await.unwrap()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_a_take_is_unavailable_and_a_release_unknown() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    permits.try_set(3).await.unwrap();
    fixture.faults.cut(Cut::RepliesLost);
    let (taking, giving) = (tokio::spawn(permits.acquire(2)), tokio::spawn(permits.release(1)));
    let taken = taking.await.unwrap();
    assert!(matches!(taken, Err(CountError::Unavailable { .. })), "{taken:?}");
    let given = giving.await.unwrap();
    assert!(matches!(given, Err(CountError::Unknown { .. })), "{given:?}");
    fixture.faults.heal();
    settles_within(&fixture.engine, seconds(20)).await;
    assert_eq!(permits.available().await.unwrap(), 4, "the release counted once, the take not");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_repeated_over_an_outage_that_its_caller_did_not_wait_for() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    fixture.faults.cut(Cut::Refused);
    let giving = tokio::spawn(permits.release(2));
    pass(millis(100)).await;
    giving.abort();
    pass(seconds(200)).await;
    fixture.faults.heal();
    settles_within(&fixture.engine, seconds(20)).await;
    assert_eq!(permits.available().await.unwrap(), 2);
}

// The limit of wall time is far above what 80,000 calls need, and far below what a search or a shift of the list costs.
#[tokio::test(start_paused = true)]
async fn many_releases_dropped_in_an_outage_cost_little_each_and_are_sent() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    fixture.faults.cut(Cut::BlackHole);
    let mut calls: Vec<_> = (0..80_000).map(|_| Box::pin(permits.release(1))).collect();
    for call in &mut calls {
        assert!(poll_once(&mut call.as_mut()).await.is_none());
    }
    breathe().await;
    let begun = Clock::Boot.now();
    while calls.len() > 1 {
        let rest = calls.split_off(calls.len() / 2); // from the end and from the middle
        calls.into_iter().rev().for_each(drop);
        calls = rest;
    }
    let took = Clock::Boot.now() - begun;
    fixture.faults.clear();
    calls.remove(0).await.unwrap();
    assert_eq!(permits.available().await.unwrap(), 80_000);
    assert!(took < seconds(5), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_may_be_forgotten_is_not_sent_again() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    permits.try_set(1).await.unwrap();
    fixture.faults.cut(Cut::RepliesLost);
    let given = permits.release(1).await;
    assert!(matches!(given, Err(CountError::Unknown { .. })), "{given:?}");
    pass(seconds(300)).await;
    settles_within(&fixture.engine, seconds(1)).await; // given up: nothing is on its way
    fixture.faults.heal();
    pass(seconds(300)).await;
    assert_eq!(permits.available().await.unwrap(), 2, "counted once");
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_its_data_counts_nothing_twice() {
    for lost in 1..6 {
        let fixture = fixture().await;
        let permits = fixture.engine.semaphore("a");
        fixture.faults.on(Operation::Count).nth(lost).inject(Fault::LoseReply);
        let work = tokio::spawn(async move {
            permits.release(5).await.unwrap();
            permits.acquire(2).await.unwrap();
            assert_eq!(permits.add(1).await.unwrap(), 4);
            permits.acquire(1).await.unwrap();
            permits.release(1).await.unwrap();
        });
        pass(millis(300)).await;
        fixture.transport.inner().restart(Restart::DataKept);
        work.await.unwrap();
        assert_eq!(fixture.engine.semaphore("a").available().await.unwrap(), 4, "lost: {lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_takes_no_permit_at_any_moment() {
    for delay in 0..40 {
        let fixture = fixture().await;
        let permits = fixture.engine.semaphore("a");
        permits.try_set(3).await.unwrap();
        fixture.faults.on(Operation::Count).inject(Fault::DelayRequest(millis(10)));
        fixture.faults.on(Operation::Count).inject(Fault::DelayReply(millis(10)));
        let (first, second) = (tokio::spawn(permits.acquire(2)), tokio::spawn(permits.drain()));
        pass(millis(delay)).await;
        let mut taken = 0;
        first.abort();
        second.abort();
        taken += if matches!(first.await, Ok(Ok(()))) { 2 } else { 0 };
        taken += second.await.map_or(0, |drained| drained.unwrap());
        settles_within(&fixture.engine, seconds(5)).await;
        assert_eq!(permits.available().await.unwrap(), 3 - taken, "after {delay} ms");
    }
}

// More than a command gives back: peers read the number as a signed 32-bit integer.
#[tokio::test(start_paused = true)]
async fn a_drain_that_is_dropped_after_its_answer_gives_any_number_of_permits_back() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    for _ in 0..3 {
        permits.add(i32::MAX).await.unwrap();
    }
    let mut drain = Box::pin(permits.drain());
    assert!(poll_once(&mut drain.as_mut()).await.is_none());
    breathe().await;
    assert_eq!(permits.available().await.unwrap(), 0, "drained");
    drop(drain);
    settles_within(&fixture.engine, seconds(5)).await;
    assert_eq!(permits.available().await.unwrap(), 3 * i64::from(i32::MAX));
}

#[tokio::test(start_paused = true)]
async fn a_latch_opens_for_every_waiting_process() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.latch("a"), fixture.other().await.latch("a"));
    ours.opened().await.unwrap(); // never set
    assert!(ours.try_set(2).await.unwrap());
    assert!(!theirs.try_set(5).await.unwrap());
    let waiting = [tokio::spawn(ours.opened()), tokio::spawn(theirs.opened())];
    pass(millis(100)).await;
    assert_eq!(theirs.count_down().await.unwrap(), 1);
    pass(seconds(10)).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    let before = now();
    assert_eq!(theirs.count_down().await.unwrap(), 0);
    for waiting in waiting {
        waiting.await.unwrap().unwrap();
    }
    assert!(now() - before < millis(5));
    assert_eq!((ours.count().await.unwrap(), ours.count_down().await.unwrap()), (0, 0));
}

/// F27: in Redisson a waiter that missed the message waits for ever.
#[tokio::test(start_paused = true)]
async fn a_latch_is_found_open_without_its_notice() {
    let fixture = fixture().await;
    let (ours, theirs) = (fixture.engine.latch("a"), fixture.other().await.latch("a"));
    fixture.faults.on(Operation::Notice).always().inject(Fault::LoseRequest);
    ours.try_set(1).await.unwrap();
    let waiting = tokio::spawn(ours.opened());
    pass(millis(100)).await;
    assert!(theirs.delete().await.unwrap());
    let (done, took) = timed(waiting).await;
    done.unwrap().unwrap();
    assert!(took < seconds(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_closed_latch_times_out() {
    let fixture = fixture().await;
    let latch = fixture.engine.latch("a").wait(millis(250));
    latch.try_set(1).await.unwrap();
    let (outcome, took) = timed(latch.opened()).await;
    assert!(matches!(outcome, Err(CountError::TimedOut { .. })), "{outcome:?}");
    assert_eq!(took, millis(250));
}

#[tokio::test(start_paused = true)]
async fn steps_whose_answers_are_lost_count_once() {
    for lost in 1..8 {
        let fixture = fixture().await;
        let latch = fixture.engine.latch("a");
        latch.try_set(10).await.unwrap();
        fixture.faults.on(Operation::Count).nth(lost).times(2).inject(Fault::LoseReply);
        let steps: Vec<_> = (0..4).map(|_| tokio::spawn(latch.count_down())).collect();
        let mut left = Vec::new();
        for step in steps {
            left.push(step.await.unwrap().unwrap());
        }
        fixture.faults.clear();
        left.sort_unstable();
        assert_eq!((left, latch.count().await.unwrap()), (vec![6, 7, 8, 9], 6), "lost: {lost}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_dismisses_who_waits_and_sends_what_is_given_back() {
    let fixture = fixture().await;
    let (permits, latch) = (fixture.engine.semaphore("a"), fixture.engine.latch("b"));
    latch.try_set(1).await.unwrap();
    let (taking, opened) = (tokio::spawn(permits.acquire(1)), tokio::spawn(latch.opened()));
    pass(millis(100)).await;
    fixture.faults.on(Operation::Count).inject(Fault::DelayRequest(millis(200)));
    let giving = tokio::spawn(fixture.engine.semaphore("c").release(2));
    breathe().await;
    let report = fixture.engine.shutdown(seconds(5)).await;
    assert!(report.unconfirmed.is_empty(), "{report:?}");
    assert!(matches!(taking.await.unwrap(), Err(CountError::ShuttingDown)));
    assert!(matches!(opened.await.unwrap(), Err(CountError::ShuttingDown)));
    giving.await.unwrap().unwrap();
    assert!(matches!(permits.acquire(1).await, Err(CountError::ShuttingDown)));
    let other = engine(fixture.transport.inner()).await;
    assert_eq!(other.semaphore("c").available().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_names_what_was_not_confirmed() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::BlackHole);
    let giving = tokio::spawn(fixture.engine.semaphore("c").release(2));
    breathe().await;
    let report = fixture.engine.shutdown(seconds(3)).await;
    assert_eq!(report.unconfirmed, ["c"]);
    assert!(matches!(giving.await.unwrap(), Err(CountError::ShuttingDown)));
}

#[tokio::test(start_paused = true)]
async fn bad_values_are_refused_and_nothing_is_sent() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    let shown = |error: CountError| error.to_string();
    for refused in [permits.acquire(0).await, permits.release(1 << 31).await, permits.acquire(u32::MAX).await]
    {
        assert!(shown(refused.unwrap_err()).starts_with("permits = "));
    }
    assert!(shown(permits.try_set(1 << 31).await.unwrap_err()).contains("must be 0 to 2147483647"));
    assert!(shown(fixture.engine.latch("a").try_set(0).await.unwrap_err()).contains("count = 0"));
    assert!(shown(fixture.engine.semaphore("").acquire(1).await.unwrap_err()).contains("name"));
    let waiting = tokio::spawn(permits.acquire(1));
    breathe().await;
    let other_kind = fixture.engine.latch("a").count_down().await.unwrap_err();
    assert!(shown(other_kind).contains("in use as a semaphore"));
    waiting.abort();
}

fn few_waiters() -> EngineConfig {
    let mut config = EngineConfig::default();
    config.waiters_max = 2;
    config
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_waiting_callers_is_a_limit_of_theirs_too() {
    let transport = MemoryTransport::new();
    let engine: Engine = crate::fixture::builder(&transport).config(few_waiters()).build().await.unwrap();
    let permits = engine.semaphore("a");
    let waiting = [tokio::spawn(permits.acquire(1)), tokio::spawn(permits.acquire(1))];
    breathe().await;
    let refused = permits.acquire(1).await.unwrap_err();
    assert!(matches!(refused, CountError::LimitReached { limit: "waiters_max", value: 2 }), "{refused}");
    assert_eq!(engine.snapshot().waiting, 2);
    waiting.iter().for_each(|waiting| waiting.abort());
    settles_within(&engine, seconds(1)).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_transport_does_not_keep_is_refused_at_the_call() {
    let engine = engine(&Cluster::new(1)).await;
    let refused = engine.semaphore("a").acquire(1).await.unwrap_err();
    assert!(
        matches!(refused, CountError::Unsupported { kind: "semaphore", transport: "memory" }),
        "{refused}"
    );
    let refused = engine.latch("a").count_down().await.unwrap_err();
    assert!(matches!(refused, CountError::Unsupported { kind: "latch", .. }), "{refused}");
}

/// As those of locks: a server that has just come back is not flooded.
#[tokio::test(start_paused = true)]
async fn the_retries_of_many_names_share_a_rate() {
    let fixture = fixture().await;
    fixture.faults.cut(Cut::Refused);
    let calls: Vec<_> = (0..3_000)
        .map(|number| tokio::spawn(fixture.engine.semaphore(format!("name {number}")).release(1)))
        .collect();
    pass(seconds(3)).await;
    fixture.faults.heal();
    let before = now();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let took = now() - before;
    assert!(took >= millis(500), "5,000 a second: {took:?}");
    assert!(took < seconds(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn every_call_and_every_command_is_counted_once() {
    let fixture = ground_with(|builder| builder.metrics()).await;
    let (permits, latch) = (fixture.engine.semaphore("a"), fixture.engine.latch("b"));
    permits.try_set(1).await.unwrap();
    permits.acquire(1).await.unwrap();
    assert!(!permits.try_acquire(1).await.unwrap());
    permits.clone().wait(millis(10)).acquire(1).await.unwrap_err();
    let waiting = tokio::spawn(permits.acquire(1));
    breathe().await;
    waiting.abort();
    latch.opened().await.unwrap();
    fixture.faults.on(Operation::Count).inject(Fault::Refuse(ErrorKind::Denied));
    permits.release(1).await.unwrap_err();
    breathe().await;
    let numbers = Numbers::of(&fixture.engine);
    let calls = |counter, outcome| numbers.one("leasehold_counter_calls_total", &[counter, outcome]);
    let ended = ["done", "busy", "timeout", "cancelled", "error"].map(|outcome| calls("semaphore", outcome));
    assert_eq!((ended, calls("latch", "done")), ([2.0, 1.0, 1.0, 1.0, 1.0], 1.0));
    let command = |result| numbers.one("leasehold_backend_command_seconds", &["memory", "count", result]);
    assert!(command("ok") >= 7.0 && command("error") == 1.0, "{} {}", command("ok"), command("error"));
    assert_eq!(numbers.one("leasehold_backend_errors_total", &["memory", "count", "denied"]), 1.0);
    assert_eq!(fixture.engine.snapshot().granted, 0, "they are no leases");
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_answered_soon_after_the_server_is_back() {
    let fixture = fixture().await;
    let permits = fixture.engine.semaphore("a");
    permits.try_set(1).await.unwrap();
    fixture.faults.cut(Cut::BlackHole);
    let waiting = tokio::spawn(permits.acquire(1));
    until(now() + seconds(5)).await;
    fixture.faults.heal();
    let (done, took) = timed(waiting).await;
    done.unwrap().unwrap();
    assert!(took < seconds(2), "{took:?}");
}
