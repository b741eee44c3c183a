//! Spin locks: callers that poll, and releases that tell nobody.

use crate::fixture::{fixture, millis, now, pass, seconds};

#[tokio::test(start_paused = true)]
async fn l2_a_spin_caller_polls_as_one_of_its_engine_and_subscribes_to_nothing() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let held = other.spin_lock("a").acquire().await.unwrap();
    let waiting: Vec<_> = (0..10).map(|_| tokio::spawn(fixture.engine.spin_lock("a").acquire())).collect();
    pass(seconds(10)).await;
    let asks = fixture.engine.snapshot().asks;
    assert!((85..=170).contains(&asks), "one poll in 64 to 128 ms: {asks}");
    assert_eq!(fixture.transport.inner().watched_keys(), 0);
    let released = now();
    held.release().await.unwrap();
    let mut waiting = waiting.into_iter();
    let first = waiting.next().unwrap().await.unwrap().unwrap();
    let took = now() - released;
    assert!(took <= millis(130), "{took:?}");
    first.release().await.unwrap();
    for task in waiting {
        task.await.unwrap().unwrap().release().await.unwrap();
    }
    assert!(now() - released <= millis(200), "in one engine no caller waits for a poll");
    fixture.settles_within(millis(50)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_polls_follow_within_milliseconds() {
    let fixture = fixture().await;
    let held = fixture.other().await.spin_lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.spin_lock("a").acquire());
    pass(millis(5)).await;
    let released = now();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_held());
    assert!(now() - released <= millis(9), "{:?}", now() - released);
}

#[tokio::test(start_paused = true)]
async fn a_plain_caller_of_another_engine_finds_a_spin_release_by_its_safety_poll() {
    let fixture = fixture().await;
    let held = fixture.other().await.spin_lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(seconds(5)).await;
    let released = now();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_held());
    let took = now() - released;
    assert!(took > millis(5) && took <= millis(1_101), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_spin_caller_takes_turns_with_plain_callers_of_its_engine() {
    let fixture = fixture().await;
    let held = fixture.engine.lock("a").acquire().await.unwrap();
    let spin = tokio::spawn(fixture.engine.spin_lock("a").acquire());
    pass(millis(1)).await;
    let plain = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(millis(1)).await;
    let released = now();
    held.release().await.unwrap();
    let spin = spin.await.unwrap().unwrap();
    assert!(!plain.is_finished());
    spin.release().await.unwrap();
    assert!(plain.await.unwrap().unwrap().is_held());
    assert!(now() - released <= millis(5));
}

#[tokio::test(start_paused = true)]
async fn spin_callers_of_many_names_ask_a_node_5000_times_a_second_at_most() {
    let fixture = fixture().await;
    let other = fixture.other().await;
    let names: Vec<_> = (0..2_000).map(|number| format!("{number}")).collect();
    let held: Vec<_> = other.acquire_all(&names).await.into_iter().map(Result::unwrap).collect();
    let waiting: Vec<_> =
        names.iter().map(|name| tokio::spawn(fixture.engine.spin_lock(name).acquire())).collect();
    pass(seconds(2)).await;
    let before = fixture.engine.snapshot().asks;
    pass(seconds(2)).await;
    let asks = fixture.engine.snapshot().asks - before;
    assert!((9_000..=10_300).contains(&asks), "{asks} in 2 s");
    waiting.iter().for_each(|task| task.abort());
    drop(held);
}
