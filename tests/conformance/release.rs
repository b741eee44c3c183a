//! Giving a lock back.

use leasehold::transport::ReleaseReply;

use super::{Field, Ground, LONG, SHORT, granted, is_about};

fn is_released(reply: ReleaseReply) -> bool {
    match reply {
        ReleaseReply::Released { .. } => true,
        ReleaseReply::NotYours { .. } => false,
    }
}

/// The next one gets it.
pub async fn a_release_by_the_owner_frees<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, LONG).await;
    assert!(is_released(field.release(&key, owner).await));
    assert!(field.is_free(&key).await);
    granted(&field.acquire(&key, field.owner(), LONG).await);
}

/// S4.
pub async fn a_release_by_another_owner_changes_nothing<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, LONG).await;
    assert!(!is_released(field.release(&key, field.owner()).await));
    assert!(field.is_held_by(&key, owner).await);
    assert!(is_about(field.left(&key).await, LONG));
}

/// A repeated release is told apart from the first.
pub async fn a_second_release_is_not_yours<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, LONG).await;
    assert!(is_released(field.release(&key, owner).await));
    assert!(!is_released(field.release(&key, owner).await));
}

/// There is nothing to give back.
pub async fn releasing_a_free_lock_is_not_yours<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    assert!(!is_released(field.release(&key, field.owner()).await));
    assert!(field.is_free(&key).await);
}

/// The holder that comes late hears that it was late.
pub async fn releasing_what_ran_out_is_not_yours<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let owner = field.held(&key, SHORT).await;
    field.until(async || field.is_free(&key).await).await;
    assert!(!is_released(field.release(&key, owner).await));
}

/// The fault of every lock that releases by name only.
pub async fn a_late_release_spares_the_next_owner<G: Ground>(ground: &G) {
    let field = Field::open(ground).await;
    let key = field.key("a");
    let late = field.held(&key, SHORT).await;
    field.until(async || field.is_free(&key).await).await;
    let next = field.held(&key, LONG).await;
    assert!(!is_released(field.release(&key, late).await));
    assert!(field.is_held_by(&key, next).await);
}
