//! Holds that another kind of client left, which may look as ours never do.

use leasehold::transport::{Outcome, Remaining};

use super::{Context, LONG, PeerGround, granted, held, is_about};

const PEER: &str = "5f1c7a3e-6a4b-4a50-9f29-0d6a3c1e9b77:1:63";

/// S9: a waiting caller polls, since this hold does not end by itself.
pub async fn a_peers_hold_without_expiry_is_held_without_expiry<G: PeerGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    fixture.put_peer_hold(&key, PEER, 1, None).await;
    let remaining = held(&context.acquire(&key, context.owner(), LONG).await);
    assert_eq!(remaining, Remaining::NoExpiry);
    let seen = context.inspect(&key).await;
    assert_eq!((seen.holds.len(), seen.remaining), (1, Remaining::NoExpiry), "{seen:?}");
}

/// Shown, not repaired, and nothing is concluded from it.
pub async fn a_peers_hold_and_its_count_are_shown<G: PeerGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    fixture.put_peer_hold(&key, PEER, 3, Some(LONG)).await;
    held(&context.acquire(&key, context.owner(), LONG).await);
    let seen = context.inspect(&key).await;
    assert_eq!((seen.holds[0].owner.as_str(), seen.holds[0].count), (PEER, 3), "{seen:?}");
    assert!(is_about(context.left(&key).await, LONG));
}

/// S4 holds for them as well.
pub async fn a_peers_hold_can_be_neither_released_nor_renewed<G: PeerGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    fixture.put_peer_hold(&key, PEER, 2, Some(LONG)).await;
    let released = context.release(&key, owner).await;
    assert!(matches!(released, Outcome::NotYours { .. }), "{released:?}");
    let renewed = context.renew(&key, owner, 2 * LONG).await;
    assert!(matches!(renewed, Outcome::NotYours { .. }), "{renewed:?}");
    assert_eq!(context.inspect(&key).await.holds[0].count, 2);
    assert!(is_about(context.left(&key).await, LONG));
}

/// However often it counts and however long it lasts.
pub async fn a_peers_hold_can_be_forced<G: PeerGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    for (name, count, ttl) in [("a", 1, None), ("b", 3, Some(LONG))] {
        let key = context.key(name);
        fixture.put_peer_hold(&key, PEER, count, ttl).await;
        assert!(context.calls.force_release(&key).await.expect("a definite answer"));
        granted(&context.acquire(&key, context.owner(), LONG).await);
    }
}
