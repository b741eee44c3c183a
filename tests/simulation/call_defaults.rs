//! `wait` and `max_hold` of the engine's settings: they hold for calls that name none.

use std::time::Duration;

use leasehold::{AcquireError, CountError, Leader, LossReason, Quorum};
use leasehold_memory::MemoryTransport;

use crate::fixture::{builder, ground_with, millis, now, seconds};

#[tokio::test(start_paused = true)]
async fn calls_that_name_no_wait_have_that_of_the_settings() {
    let fixture = ground_with(|builder| builder.wait(seconds(2))).await;
    let engine = &fixture.engine;
    let _held = engine.lock("a").acquire().await.unwrap();
    let begun = now();
    let outcome = engine.lock("a").acquire().await;
    assert!(matches!(outcome, Err(AcquireError::TimedOut { waited }) if waited == seconds(2)), "{outcome:?}");
    let outcomes = engine.acquire_all(["a"]).await;
    assert!(matches!(&outcomes[0], Err(AcquireError::TimedOut { .. })), "{outcomes:?}");
    let permits = engine.permits("p");
    permits.try_set_total(1).await.unwrap();
    let _permit = permits.acquire(1).await.unwrap();
    assert!(matches!(permits.acquire(1).await, Err(AcquireError::TimedOut { .. })));
    let semaphore = engine.semaphore("s");
    semaphore.try_set(0).await.unwrap();
    assert!(matches!(semaphore.acquire(1).await, Err(CountError::TimedOut { .. })));
    assert!((seconds(8)..seconds(9)).contains(&(now() - begun)), "{:?}", now() - begun);
}

#[tokio::test(start_paused = true)]
async fn the_wait_of_a_call_wins_over_that_of_the_settings() {
    let fixture = ground_with(|builder| builder.wait(seconds(2))).await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    let short = fixture.engine.lock("a").wait(millis(300)).acquire().await;
    assert!(matches!(short, Err(AcquireError::TimedOut { waited }) if waited == millis(300)), "{short:?}");
    let long = tokio::spawn(fixture.engine.lock("a").wait(Duration::from_secs(315_360_000)).acquire());
    tokio::time::sleep(seconds(100)).await;
    held.release().await.unwrap();
    assert!(long.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn leases_that_name_no_max_hold_have_that_of_the_settings() {
    let fixture = ground_with(|builder| builder.max_hold(seconds(60))).await;
    let engine = &fixture.engine;
    let begun = now();
    let (hung, longer) = (engine.lock("a"), engine.lock("b").max_hold(Duration::MAX));
    let (hung, longer) = (hung.acquire().await.unwrap(), longer.acquire().await.unwrap());
    assert_eq!(hung.lost().await, LossReason::MaxHold);
    assert!((seconds(60)..=seconds(90)).contains(&(now() - begun)), "{:?}", now() - begun);
    tokio::time::sleep(seconds(600)).await;
    assert!(longer.is_held());
}

#[tokio::test(start_paused = true)]
async fn an_inner_call_of_a_scope_that_names_no_max_hold_has_that_of_the_outer_one() {
    let fixture = ground_with(|builder| builder.max_hold(seconds(60))).await;
    let scope = fixture.engine.reentry();
    let lock = fixture.engine.lock("a").reentry(&scope);
    let outer = lock.clone().max_hold(seconds(300)).acquire().await.unwrap();
    let _inner = lock.acquire().await.unwrap();
    tokio::time::sleep(seconds(200)).await;
    assert!(outer.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_quorum_has_the_shortest_of_its_engines() {
    let mut engines = Vec::new();
    for wait in [3, 2, 4] {
        let settings = builder(&MemoryTransport::new()).restart_grace(Duration::ZERO);
        engines.push(settings.wait(seconds(wait)).max_hold(seconds(60 * wait)).build().await.unwrap());
    }
    let quorum = Quorum::over(engines).unwrap();
    let lease = quorum.lock("a").acquire().await.unwrap();
    let begun = now();
    assert!(matches!(quorum.lock("a").acquire().await, Err(AcquireError::TimedOut { .. })));
    assert!((seconds(2)..seconds(4)).contains(&(now() - begun)), "{:?}", now() - begun);
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    assert!((seconds(100)..seconds(160)).contains(&(now() - begun)), "{:?}", now() - begun);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_waits_and_leads_without_the_limits_of_the_settings() {
    let memory = MemoryTransport::new();
    let engine = builder(&memory).wait(seconds(2)).max_hold(seconds(60)).build().await.unwrap();
    let held = engine.lock("leader").max_hold(Duration::MAX).acquire().await.unwrap();
    let leader = Leader::of(engine.lock("leader"));
    let watch = leader.watch();
    let running = tokio::spawn(leader.run(|term| async move {
        let lost = tokio::time::timeout(seconds(600), term.lost()).await;
        Ok::<_, ()>(lost.is_err())
    }));
    tokio::time::sleep(seconds(100)).await;
    assert!(!running.is_finished() && !watch.is_leading());
    held.release().await.unwrap();
    assert!(running.await.unwrap().unwrap(), "it led for ten minutes");
}
