//! Hearing that a hold has ended.

use std::sync::Arc;

use leasehold::{
    key::LockKey,
    transport::{Outcome, Watch},
};

use super::{Context, Fixture, LONG};

/// And stays so while nothing happens.
pub async fn a_watch_comes_into_force<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let mut watch = context.watch_over(&*context.calls, &context.key("a")).await;
    let state = watch.observe();
    assert!(state.in_force && state.gaps == 0, "{state:?}");
    assert!(fixture.transport().capabilities().notices);
}

/// To a watch in the process that releases, and to one in another.
pub async fn a_release_gives_notice<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    for lane in [&context.calls, &context.others] {
        let mut watch = context.watch_over(&**lane, &key).await;
        let before = watch.observe().notices;
        end_a_hold(&context, &key).await;
        until_noticed(&mut watch, before + 1).await;
    }
}

/// The operator's tool wakes them too.
pub async fn a_forced_release_gives_notice<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let mut watch = context.watch_over(&*context.calls, &key).await;
    let before = watch.observe().notices;
    context.held(&key, LONG).await;
    context.others.force_release(&key).await.expect("a definite answer");
    until_noticed(&mut watch, before + 1).await;
}

/// While in force and without a gap, each release is counted, however fast they follow each other.
pub async fn no_release_goes_unnoticed_in_force<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let mut watch = context.watch_over(&*context.others, &key).await;
    let before = watch.observe();
    for _ in 0..50 {
        end_a_hold(&context, &key).await;
    }
    until_noticed(&mut watch, before.notices + 50).await;
    let state = watch.observe();
    assert_eq!((state.in_force, state.gaps), (true, before.gaps));
}

/// Several interests of one lane, and those of others.
pub async fn every_watch_of_a_key_gets_notice<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let mut watches = vec![];
    for lane in [&context.calls, &context.calls, &context.others] {
        watches.push(context.watch_over(&**lane, &key).await);
    }
    let before: Vec<_> = watches.iter_mut().map(|watch| watch.observe().notices).collect();
    end_a_hold(&context, &key).await;
    for (watch, before) in watches.iter_mut().zip(before) {
        until_noticed(watch, before + 1).await;
    }
}

/// The end of one interest is not the end of the subscription.
pub async fn a_dropped_watch_hinders_no_other<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    let dropped = context.watch_over(&*context.calls, &key).await;
    let mut watch = context.watch_over(&*context.calls, &key).await;
    drop(dropped);
    for _ in 0..5 {
        let before = watch.observe().notices;
        end_a_hold(&context, &key).await;
        until_noticed(&mut watch, before + 1).await;
    }
}

/// Where it can be known: nobody before, somebody while there is a watch, nobody some time after.
pub async fn a_release_counts_who_listens<G: Fixture>(fixture: &G) {
    let context = Context::open(fixture).await;
    let key = context.key("a");
    assert!(matches!(end_a_hold(&context, &key).await, None | Some(0)));
    let watch = context.watch_over(&*context.others, &key).await;
    let listeners = end_a_hold(&context, &key).await;
    assert!(listeners != Some(0), "{listeners:?}");
    drop(watch);
    context.until(async || matches!(end_a_hold(&context, &key).await, None | Some(0))).await;
}

async fn end_a_hold(context: &Context, key: &Arc<LockKey>) -> Option<u32> {
    let owner = context.held(key, LONG).await;
    match context.release(key, owner).await {
        Outcome::Released { listeners, .. } => listeners,
        reply => panic!("released, not {reply:?}"),
    }
}

async fn until_noticed(watch: &mut Watch, notices: u64) {
    while watch.observe().notices < notices {
        watch.changed().await;
    }
}
