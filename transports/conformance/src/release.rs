//! Giving a lock back.

use leasehold::transport::Outcome;

use super::{Context, Fixture, LONG, SHORT, granted, is_about};

fn is_released(reply: Outcome) -> bool {
    matches!(reply, Outcome::Released { .. })
}

/// The next one gets it.
pub async fn a_release_by_the_owner_frees<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    assert!(is_released(context.release(&key, owner).await));
    assert!(context.is_free(&key).await);
    granted(&context.acquire(&key, context.owner(), LONG).await);
}

/// S4.
pub async fn a_release_by_another_owner_changes_nothing<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    assert!(!is_released(context.release(&key, context.owner()).await));
    assert!(context.is_held_by(&key, owner).await);
    assert!(is_about(context.left(&key).await, LONG));
}

/// A repeated release is told apart from the first.
pub async fn a_second_release_is_not_yours<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, LONG).await;
    assert!(is_released(context.release(&key, owner).await));
    assert!(!is_released(context.release(&key, owner).await));
}

/// There is nothing to give back.
pub async fn releasing_a_free_lock_is_not_yours<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    assert!(!is_released(context.release(&key, context.owner()).await));
    assert!(context.is_free(&key).await);
}

/// The holder that comes late hears that it was late.
pub async fn releasing_what_ran_out_is_not_yours<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let owner = context.held(&key, SHORT).await;
    context.until(async || context.is_free(&key).await).await;
    assert!(!is_released(context.release(&key, owner).await));
}

/// The fault of every lock that releases by name only.
pub async fn a_late_release_spares_the_next_owner<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let late = context.held(&key, SHORT).await;
    context.until(async || context.is_free(&key).await).await;
    let next = context.held(&key, LONG).await;
    assert!(!is_released(context.release(&key, late).await));
    assert!(context.is_held_by(&key, next).await);
}
