//! Server time and the clock it was read from.

use std::time::Duration;

use leasehold::transport::Outcome;

use super::{Context, Fixture, LONG};

/// An answer of another clock proves nothing, so it must be told which one it was.
pub async fn every_answer_carries_the_nodes_present_clock<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    let (Outcome::Granted { at: granted, .. }, Outcome::Busy { at: held, .. }) =
        (context.acquire(&key, owner, LONG).await, context.acquire(&key, context.owner(), LONG).await)
    else {
        panic!("granted, then held");
    };
    let Outcome::Renewed { at: renewed, .. } = context.renew(&key, owner, LONG).await else {
        panic!("renewed");
    };
    let seen = context.inspect(&key).await.at;
    let (Outcome::Released { at: released, .. }, Outcome::NotYours { at: not_yours }) =
        (context.release(&key, owner).await, context.release(&key, owner).await)
    else {
        panic!("released, then not");
    };
    let topology = context.calls.topology().borrow().clone();
    let clock = topology.serving(key.slot()).expect("a node that serves the key").clock;
    for at in [granted, held, renewed, seen, released, not_yours] {
        assert_eq!(at.clock, clock, "{at:?}");
        assert!(topology.is_current(at.clock), "{at:?}");
    }
}

/// Closing an owner waits for a server time to pass.
pub async fn server_time_moves_on<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let before = context.inspect(&key).await.at;
    context.sleep(Duration::from_millis(20)).await;
    let after = context.inspect(&key).await.at;
    assert_eq!(after.is_after(before), Some(true), "{before:?}, {after:?}");
    let micros = after.micros - before.micros;
    assert!((10_000..10_000_000).contains(&micros), "20 ms are not {micros} us");
}

/// From one answer to the next, over all lanes.
pub async fn server_time_never_runs_back<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let mut last = context.inspect(&key).await.at;
    for round in 0..100 {
        let lane = if round % 2 == 0 { &context.calls } else { &context.others };
        let at = lane.inspect(&key).await.expect("a definite answer").at;
        assert_eq!(last.is_after(at), Some(false), "{last:?}, {at:?}");
        last = at;
    }
}
