//! The most contended locks are named in the log once a minute.

use std::time::Duration;

use leasehold::Engine;
use leasehold_memory::MemoryTransport;
use tracing::Level;

use crate::capture::Capture;

const TARGET: &str = "leasehold::contention";

async fn wait_for(engine: &Engine, name: &str, time: Duration) {
    let held = engine.lock(name).acquire().await.expect("free");
    let waiting = tokio::spawn(engine.lock(name).acquire());
    tokio::time::sleep(time).await;
    drop(held);
    drop(waiting.await.expect("no panic").expect("a lease"));
}

#[tokio::test(start_paused = true)]
async fn the_five_most_contended_locks_are_named_once_a_minute_the_first_first() {
    let capture = Capture::start();
    let engine =
        Engine::builder(MemoryTransport::new()).on_current_runtime().build().await.expect("an engine");
    for seconds in 1..=6 {
        wait_for(&engine, &format!("orders:{seconds}"), Duration::from_secs(seconds)).await;
    }
    assert_eq!(capture.events(TARGET).len(), 0, "the minute is not over");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let told = capture.events(TARGET);
    let [line] = &told[..] else { panic!("{told:?}") };
    assert_eq!((line.level, line.field("message")), (Level::INFO, Some("most contended in the last minute")));
    let locks = line.field("locks").expect("which");
    assert!(
        locks.starts_with("\"orders:6\" (1 waits, 6.0s in all), \"orders:5\" (1 waits, 5.0s in all)"),
        "{locks}"
    );
    assert!(locks.contains("orders:2") && !locks.contains("orders:1"), "five of six: {locks}");
    assert!(line.inside.is_empty(), "no call is around it: {:?}", line.inside);
    wait_for(&engine, "orders:1", Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_secs(180)).await;
    let told = capture.events(TARGET);
    assert_eq!(told.len(), 2, "one for each minute in which somebody waited: {told:?}");
    assert!(
        told[1].field("locks").is_some_and(|locks| locks.contains("orders:1") && !locks.contains("orders:6"))
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_locks_that_nobody_waits_for() {
    let capture = Capture::start();
    let engine =
        Engine::builder(MemoryTransport::new()).on_current_runtime().build().await.expect("an engine");
    for _ in 0..10 {
        engine.lock("a").acquire().await.expect("free").release().await.expect("ours");
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    assert_eq!(capture.events(TARGET).len(), 0);
}
