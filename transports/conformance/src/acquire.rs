//! Asking for a lock.

use std::time::Duration;

use leasehold::{
    FencingToken,
    transport::{Call, HoldKind, Remaining},
};

use super::{Context, Fixture, LONG, SHORT, granted, held, is_about, is_too_late};

/// The first to ask gets it.
pub async fn a_free_lock_is_granted<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    granted(&context.acquire(&key, owner, LONG).await);
    assert!(context.is_held_by(&key, owner).await);
}

/// Exclusion, and what a waiting caller needs to know.
pub async fn a_held_lock_is_refused_with_what_is_left<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    match held(&context.acquire(&key, context.owner(), LONG).await) {
        Remaining::For(left) => assert!(is_about(left, LONG), "{left:?}"),
        Remaining::NotKnown => {}
        Remaining::NoExpiry => panic!("our own hold without an expiry"),
        other => panic!("a hold of the exclusive kind, not {other:?}"),
    }
    assert!(context.is_held_by(&key, owner).await);
}

/// The ttl that was asked for is the one that is kept.
pub async fn a_grant_lasts_for_its_ttl<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    for (name, ttl) in [("a", LONG), ("b", 10 * LONG)] {
        context.held(&context.key(name), ttl).await;
        let left = context.left(&context.key(name)).await;
        assert!(is_about(left, ttl), "{left:?} of {ttl:?}");
    }
}

/// `Capabilities::ttl_max` is no empty promise.
pub async fn the_longest_ttl_is_kept<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, longest) = (context.key("a"), fixture.transport().capabilities().ttl_max);
    let owner = context.held(&key, longest).await;
    assert!(is_about(context.left(&key).await, longest));
    context.renew(&key, owner, longest).await;
    assert!(is_about(context.left(&key).await, longest));
}

/// S5: a resend after a lost reply never counts twice, so one release frees.
pub async fn acquiring_again_is_granted_and_counts_once<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    for _ in 0..3 {
        granted(&context.acquire(&key, owner, LONG).await);
    }
    assert!(context.is_held_by(&key, owner).await);
    context.release(&key, owner).await;
    assert!(context.is_free(&key).await);
}

/// The answer to a resend promises the ttl from its own execution on.
pub async fn acquiring_again_lasts_for_its_ttl<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    granted(&context.acquire(&key, owner, LONG).await);
    granted(&context.acquire(&key, owner, 2 * LONG).await);
    assert!(is_about(context.left(&key).await, 2 * LONG));
}

/// A late copy with a short ttl takes nothing away from the holder.
pub async fn acquiring_again_never_shortens<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    granted(&context.acquire(&key, owner, LONG).await);
    granted(&context.acquire(&key, owner, SHORT).await);
    assert!(is_about(context.left(&key).await, LONG));
}

/// S5: what comes late leaves no lock that nobody holds.
pub async fn an_acquire_past_its_limit_is_not_executed<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let request = late(context.acquire_request(&key, context.owner(), LONG), &context);
    let reply = context.calls.call_one(request).await;
    assert!(is_too_late(&reply), "{reply:?}");
    assert!(context.is_free(&key).await);
}

/// Not executed means not for the holder either.
pub async fn an_acquire_past_its_limit_does_not_lengthen<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let reply = context.calls.call_one(late(context.acquire_request(&key, owner, 2 * LONG), &context)).await;
    assert!(is_too_late(&reply), "{reply:?}");
    assert!(is_about(context.left(&key).await, LONG));
}

/// S6, also when grants follow each other as fast as they can, over several lanes. With
/// [`Capabilities::hand_offs`](leasehold::transport::Capabilities::hand_offs) each grant leaves 1,023 tokens of exclusive locks
/// for hand-offs.
pub async fn every_grant_has_a_higher_token<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, mut last) = (context.key("a"), None::<FencingToken>);
    let hands_off = G::KIND == HoldKind::Exclusive && fixture.transport().capabilities().hand_offs;
    let room = if hands_off { 1_023 } else { 0 };
    for round in 0..50 {
        let (owner, lane) = (context.owner(), if round % 2 == 0 { &context.calls } else { &context.others });
        let token = granted(&context.acquire_over(&**lane, &key, owner, LONG).await);
        assert!(last.is_none_or(|last| token.as_i64() - last.as_i64() > room), "{token} after {last:?}");
        last = Some(token);
        context.release(&key, owner).await;
    }
}

/// A holder that died is in the way for its ttl and no longer.
pub async fn a_hold_that_ran_out_is_free<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    context.held(&key, SHORT).await;
    context.until(async || context.is_free(&key).await).await;
    granted(&context.acquire(&key, context.owner(), LONG).await);
}

fn late(request: Call, context: &Context) -> Call {
    request.with_execute_by(context.now().before(Duration::from_secs(10)))
}
