//! Everything that can be done with a lock, once: over two lanes, and then by two engines.

use std::{future::Future, time::Duration};

use leasehold::{
    AuditLevel, Engine, FencingMode, Lease,
    transport::{Call, Outcome, Watch},
};
use leasehold_redis::{RedisConfig, RedisTransport};

use crate::lanes::Lanes;

/// Names begin with this.
pub(crate) const PREFIX: &str = "locks:";

/// All of it. The audit is to find no fault.
pub(crate) async fn tour(config: &RedisConfig) {
    let lanes = Lanes::open(config.clone()).await;
    over_lanes(&lanes).await;
    let [first, second] = [built(config).await, built(config).await];
    from_hand_to_hand(&first, &second).await;
    fenced_by_both_modes(config, &first).await;
    let report = first.audit().await;
    assert!(report.worst() < Some(AuditLevel::Error), "{report}");
}

async fn over_lanes(lanes: &Lanes) {
    let held = lanes.held("locks:tour").await;
    let refused = lanes.acquire(&lanes.wish("locks:tour")).await;
    assert!(matches!(refused, Ok(Outcome::Busy { .. })), "{refused:?}");
    let mut watch = lanes.calls.watch(&held.key);
    in_time(until(&mut watch, |watch| watch.peek().in_force)).await;
    assert!(lanes.is_renewed(&[&held]).await);
    assert_eq!(lanes.calls.inspect(&held.key).await.expect("an answer").holds.len(), 1);
    assert!(lanes.is_released(&held).await);
    in_time(until(&mut watch, |watch| watch.peek().notices > 0)).await;
    ended_by_force(lanes, &lanes.held("locks:tour").await).await;
}

async fn until(watch: &mut Watch, fact: impl Fn(&Watch) -> bool) {
    while !fact(watch) {
        watch.changed().await;
    }
}

async fn ended_by_force(lanes: &Lanes, held: &Call) {
    assert!(lanes.calls.force_release(&held.key).await.expect("an answer"));
    let released = lanes.release(held).await;
    assert!(matches!(released, Ok(Outcome::NotYours { .. })), "{released:?}");
}

async fn built(config: &RedisConfig) -> Engine {
    let builder = Engine::builder(RedisTransport::new(config.clone()));
    builder.name_prefix(PREFIX).ttl(TTL).build().await.expect("an engine")
}

/// A lease is renewed in the background, waited for by the other engine, and given back.
pub(crate) async fn from_hand_to_hand(first: &Engine, second: &Engine) {
    let lease = first.lock("hand").acquire().await.expect("a lease");
    let next = tokio::spawn(second.lock("hand").wait(PATIENCE).acquire());
    in_time(renewed(&lease)).await;
    assert!(!next.is_finished());
    lease.release().await.expect("released");
    let next = next.await.expect("no panic").expect("a lease");
    assert!(second.lock("hand").is_locked().await.expect("an answer"));
    next.release().await.expect("released");
}

/// A fenced lock is granted in both modes with a token that rises.
async fn fenced_by_both_modes(config: &RedisConfig, hybrid: &Engine) {
    let builder = Engine::builder(RedisTransport::new(config.clone())).fencing(FencingMode::Counter);
    let counts = builder.name_prefix(PREFIX).ttl(TTL).build().await.expect("an engine");
    let mut last = None;
    for engine in [hybrid, &counts, hybrid] {
        let lease = engine.fenced_lock("fenced").acquire().await.expect("a lease");
        assert!(Some(lease.fencing_token()) > last, "{last:?}");
        last = Some(lease.fencing_token());
        lease.release().await.expect("released");
    }
}

async fn renewed(lease: &Lease) {
    let mut least = lease.remaining();
    while lease.remaining() <= least {
        least = lease.remaining();
        tokio::time::sleep(LOOK).await;
    }
}

async fn in_time<T>(happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happens).await.expect("in time")
}

// Renewed after two seconds, and not lost on a machine that stands still for as long.
const TTL: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(20);
