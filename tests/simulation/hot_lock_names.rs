//! The metric that names the hottest locks: none unless it is switched on, at most ten, the hottest ones, and only as
//! long as callers wait for them.

use leasehold::{Engine, EngineConfig};
use leasehold_tests::conservation::Numbers;

use crate::fixture::{Fixture, ground_with, pass, seconds};

const METRIC: &str = "leasehold_hot_lock_wait_seconds";

async fn fixture(hot_lock_names: bool) -> Fixture {
    let mut config = EngineConfig::default();
    (config.name_prefix, config.hot_lock_names) = ("app:".to_owned(), hot_lock_names);
    ground_with(|builder| builder.config(config).metrics()).await
}

/// A caller waits for the lock for so long.
async fn wait_for(engine: &Engine, name: &str, length: u64) {
    let held = engine.lock(name).acquire().await.unwrap();
    let waiting = tokio::spawn(engine.lock(name).acquire());
    pass(seconds(length)).await;
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// The names with whole seconds, in the order of the samples.
fn named(engine: &Engine) -> Vec<(String, u64)> {
    let families = engine.metrics().unwrap().read();
    let family = families.into_iter().find(|family| family.descriptor.name == METRIC).unwrap();
    let numbers = Numbers::of(engine);
    let of = |name: String| (name.clone(), numbers.one(METRIC, &[&name]) as u64);
    family.samples.into_iter().map(|mut sample| of(sample.labels.remove(0))).collect()
}

#[tokio::test(start_paused = true)]
async fn no_metric_names_a_lock_by_default() {
    assert!(!EngineConfig::default().hot_lock_names);
    let fixture = fixture(false).await;
    wait_for(&fixture.engine, "private", 5).await;
    assert_eq!(fixture.engine.most_contended().len(), 1);
    let families = fixture.engine.metrics().unwrap().read();
    let labels: Vec<_> =
        families.iter().flat_map(|family| &family.samples).flat_map(|sample| &sample.labels).collect();
    assert!(!labels.iter().any(|label| label.contains("private")), "{labels:?}");
}

#[tokio::test(start_paused = true)]
async fn the_ten_hottest_locks_are_named_the_hottest_first() {
    let fixture = fixture(true).await;
    for length in 1..=8 {
        wait_for(&fixture.engine, &format!("a{length}"), length).await;
    }
    for name in ["b \"quoted\"\n", "b1", "b2", "b3"] {
        wait_for(&fixture.engine, name, 2).await;
    }
    let named = named(&fixture.engine);
    assert_eq!(named.len(), 10, "{named:?}");
    assert_eq!(named[0], ("a8".to_owned(), 8), "without the prefix: {named:?}");
    assert!(named.is_sorted_by(|one, next| one.1 >= next.1), "{named:?}");
    assert!(!named.iter().any(|(name, _)| name == "a1"), "the coolest is left out: {named:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_goes_when_callers_wait_no_more() {
    let fixture = fixture(true).await;
    wait_for(&fixture.engine, "a", 3).await;
    assert_eq!(named(&fixture.engine), [("a".to_owned(), 3)]);
    pass(seconds(130)).await;
    assert_eq!(named(&fixture.engine), []);
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_makes_a_lock_hot() {
    let fixture = fixture(true).await;
    let lock = fixture.engine.lock("a");
    let held = lock.acquire().await.unwrap();
    lock.clone().wait(seconds(2)).acquire().await.unwrap_err();
    drop(held);
    assert_eq!(named(&fixture.engine), [("a".to_owned(), 2)]);
}
