//! Looking at a lock from outside, and ending holds by force.

use super::{Field, Ground, LONG, granted, is_about};

/// Nobody is shown where nobody is.
pub async fn a_free_lock_shows_no_hold<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    assert!(field.is_free(&key).await);
    let owner = field.held(&key, LONG).await;
    field.release(&key, owner).await;
    assert!(field.is_free(&key).await);
}

/// Our owners are shown as they are spelled, with a count of one and what is left.
pub async fn a_held_lock_shows_its_owner_once<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, LONG).await;
    let seen = field.others.inspect(&key).await.expect("a definite answer");
    assert_eq!((seen.holds.len(), seen.holds[0].count), (1, 1), "{seen:?}");
    assert_eq!(seen.holds[0].owner, owner.to_string());
    assert!(is_about(field.left(&key).await, LONG));
}

/// The operator's tool asks nobody.
pub async fn a_forced_release_ends_anybodys_hold<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    field.held(&key, LONG).await;
    assert!(field.others.force_release(&key).await.expect("a definite answer"));
    assert!(field.is_free(&key).await);
    assert!(!field.others.force_release(&key).await.expect("a definite answer"));
    granted(&field.acquire(&key, field.owner(), LONG).await);
}

/// It says that there was nothing to end.
pub async fn forcing_a_free_lock_is_false<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    assert!(!field.calls.force_release(&field.key("a")).await.expect("a definite answer"));
}
