//! Server time and the clock it was read from.

use std::time::Duration;

use leasehold::transport::{AcquireReply, ReleaseReply, RenewalAnswer};

use super::{Field, Ground, LONG};

/// An answer of another clock proves nothing, so it must be told which one it was.
pub async fn every_answer_carries_the_nodes_present_clock<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, owner) = (field.key("a"), field.owner());
    let (AcquireReply::Granted { at: granted, .. }, AcquireReply::Held { at: held, .. }) =
        (field.acquire(&key, owner, LONG).await, field.acquire(&key, field.owner(), LONG).await)
    else {
        panic!("granted, then held");
    };
    let RenewalAnswer::Renewed { at: renewed, .. } = field.renew(&key, owner, LONG).await else {
        panic!("renewed");
    };
    let seen = field.inspect(&key).await.at;
    let (ReleaseReply::Released { at: released, .. }, ReleaseReply::NotYours { at: not_yours }) =
        (field.release(&key, owner).await, field.release(&key, owner).await)
    else {
        panic!("released, then not");
    };
    let topology = field.calls.topology().borrow().clone();
    let clock = topology.serving(key.slot()).expect("a node that serves the key").clock;
    for at in [granted, held, renewed, seen, released, not_yours] {
        assert_eq!(at.clock, clock, "{at:?}");
        assert!(topology.is_current(at.clock), "{at:?}");
    }
}

/// Closing an owner waits for a server time to pass.
pub async fn server_time_moves_on<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let before = field.inspect(&key).await.at;
    field.sleep(Duration::from_millis(20)).await;
    let after = field.inspect(&key).await.at;
    assert_eq!(after.is_after(before), Some(true), "{before:?}, {after:?}");
    let micros = after.micros - before.micros;
    assert!((10_000..10_000_000).contains(&micros), "20 ms are not {micros} us");
}

/// From one answer to the next, over all lanes.
pub async fn server_time_never_runs_back<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let mut last = field.inspect(&key).await.at;
    for round in 0..100 {
        let lane = if round % 2 == 0 { &field.calls } else { &field.others };
        let at = lane.inspect(&key).await.expect("a definite answer").at;
        assert_eq!(last.is_after(at), Some(false), "{last:?}, {at:?}");
        last = at;
    }
}
