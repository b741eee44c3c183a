//! Asking for a lock.

use std::time::Duration;

use leasehold::transport::{Acquire, Remaining};

use super::{Field, Ground, LONG, SHORT, granted, held, is_about, is_too_late};

/// The first to ask gets it.
pub async fn a_free_lock_is_granted<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, owner) = (field.key("a"), field.owner());
    granted(&field.acquire(&key, owner, LONG).await);
    assert!(field.is_held_by(&key, owner).await);
}

/// Exclusion, and what a waiting caller needs to know.
pub async fn a_held_lock_is_refused_with_what_is_left<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, LONG).await;
    match held(&field.acquire(&key, field.owner(), LONG).await) {
        Remaining::For(left) => assert!(is_about(left, LONG), "{left:?}"),
        Remaining::NotKnown => {}
        Remaining::NoExpiry => panic!("our own hold without an expiry"),
    }
    assert!(field.is_held_by(&key, owner).await);
}

/// The ttl that was asked for is the one that is kept.
pub async fn a_grant_lasts_for_its_ttl<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    for (name, ttl) in [("a", LONG), ("b", 10 * LONG)] {
        field.held(&field.key(name), ttl).await;
        let left = field.left(&field.key(name)).await;
        assert!(is_about(left, ttl), "{left:?} of {ttl:?}");
    }
}

/// `Capabilities::ttl_max` is no empty promise.
pub async fn the_longest_ttl_is_kept<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, longest) = (field.key("a"), ground.transport().capabilities().ttl_max);
    let owner = field.held(&key, longest).await;
    assert!(is_about(field.left(&key).await, longest));
    field.renew(&key, owner, longest).await;
    assert!(is_about(field.left(&key).await, longest));
}

/// S5: a resend after a lost reply never counts twice, so one release frees.
pub async fn acquiring_again_is_granted_and_counts_once<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, owner) = (field.key("a"), field.owner());
    for _ in 0..3 {
        granted(&field.acquire(&key, owner, LONG).await);
    }
    assert!(field.is_held_by(&key, owner).await);
    field.release(&key, owner).await;
    assert!(field.is_free(&key).await);
}

/// The answer to a resend promises the ttl from its own execution on.
pub async fn acquiring_again_lasts_for_its_ttl<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, owner) = (field.key("a"), field.owner());
    granted(&field.acquire(&key, owner, LONG).await);
    granted(&field.acquire(&key, owner, 2 * LONG).await);
    assert!(is_about(field.left(&key).await, 2 * LONG));
}

/// A late copy with a short ttl takes nothing away from the holder.
pub async fn acquiring_again_never_shortens<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, owner) = (field.key("a"), field.owner());
    granted(&field.acquire(&key, owner, LONG).await);
    granted(&field.acquire(&key, owner, SHORT).await);
    assert!(is_about(field.left(&key).await, LONG));
}

/// S5: what comes late leaves no lock that nobody holds.
pub async fn an_acquire_past_its_limit_is_not_executed<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let request = late(field.acquire_request(&key, field.owner(), LONG), &field);
    let reply = field.calls.acquire(request).await;
    assert!(is_too_late(&reply), "{reply:?}");
    assert!(field.is_free(&key).await);
}

/// Not executed means not for the holder either.
pub async fn an_acquire_past_its_limit_does_not_lengthen<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, LONG).await;
    let reply = field.calls.acquire(late(field.acquire_request(&key, owner, 2 * LONG), &field)).await;
    assert!(is_too_late(&reply), "{reply:?}");
    assert!(is_about(field.left(&key).await, LONG));
}

/// S6, also when grants follow each other as fast as they can, over several lanes.
pub async fn every_grant_has_a_higher_token<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, mut last) = (field.key("a"), None);
    for round in 0..50 {
        let (owner, lane) = (field.owner(), if round % 2 == 0 { &field.calls } else { &field.others });
        let token = granted(&field.acquire_over(&**lane, &key, owner, LONG).await);
        assert!(last < Some(token), "{token} after {last:?}");
        last = Some(token);
        field.release(&key, owner).await;
    }
}

/// A holder that died is in the way for its ttl and no longer.
pub async fn a_hold_that_ran_out_is_free<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    field.held(&key, SHORT).await;
    field.until(async || field.is_free(&key).await).await;
    granted(&field.acquire(&key, field.owner(), LONG).await);
}

fn late(request: Acquire, field: &Field) -> Acquire {
    Acquire { execute_by: field.now().before(Duration::from_secs(10)), ..request }
}
