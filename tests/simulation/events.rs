//! What a recorder hears: the events that metrics will be made of.

use crate::fixture::{fixture, millis, pass};

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_granted_without_contention_and_a_held_one_with() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let first = lock.acquire().await.unwrap();
    let waiting = tokio::spawn(lock.acquire());
    pass(millis(10)).await;
    first.release().await.unwrap();
    let _second = waiting.await.unwrap().unwrap();
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.contended), (2, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn every_wait_that_started_ends_in_one_way() {
    let fixture = fixture().await;
    let lock = fixture.engine.lock("a");
    let held = lock.acquire().await.unwrap();
    assert!(lock.wait(millis(50)).acquire().await.is_err());
    let dropped = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(10)).await;
    dropped.abort();
    pass(millis(10)).await;
    held.release().await.unwrap();
    let heard = fixture.heard.counts();
    assert_eq!((heard.waits, heard.granted, heard.timed_out, heard.cancelled), (3, 1, 1, 1));
    assert_eq!((fixture.engine.snapshot().waiting, heard.failed), (0, 0));
}
