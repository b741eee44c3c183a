//! Looking at a lock from outside, and ending holds by force.

use leasehold::transport::{LockMode, Remaining};

use super::{Context, Fixture, LONG, granted, is_about};

/// Nobody is shown where nobody is.
pub async fn a_free_lock_shows_no_hold<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    assert!(context.is_free(&key).await);
    let owner = context.held(&key, LONG).await;
    context.release(&key, owner).await;
    assert!(context.is_free(&key).await);
    assert_eq!(context.inspect(&key).await.mode(), LockMode::Free);
}

/// Our owners are shown as they are spelled, with a count of one and what is left.
pub async fn a_held_lock_shows_its_owner_once<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    let seen = context.others.inspect(&key).await.expect("a definite answer");
    assert_eq!((seen.holds.len(), seen.holds[0].count), (1, 1), "{seen:?}");
    assert_eq!(seen.holds[0].owner, context.shown(owner));
    assert!(is_about(context.left(&key).await, LONG));
    assert_eq!((seen.mode(), seen.holds[0].mode), (G::KIND.mode(), G::KIND.mode()), "{seen:?}");
    assert!(matches!(seen.holds[0].remaining, Remaining::For(left) if is_about(left, LONG)), "{seen:?}");
}

/// The operator's tool asks nobody.
pub async fn a_forced_release_ends_anybodys_hold<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    context.held(&key, LONG).await;
    assert!(context.others.force_release(&key).await.expect("a definite answer"));
    assert!(context.is_free(&key).await);
    assert!(!context.others.force_release(&key).await.expect("a definite answer"));
    granted(&context.acquire(&key, context.owner(), LONG).await);
}

/// It says that there was nothing to end.
pub async fn forcing_a_free_lock_is_false<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    assert!(!context.calls.force_release(&context.key("a")).await.expect("a definite answer"));
}
