//! A peer's hold without expiry: told once, polled for, and never waited for in vain.

use std::sync::Arc;

use leasehold::key::LockKey;
use leasehold_memory::PeerHold;

use crate::fixture::{Fixture, fixture, millis, pass, seconds, timed};

fn put(fixture: &Fixture) -> Arc<LockKey> {
    let key = LockKey::new("", "a").unwrap();
    let peer = PeerHold { owner: "an old client:1".into(), count: 1, ttl: None };
    fixture.transport.inner().put_peer_hold(&key, peer);
    key
}

#[tokio::test(start_paused = true)]
async fn try_acquire_is_none_and_one_warning_is_told_however_many_wait() {
    let fixture = fixture().await;
    put(&fixture);
    let waiting: Vec<_> = (0..10).map(|_| tokio::spawn(fixture.engine.lock("a").acquire())).collect();
    pass(seconds(60)).await;
    assert!(fixture.engine.lock("a").try_acquire().await.unwrap().is_none());
    assert_eq!(fixture.heard.counts().no_expiry, 1);
    let asks = fixture.engine.snapshot().asks;
    assert!((50..=65).contains(&asks), "they poll once a second, as one: {asks}");
    waiting.iter().for_each(|task| task.abort());
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_it_after_it_was_deleted() {
    let fixture = fixture().await;
    put(&fixture);
    let waiting = tokio::spawn(fixture.engine.lock("a").acquire());
    pass(seconds(30)).await;
    assert!(!waiting.is_finished());
    // A delete by hand publishes no notice; this one does, so drop it.
    fixture.faults.on(leasehold_memory::Operation::Notice).inject(leasehold_memory::Fault::LoseRequest);
    assert!(fixture.other().await.lock("a").force_release().await.unwrap());
    let (lease, took) = timed(waiting).await;
    assert!(lease.unwrap().unwrap().is_held());
    assert!(took <= millis(1_101), "{took:?}");
}
