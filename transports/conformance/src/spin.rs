//! Spin locks: their releases tell nobody.

use leasehold::transport::{HoldKind, Outcome};

use super::{Context, Fixture, LONG, of_kind};

/// A watch hears the release of a plain lock that follows, and nothing before it.
pub async fn a_spin_release_gives_no_notice<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let mut watch = context.watch_over(&*context.others, &key).await;
    let before = watch.observe().notices;
    let owner = context.held(&key, LONG).await;
    let released = context.release(&key, owner).await;
    assert!(matches!(released, Outcome::Released { listeners: None | Some(0), .. }), "{released:?}");
    let owner = context.held(&key, LONG).await;
    let plain = of_kind(HoldKind::Exclusive, context.release_request(&key, owner));
    let released = context.calls.call_one(plain).await;
    assert!(matches!(released, Outcome::Released { .. }), "{released:?}");
    while watch.observe().notices == before {
        watch.changed().await;
    }
    assert_eq!(watch.observe().notices, before + 1);
}
